// Which process has which end of a cable of shared memory between two card models, and which port of a switch.
//
// An end is a file that is locked while its holder lives, so that a killed process leaves its end at once. A process
// takes an end when it opens a port; programs that only list the device look at which end is free, and take none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/runtime_dir.h"
#include "uroce/address.h"

namespace uroce {

/// True for a valid name of a wire: letters, digits, '-', '_' and '.', up to 32 characters.
bool valid_wire_name(const std::string& name);

struct WireEnd {
  std::string meeting;  // the wire or switch, by a name that is unique in this process
  std::string wire;     // its name
  unsigned number = 0;  // on a wire: 0 or 1; on a switch: the port
  std::string place;    // of a switch's port: the directory of its segment (roce/segment)
  MacAddress mac;
  LocalAddress address;  // the default address of this end
};

/// Takes a free end of `wire` for this process. Further calls return the same end until that is occupied. Returns
/// nothing, with one line in `error`, when both are taken.
std::optional<WireEnd> take_wire_end(const std::string& wire, std::string& error);
/// Takes the first free port of the switch (uroce-switch) called `name`, otherwise like take_wire_end. Returns nothing,
/// with one line in `error`, when no such switch runs, or all its ports are taken.
std::optional<WireEnd> take_switch_port(const std::string& name, std::string& error);
/// What take_wire_end would probably return now. Nothing is taken, and others do not notice. It is the end that this
/// process has and does not occupy, else the first free one, else one beyond the last (so that the device of a full
/// wire can still be listed).
std::optional<WireEnd> look_at_wire_end(const std::string& wire, std::string& error);
/// The same for a switch. Returns nothing, with one line in `error`, when it does not run.
std::optional<WireEnd> look_at_switch_port(const std::string& name, std::string& error);
/// A port of this process is open at this end, so further calls of take_wire_end return another one.
void occupy_wire_end(const WireEnd& end);
/// The port was closed. The process keeps the end for its next port.
void vacate_wire_end(const WireEnd& end);
/// Gives up every end of this process. In the child of a fork it only closes the inherited descriptors; the parent
/// keeps its ends.
void leave_wire_ends();
/// Around a fork, before it and after it in both processes: other threads may take ends meanwhile, and the child could
/// not wait for them.
void lock_wire_ends();
void unlock_wire_ends();

struct RunningSwitch {
  std::string name;
  unsigned ports = 0;  // ports of shared memory
};
/// The switches that run now, by name.
std::vector<RunningSwitch> running_switches();

/// A locked file in the runtime directory by which a running switch can be found.
class SwitchSign {
 public:
  static constexpr unsigned kMaxPorts = 64;

  /// Returns false, with one line in `error`, when the name is taken. `note` is a line that others can read: the
  /// telemetry socket.
  bool put_up(const std::string& name, unsigned ports, const std::string& note, std::string& error);
  SwitchSign() = default;
  ~SwitchSign();
  SwitchSign(const SwitchSign&) = delete;
  SwitchSign& operator=(const SwitchSign&) = delete;

  /// The directory of the segment that is port `number`.
  std::string port_place(unsigned number) const;

 private:
  std::string path_;
  int fd_ = -1;
};

/// A locally administered MAC address that depends only on `text` and `last_byte`.
MacAddress stable_mac(const std::string& text, uint8_t last_byte);

}  // namespace uroce
