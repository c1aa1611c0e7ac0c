// Where the processes of one machine meet: a directory with one socket per wire, and two places per wire.
//
// A place is a file that is locked while its holder lives, so that a killed process leaves its place at once. Who has
// place 0 listens on the wire's socket, who has place 1 connects to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/address.h"

namespace uroce {

/// $UROCE_RUNTIME_DIR, else /run/uroce for root, else $XDG_RUNTIME_DIR/uroce, else /tmp/uroce-<uid>. Created with mode
/// 0700. "" and one line in `error` when that cannot be, or when it belongs to somebody else.
std::string runtime_dir(std::string& error);

/// Names of wires: letters, digits, '-', '_' and '.', up to 32.
bool valid_wire_name(const std::string& name);

struct Place {
  std::string wire;     // "" is the default one
  unsigned number = 0;  // 0: listens, 1: connects
  std::string socket_path;
  MacAddress mac;
  LocalAddress address;  // the default one of this place
};

/// Takes a free place of `wire` for this process, once: asked again, it gives the same one. Nothing and one line in
/// `error` when both are taken; `another` is how a user names another wire.
std::optional<Place> take_place(const std::string& wire, std::string& error, const char* another = "--port memif:NAME");
/// Gives up every place of this process. In the child of a fork: closes what it inherited, the parent keeps its places.
void leave_places();

/// A locally administered MAC address that is the same whenever `text` is.
MacAddress stable_mac(const std::string& text, uint8_t last_byte);

}  // namespace uroce
