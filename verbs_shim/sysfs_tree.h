// The files that a kernel would show for the device, as real files in a directory of ours.
#pragma once

#include <string>

namespace uroce::verbs {

/// The directory that stands for "/": made with the first call, removed at exit. "" when there is none.
/// Not under an EngineLock.
const std::string& sysfs_root();
/// Files of the port are brought up to date when somebody opens them. `path` is as the program names it.
void refresh_file(const char* path);

}  // namespace uroce::verbs
