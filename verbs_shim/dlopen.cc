// Programs that load libibverbs at run time (NCCL, some Python wheels) get this library instead.
//
// glibc uses the return address of dlopen to find the caller's RUNPATH and namespace. So the real function has to be
// called last, as a jump; this file is therefore compiled with optimisation in every build.
#include <dlfcn.h>

#include <cstring>

#include "shim.h"

namespace {

/// True for libibverbs under any of its names: with a version, with the hash that a wheel adds, with or without a path.
bool is_libibverbs(const char* file) {
  if (file == nullptr) return false;
  const char* slash = std::strrchr(file, '/');
  const char* name = slash != nullptr ? slash + 1 : file;
  constexpr char kPrefix[] = "libibverbs";
  const size_t length = sizeof kPrefix - 1;
  return std::strncmp(name, kPrefix, length) == 0 && (name[length] == '.' || name[length] == '-');
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// A name without a slash is compared with the SONAMEs of loaded libraries, so no file is searched.
UROCE_VERBS_EXPORT void* dlopen(const char* file, int mode) {
  static const auto real = next<void* (*)(const char*, int)>("dlopen");
  return real(is_libibverbs(file) ? uroce::verbs::kLibraryName : file, mode);
}

UROCE_VERBS_EXPORT void* dlmopen(Lmid_t space, const char* file, int mode) {
  static const auto real = next<void* (*)(Lmid_t, const char*, int)>("dlmopen");
  if (is_libibverbs(file)) return dlopen(uroce::verbs::kLibraryName, mode);
  return real(space, file, mode);
}
