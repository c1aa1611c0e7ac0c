// What `uroce run` has to know about the program that it is about to start: whether a library can be preloaded into it.
#pragma once

#include <string>
#include <vector>

namespace uroce::launcher {

struct ProgramFile {
  bool elf = false;
  bool dynamic = false;             // an ELF file that asks for a dynamic loader
  std::vector<std::string> needed;  // the libraries that it names itself
  bool changes_user = false;        // set-uid or set-gid, to another user or group than the caller's
  bool carries_capabilities = false;
};

/// Reads the file. For scripts, and files that cannot be read, `elf` is false.
ProgramFile read_program(const std::string& path);

/// Why nothing can be preloaded into the program, and what helps; "" when preloading works. `as_root`: the caller is
/// root, whose programs keep the preload even when they carry capabilities.
std::string preload_obstacle(const std::string& path, const ProgramFile& program, bool as_root);
/// Advice for programs that start others with a clean environment; "" for all others.
std::string cleaner_advice(const std::string& path);

/// LD_PRELOAD for the program; `before` is its value so far. A sanitizer's runtime has to come first. Then comes the
/// shim, so that a library that overrides single functions of libibverbs gets our objects.
std::string preload_value(const std::string& shim, const std::string& before, const ProgramFile& program);

}  // namespace uroce::launcher
