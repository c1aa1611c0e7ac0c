// Starts a program that is not a child of this process: nobody who waits for children here hears of it, and it has
// none of this process's descriptors, signals or places.
#pragma once

#include <string>
#include <vector>

namespace uroce {

struct DetachedProcess {
  std::vector<std::string> arguments;    // the first is the path of the program
  std::vector<std::string> environment;  // "NAME=value"
  int output = -1;                       // becomes its standard output and error; its input is empty
};

/// Returns an errno when it cannot be started; else 0. Forks no memory, and sends no SIGCHLD.
int start_detached(const DetachedProcess& process);

}  // namespace uroce
