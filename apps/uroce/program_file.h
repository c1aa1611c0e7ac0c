// What `uroce run` has to know of the program that it is about to start: whether a library can be preloaded into it.
#pragma once

#include <string>
#include <vector>

namespace uroce::launcher {

struct ProgramFile {
  bool elf = false;
  bool dynamic = false;             // an ELF file that asks for a dynamic loader
  std::vector<std::string> needed;  // the libraries that it names itself
  bool changes_user = false;        // set-uid or set-gid
  bool carries_capabilities = false;
};

/// Reads the file. Scripts and what cannot be read: `elf` is false.
ProgramFile read_program(const std::string& path);

/// Why nothing can be preloaded into the program, and what helps; "" when it can be. `as_root`: the caller is root,
/// whose programs keep the preload also when they carry rights of their own.
std::string preload_obstacle(const std::string& path, const ProgramFile& program, bool as_root);
/// Of programs that start others with a clean environment: what to say; "" for all others.
std::string cleaner_advice(const std::string& path);

/// LD_PRELOAD for the program: `before` is what it was. A sanitizer's runtime comes first, as it insists on that; then
/// the shim: a library that overrides single functions of libibverbs sees our objects then.
std::string preload_value(const std::string& shim, const std::string& before, const ProgramFile& program);

}  // namespace uroce::launcher
