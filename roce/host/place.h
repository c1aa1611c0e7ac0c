// Where the processes of one machine meet: a directory with one socket per wire, and two places per wire; and for a
// switch one socket and one place for each of its ports.
//
// A place is a file that is locked while its holder lives, so that a killed process leaves its place at once. Who has
// place 0 listens on the wire's socket, who has place 1 connects to it. A place is taken by who opens a port; programs
// that only list the device look at what is free, and take nothing.
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

struct Place {
  std::string meeting;  // the wire or switch, as no other of this process is called
  std::string wire;     // "" is the default one
  unsigned number = 0;  // of a wire: 0 listens, 1 connects; of a switch: the port
  std::string socket_path;
  MacAddress mac;
  LocalAddress address;  // the default one of this place
};

/// Takes a free place of `wire` for this process, once: asked again, it gives the same one, until that is occupied.
/// Nothing and one line in `error` when both are taken; `another` is how a user names another wire.
std::optional<Place> take_place(const std::string& wire, std::string& error, const char* another = "--port memif:NAME");
/// The first free port of the switch (uroce-switch) called `name`, as a place to connect from; otherwise like
/// take_place. Nothing and one line in `error` when no such switch runs, or all its ports are taken.
std::optional<Place> take_switch_place(const std::string& name, std::string& error);
/// What take_place would give now, as a guess: nothing is taken, and others do not notice. The place that this process
/// has and does not occupy, else the first free one, else one beyond the last (the wire is full, but its device can be
/// listed).
std::optional<Place> look_at_place(const std::string& wire, std::string& error);
/// The same for a switch. Nothing and one line in `error` when it does not run.
std::optional<Place> look_at_switch_place(const std::string& name, std::string& error);
/// A port of this process is open there: whoever takes a place in this process gets another.
void occupy_place(const Place& place);
/// The port is closed. The process keeps the place, for the next port.
void vacate_place(const Place& place);
/// Gives up every place of this process. In the child of a fork: closes what it inherited, the parent keeps its places.
void leave_places();

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
