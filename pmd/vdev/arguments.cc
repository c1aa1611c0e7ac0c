#include "pmd/vdev/arguments.h"

#include <algorithm>

namespace uroce::vdev {

bool read_arguments(const std::string& device, const char* text, const TakeArgument& take, std::string& error) {
  const std::string all = text == nullptr ? "" : text;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(',', begin), all.size());
    const std::string item = all.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string why = equals == std::string::npos || equals == 0
                                ? "key=value is needed"
                                : take(item.substr(0, equals), item.substr(equals + 1));
    if (why.empty()) continue;
    error = device + ": " + item + ": " + why;
    return false;
  }
  return true;
}

std::string take_mac(Arguments& out, const std::string& value) {
  out.mac = parse_mac(value);
  return out.mac && !out.mac->is_multicast() && !out.mac->is_zero() ? "" : "not the address of a station";
}

std::string take_address(Arguments& out, const std::string& value) {
  const auto address = parse_local_address(value);
  if (!address) return "an address with its prefix is wanted, such as 10.0.0.5/24";
  out.addresses.push_back(*address);
  return "";
}

}  // namespace uroce::vdev
