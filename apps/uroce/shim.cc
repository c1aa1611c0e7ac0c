#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "commands.h"

namespace uroce::launcher {

namespace fs = std::filesystem;

std::string find_shim() {
  std::error_code code;
  const fs::path here = fs::read_symlink("/proc/self/exe", code).parent_path();
  for (const fs::path& candidate : {here / "../verbs_shim" / UROCE_SHIM_NAME, here / "../lib" / UROCE_SHIM_NAME,
                                    fs::path(UROCE_LIBDIR) / UROCE_SHIM_NAME}) {
    if (fs::exists(candidate, code)) return fs::canonical(candidate, code);
  }
  return "";
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
    std::error_code code;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate, code)) return candidate;
  }
  return "";
}

}  // namespace uroce::launcher
