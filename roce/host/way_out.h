// A way out of the machine for programs that ask for one (`--port network`): the machine's uplink is a uroced over the
// kernel's UDP sockets. The program that finds none starts it; it needs no rights, belongs to nobody, and ends some
// seconds after the last program has gone (doc/net_udp.md, ADR 25).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/endpoint_config.h"
#include "uroce/time.h"

namespace uroce {

/// A uroced that was started by a program stays so long when the last program has gone, or has asked for it.
inline constexpr Duration kWayOutLinger = milliseconds(5000);

/// A try that came to nothing.
struct WayOutFailure {
  std::string why;
  Duration ago;
};

/// What is known before a way out is looked for.
struct WayOutFacts {
  bool there = false;                                   // the segment has an uplink that lives
  bool own_place = true;                                // this user's programs meet in a directory of their own
  bool has_addresses = true;                            // an interface beside loopback has one
  bool adopts = false;                                  // what this process starts would come back to it as a child
  std::optional<WayOutFailure> failure = std::nullopt;  // of the last program that tried, if it failed
};

enum class WayOutStep : uint8_t { kUse, kStart, kGoWithout };

/// What a program that asks for a way out does. `why`: without one, the reason that the facts give, or "".
WayOutStep choose_way_out(const WayOutFacts& facts, std::string& why);

/// Why no other machine is reached.
struct NoWayOut {
  std::string why;       // one line; "": there is a way out, or the configuration asks for none
  bool is_news = false;  // no other program was told a moment ago
};

/// Sees that there is a way out, if `config` asks for it. To be called before the port is planned; takes as long as
/// uroced takes to start.
NoWayOut seek_way_out(const EndpointConfig& config);

/// Where the uroced of `host` writes what it has to say. "", with one line in `error`, when there is no such place.
std::string log_of_way_out(const std::string& host, std::string& error);

/// Why a uroced did not become ready, in one line: what it said last. `in_time`: it ended; it was not given up.
std::string reason_in(const std::string& said, bool in_time);

/// Whether the file may be executed in a user's name: it is root's or the user's own, and nobody else may write to it.
bool is_trusted_program(const std::string& path);

/// The variables that a uroced gets: none that are for this program.
std::vector<std::string> daemon_environment(const char* const* own);

}  // namespace uroce
