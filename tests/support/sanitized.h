// Whether this test is compiled with a sanitizer, and so takes five to ten times as long. The first of many drawn runs
// show what a sanitizer looks for as well as all of them do; what the runs themselves look for is found in the other
// builds.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UROCE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UROCE_SANITIZED 1
#endif
#endif

namespace uroce {

#ifdef UROCE_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of `all` are enough under a sanitizer.
template <typename Count>
constexpr Count some_of(Count all) {
  return kSanitized ? all / 4 : all;
}

}  // namespace uroce
