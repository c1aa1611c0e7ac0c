#include "program_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace uroce::launcher {
namespace {

void read_dynamic(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, ProgramFile& program) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
    GElf_Dyn entry;
    if (gelf_getdyn(data, static_cast<int>(i), &entry) == nullptr || entry.d_tag != DT_NEEDED) continue;
    const char* name = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
    if (name != nullptr) program.needed.emplace_back(name);
  }
}

void read_elf(Elf* elf, ProgramFile& program) {
  size_t segments = 0;
  if (elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &segments) != 0) return;
  program.elf = true;
  for (size_t i = 0; i < segments; i++) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) != nullptr && header.p_type == PT_INTERP)
      program.dynamic = true;
  }
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_DYNAMIC) {
      read_dynamic(elf, section, header, program);
    }
  }
}

bool is_sanitizer(const std::string& library) {
  const std::string name = std::filesystem::path(library).filename();
  return name.rfind("libasan.so", 0) == 0 || name.rfind("libtsan.so", 0) == 0 || name.rfind("libhwasan.so", 0) == 0 ||
         name.rfind("liblsan.so", 0) == 0 || name.rfind("libclang_rt.", 0) == 0;
}

std::string join(const std::vector<std::string>& libraries) {
  std::string text;
  for (const std::string& library : libraries) text += (text.empty() ? "" : ":") + library;
  return text;
}

/// Decides as the kernel does, which in that case tells the loader to preload nothing.
bool will_change_user(const std::string& path) {
  struct stat st {};
  struct statvfs file_system {};
  if (stat(path.c_str(), &st) != 0) return false;
  if (statvfs(path.c_str(), &file_system) == 0 && (file_system.f_flag & ST_NOSUID) != 0) return false;
  constexpr mode_t kSetGroup = S_ISGID | S_IXGRP;
  return ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid()) ||
         ((st.st_mode & kSetGroup) == kSetGroup && st.st_gid != getgid());
}

}  // namespace

ProgramFile read_program(const std::string& path) {
  ProgramFile program;
  program.changes_user = will_change_user(path);
  program.carries_capabilities = getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE) return program;
  if (Elf* elf = elf_begin(fd, ELF_C_READ, nullptr); elf != nullptr) {
    read_elf(elf, program);
    elf_end(elf);
  }
  close(fd);
  return program;
}

std::string preload_obstacle(const std::string& path, const ProgramFile& program, bool as_root) {
  if (program.elf && !program.dynamic) {
    return path + " is linked statically, and nothing can be preloaded into it: link it with the shared libibverbs";
  }
  if (program.changes_user) {
    return path + " changes its user or group when it starts (set-uid), and then nothing can be preloaded into it: " +
           "run it as that user, or a copy without that right";
  }
  if (program.carries_capabilities && !as_root) {
    return path +
           " carries capabilities, and then nothing can be preloaded into it: run it as root, or a copy without " +
           "them (`getcap` shows them)";
  }
  return "";
}

std::string cleaner_advice(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  if (name != "sudo" && name != "doas" && name != "pkexec") return "";
  return name + " takes LD_PRELOAD and UROCE_* away from what it starts: put `uroce run` behind it: " + name +
         " uroce run -- PROGRAM";
}

std::string preload_value(const std::string& shim, const std::string& before, const ProgramFile& program) {
  std::vector<std::string> sanitizers;
  std::vector<std::string> others;
  std::istringstream libraries(before);
  for (std::string library; std::getline(libraries, library, ':');) {
    if (!library.empty() && library != shim) (is_sanitizer(library) ? sanitizers : others).push_back(library);
  }
  for (const std::string& library : program.needed) {
    const auto same = [&](const std::string& l) { return std::filesystem::path(l).filename() == library; };
    if (is_sanitizer(library) && std::none_of(sanitizers.begin(), sanitizers.end(), same))
      sanitizers.push_back(library);
  }
  std::vector<std::string> all = sanitizers;
  all.push_back(shim);
  all.insert(all.end(), others.begin(), others.end());
  return join(all);
}

}  // namespace uroce::launcher
