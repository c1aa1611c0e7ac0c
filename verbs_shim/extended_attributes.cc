// Extended attributes of our files, which `ls -l` asks for: those of the real files.
#include <sys/xattr.h>

#include <string>

#include "next_symbol.h"
#include "paths.h"
#include "shim.h"

using namespace uroce::verbs;

namespace {

std::string real_path(const char* path) {
  std::string translated;
  return translate_path(path, translated) ? translated : "";
}

}  // namespace

UROCE_VERBS_EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t bytes) noexcept {
  UROCE_NEXT(getxattr);
  const std::string ours = real_path(path);
  return real(ours.empty() ? path : ours.c_str(), name, value, bytes);
}
UROCE_VERBS_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t bytes) noexcept {
  UROCE_NEXT(lgetxattr);
  const std::string ours = real_path(path);
  return real(ours.empty() ? path : ours.c_str(), name, value, bytes);
}
UROCE_VERBS_EXPORT ssize_t listxattr(const char* path, char* list, size_t bytes) noexcept {
  UROCE_NEXT(listxattr);
  const std::string ours = real_path(path);
  return real(ours.empty() ? path : ours.c_str(), list, bytes);
}
UROCE_VERBS_EXPORT ssize_t llistxattr(const char* path, char* list, size_t bytes) noexcept {
  UROCE_NEXT(llistxattr);
  const std::string ours = real_path(path);
  return real(ours.empty() ? path : ours.c_str(), list, bytes);
}
