// Programs that load libibverbs at run time (NCCL, some Python wheels) get this library instead.
//
// glibc uses the return address of dlopen to find the caller's RUNPATH and namespace. So the real function has to be
// called last, as a jump; this file is therefore compiled with optimisation in every build.
#include <dlfcn.h>

#include "library_needs.h"
#include "shim.h"

using namespace uroce::verbs;

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// RTLD_DEEPBIND would make a plug-in find the distribution's libibverbs, with which it is linked, before this one.
// Libraries that are not linked with libibverbs keep the flag.
//
// A name without a slash is compared with the SONAMEs of loaded libraries, so no file is searched.
UROCE_VERBS_EXPORT void* dlopen(const char* file, int mode) {
  static const auto real = next<void* (*)(const char*, int)>("dlopen");
  if ((mode & RTLD_DEEPBIND) != 0 && needs_libibverbs(file, __builtin_return_address(0))) mode &= ~RTLD_DEEPBIND;
  return real(is_libibverbs(file) ? kLibraryName : file, mode);
}

UROCE_VERBS_EXPORT void* dlmopen(Lmid_t space, const char* file, int mode) {
  static const auto real = next<void* (*)(Lmid_t, const char*, int)>("dlmopen");
  if (is_libibverbs(file)) return dlopen(kLibraryName, mode);
  if (space != LM_ID_BASE && needs_libibverbs(file, __builtin_return_address(0))) warn_of_namespace(file);
  return real(space, file, mode);
}
