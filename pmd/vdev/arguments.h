// The arguments that a user writes after the name of a virtual device, --vdev=NAME,key=value,key=value.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "uroce/address.h"

namespace uroce::vdev {

/// Those that each driver has; one that has more derives from it.
struct Arguments {
  std::string device;                   // "net_udp0"
  std::optional<MacAddress> mac;        // in place of one that the driver finds
  std::vector<LocalAddress> addresses;  // that the application has
};

/// Takes one argument. Returns an empty string, or what is wrong with it.
using TakeArgument = std::function<std::string(const std::string& key, const std::string& value)>;

/// Gives each argument of `text`, which is "key=value,key=value" or nullptr, to `take`. Returns false, with one line in
/// `error` that names the device and the argument, at the first that is wrong.
bool read_arguments(const std::string& device, const char* text, const TakeArgument& take, std::string& error);

// For `take`, each with a value and what its result is for.
std::string take_mac(Arguments& out, const std::string& value);
std::string take_address(Arguments& out, const std::string& value);

}  // namespace uroce::vdev
