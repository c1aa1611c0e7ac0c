#include "pmd/shmlan/arguments.h"

#include "host/wire_end.h"

namespace uroce::shmlan {
namespace {

/// An empty string, or what is wrong.
std::string take_one(Arguments& out, const std::string& key, const std::string& value) {
  if (key == "segment") {
    if (value.empty() || !valid_wire_name(value))
      return "the name of a segment is 1 to 32 letters, digits, '-', '_' or '.'";
    out.segment = value;
  } else if (key == "dir") {
    if (value.empty()) return "a path is wanted";
    out.dir = value;
  } else if (key == "mac") {
    return take_mac(out, value);
  } else if (key == "addr") {
    return take_address(out, value);
  } else {
    return "unknown argument; known are " SHMLAN_ARGUMENTS;
  }
  return "";
}

}  // namespace

bool parse_arguments(const std::string& device, const char* text, Arguments& out, std::string& error) {
  out = {};
  out.device = device;
  const auto take = [&](const std::string& key, const std::string& value) { return take_one(out, key, value); };
  return vdev::read_arguments(device, text, take, error);
}

}  // namespace uroce::shmlan
