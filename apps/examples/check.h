// What every example needs: to say what failed and why, and to end what it began.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace examples {

[[noreturn]] inline void fail(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::exit(1);
}

/// For calls that return a pointer, or null with the reason in errno.
template <typename T>
T* need(T* pointer, const char* what) {
  if (pointer == nullptr) fail(what, std::strerror(errno));
  return pointer;
}

/// For calls that return 0, or -1 with the reason in errno (librdmacm), or the reason itself (most of libibverbs).
inline void need_zero(int result, const char* what) {
  if (result != 0) fail(what, std::strerror(result > 0 ? result : errno));
}

/// `std::unique_ptr<ibv_pd, Calls<ibv_dealloc_pd>>`: what a call has made is ended by another one.
template <auto kEnd>
struct Calls {
  template <typename T>
  void operator()(T* object) const {
    kEnd(object);
  }
};

}  // namespace examples
