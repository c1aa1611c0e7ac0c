// Starts a program that is not a child of this process: nobody who waits for children here hears of it, and it has
// none of this process's descriptors, signals, umask or processors, and its limits of descriptors, time and file sizes
// only as far as they cannot be raised.
#pragma once

#include <string>
#include <vector>

namespace uroce {

struct DetachedProcess {
  std::vector<std::string> arguments;    // the first is the path of the program
  std::vector<std::string> environment;  // "NAME=value"
  int output = -1;                       // becomes its standard output and error; its input is empty
};

/// This process gets the children of those that end (it is the first of a container, or a subreaper): what it starts
/// detached would come back to it as a child.
bool takes_in_orphans();

/// Returns an errno when it cannot be started; else 0. Forks no memory, and sends no SIGCHLD. Not to be called where
/// `takes_in_orphans`.
int start_detached(const DetachedProcess& process);

}  // namespace uroce
