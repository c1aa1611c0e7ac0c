// The files that a kernel would show for the device, as real files in a directory of uroce.
#pragma once

#include <string>

#include "dpdk/endpoint.h"

namespace uroce::verbs {

/// The directory that stands for "/", made with the first call and removed at exit; "" when it could not be made. Must
/// not be called under an EngineLock.
const std::string& sysfs_root();
/// The errno with which something of it could not be made, which is tried again later; 0 when all is there.
int why_files_are_missing();
/// To be called in the child of a fork: the directory is the parent's, which may end before the child.
void leave_sysfs_tree();
/// Brings a file of the port up to date; to be called when it is opened. `path` is as the program names it.
void refresh_file(const char* path);

/// What the tree says of the port's link, for programs that ask in another way.
struct LinkFacts {
  bool up;
  std::string netdev;  // "" where the port belongs to no interface
};
LinkFacts link_facts(const EndpointIdentity& identity);

}  // namespace uroce::verbs
