#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>

#include "commands.h"
#include "host/runtime_dir.h"

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

std::string preloadable(const std::string& shim, std::string& error) {
  constexpr const char* kSeparators = " :";  // ld.so has no way to escape them
  if (shim.find_first_of(kSeparators) == std::string::npos) return shim;
  const std::string directory = runtime_dir(error);
  if (directory.empty()) return "";
  if (directory.find_first_of(kSeparators) != std::string::npos) {
    error = "LD_PRELOAD takes no path with a space or a colon, which both " + shim + " and " + directory +
            " have; name another place with UROCE_RUNTIME_DIR";
    return "";
  }
  char number[17];
  std::snprintf(number, sizeof number, "%zx", std::hash<std::string>()(shim));
  std::string link = directory + "/shim-" + number;
  std::error_code code;
  if (fs::read_symlink(link, code) == shim) return link;
  // Another launcher may be making the same one.
  const std::string fresh = link + "." + std::to_string(getpid());
  fs::create_symlink(shim, fresh, code);
  if (!code) fs::rename(fresh, link, code);
  if (!code) return link;
  error = "cannot make " + link + ": " + code.message();
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
