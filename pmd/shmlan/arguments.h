// The arguments that a user writes after the name of a virtual device:
//   --vdev=net_shmlan0
//   --vdev=net_shmlan0,segment=lab,mac=02:00:00:00:00:05,addr=10.0.0.5/24
#pragma once

#include <string>

#include "pmd/vdev/arguments.h"

namespace uroce::shmlan {

/// The addresses are told to the segment, so that others find them without asking.
struct Arguments : vdev::Arguments {
  std::string segment;  // its name; "": the one without a name
  std::string dir;      // in place of UROCE_RUNTIME_DIR; "": the directory where programs meet
};

/// `text` is "key=value,key=value", or nullptr. Returns false, with one line in `error` that names the key, when a key
/// is unknown or a value is bad.
bool parse_arguments(const std::string& device, const char* text, Arguments& out, std::string& error);

/// The list of arguments, for `dpdk-pmdinfo` and messages.
#define SHMLAN_ARGUMENTS "segment=<name> mac=<address> addr=<ip/prefix> dir=<path>"

}  // namespace uroce::shmlan
