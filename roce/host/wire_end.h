// Where the processes of one machine meet: a directory with a socket for each wire, which has two ends, and one for
// each port of a switch.
//
// An end belongs to the process that has locked its file, so that a killed process leaves it at once. The process at
// end 0 listens on the wire's socket, the one at end 1 connects to it; at a switch every process connects. A process
// takes an end when it opens a port; one that only lists the device looks at what is free, and takes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/runtime_dir.h"
#include "uroce/address.h"

namespace uroce {

/// Names of wires: letters, digits, '-', '_' and '.', up to 32.
bool valid_wire_name(const std::string& name);

struct WireEnd {
  std::string meeting;  // names the wire or switch: no other of this process has the same
  std::string wire;     // "" is the default one
  unsigned number = 0;  // of a wire: 0 listens, 1 connects; of a switch: the port
  std::string socket_path;
  MacAddress mac;
  LocalAddress address;  // the default one of this end
};

/// Takes a free end of `wire` for this process, once: asked again, it gives the same one, until that is occupied.
/// Nothing and one line in `error` when both are taken; `another` is how a user names another wire.
std::optional<WireEnd> take_wire_end(const std::string& wire, std::string& error,
                                     const char* another = "--port memif:NAME");
/// The first free port of the switch (uroce-switch) called `name`, to connect to; otherwise like
/// take_wire_end. Nothing and one line in `error` when no such switch runs, or all its ports are taken.
std::optional<WireEnd> take_switch_port(const std::string& name, std::string& error);
/// What take_wire_end would give now, as a guess: nothing is taken, and others do not notice. The end that this process
/// has and does not occupy, else the first free one, else one beyond the last (the wire is full, but its device can be
/// listed).
std::optional<WireEnd> look_at_wire_end(const std::string& wire, std::string& error);
/// The same for a switch. Nothing and one line in `error` when it does not run.
std::optional<WireEnd> look_at_switch_port(const std::string& name, std::string& error);
/// A port of this process is open there: the next that takes an end in this process gets another.
void occupy_wire_end(const WireEnd& end);
/// The port is closed. The process keeps the end, for the next port.
void vacate_wire_end(const WireEnd& end);
/// Gives up every end of this process. In the child of a fork: closes what it inherited, the parent keeps its ends.
void leave_wire_ends();

struct RunningSwitch {
  std::string name;
  unsigned ports = 0;  // of shared memory
};
/// The switches that run now, by name.
std::vector<RunningSwitch> running_switches();

/// What a running switch shows to those who look for it: a locked file in the runtime directory.
class SwitchSign {
 public:
  static constexpr unsigned kMaxPorts = 64;

  /// False and one line in `error` when the name is taken. `note`: a line for people and tools, the telemetry socket.
  bool put_up(const std::string& name, unsigned ports, const std::string& note, std::string& error);
  SwitchSign() = default;
  ~SwitchSign();
  SwitchSign(const SwitchSign&) = delete;
  SwitchSign& operator=(const SwitchSign&) = delete;

  /// Where port `number` listens.
  std::string socket_path(unsigned number) const;

 private:
  std::string path_;
  int fd_ = -1;
};

/// A locally administered MAC address that is the same whenever `text` is.
MacAddress stable_mac(const std::string& text, uint8_t last_byte);

}  // namespace uroce
