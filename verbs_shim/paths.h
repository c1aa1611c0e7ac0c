// Files that programs look for besides symbols: /sys/class/infiniband*, /dev/infiniband.
#pragma once

#include <string>

namespace uroce::verbs {

/// Where `path` really lies: a file of ours, or nothing when the path is none of our business (or UROCE_PATHS=0).
bool translate_path(const char* path, std::string& translated);

}  // namespace uroce::verbs
