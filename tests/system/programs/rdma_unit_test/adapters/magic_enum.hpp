// Stands in for magic_enum, which Debian does not package: what rdma-unit-test uses of it, the name of an enumerator.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/string_view.h"

namespace magic_enum {

namespace internal {

// The compiler spells V as the enumerator's name, or as a cast of a number where there is none.
template <auto V>
constexpr std::string_view spelled() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("V = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  if (text.front() == '(') {
    return {};
  }
  const std::size_t scope = text.rfind("::");
  return scope == std::string_view::npos ? text : text.substr(scope + 2);
}

template <typename E, std::size_t... I>
constexpr std::array<std::string_view, sizeof...(I)> table(std::index_sequence<I...> /*values*/) {
  return {spelled<static_cast<E>(I)>()...};
}

}  // namespace internal

template <typename E>
absl::string_view enum_name(E value) {
  static constexpr auto kNames = internal::table<E>(std::make_index_sequence<256>());
  const auto index = static_cast<std::size_t>(value);
  return index < kNames.size() ? absl::string_view(kNames[index]) : absl::string_view{};
}

}  // namespace magic_enum
