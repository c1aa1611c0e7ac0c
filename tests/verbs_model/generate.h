// Programs drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbs_model/program.h"

namespace uroce::model {

/// Left out for machines that cannot do it.
struct Limits {
  bool faults = true;       // of the cables
  bool overruns = true;     // completion queues that may be too small
  bool few_retries = true;  // fewer than seven; in real time, a peer may only be waiting for a CPU
  bool placements = true;   // FLUSH and ATOMIC_WRITE
  bool old_windows = true;  // type 1: binding them is a call, which checks some things itself
  uint32_t port_mtu = 4096;
  uint32_t without = 0;  // bits of `Trouble`
};

/// What may happen to simulated hosts and the cables between them, besides exact faults. Each is drawn from random
/// numbers of its own, so that leaving some out does not change the others.
enum class Trouble : uint8_t {
  kLoss,
  kReorder,
  kDuplicate,
  kCorrupt,
  kBurst,   // Gilbert and Elliott
  kJitter,  //
  kFlap,    // the cable is unplugged briefly, again and again
  kPause,   // a storm of pause frames, for engines that obey them
  kMarks,   // congestion control, and switches that mark frames
  kLate,    // hosts that are late for frames and timers
  kQueue,   // small receive queues
  // Momentary.
  kPort,      // a port that takes no frames for a while
  kBlackout,  // a cable is cut, often for longer than the retries
  kReset,     // connections end and begin again in the middle, with old packets in flight
  kVanish,    // queue pairs that vanish and return with other numbers, unknown to the peer
  kEngine,    // the whole engine of a host is destroyed, and a new one made at the same addresses
  kClock,     // a host's clock leaps ahead
  kMemory,    // a lack of frame buffers
  kSpoofer,   // an off-path attacker guesses numbers and keys
  kCount,
};
constexpr uint32_t bit(Trouble trouble) { return 1u << static_cast<unsigned>(trouble); }
/// As a list: "loss,burst".
std::string trouble_list(uint32_t bits);
/// Parses such a list; false when it has an unknown word.
bool parse_troubles(std::string_view text, uint32_t& bits);

/// Adds troubles to the program, and returns which. `round`: of a course; 0: a single program.
uint32_t draw_troubles(Program& program, uint64_t seed, uint32_t without, uint32_t round = 0);

Program generate(uint64_t seed, const Limits& limits = {});

/// A round of a course (from 1): objects and cables depend on the seed only, the work is drawn anew. It has no invalid
/// requests and receives are rarely missing, so that connections last from one round to the next.
Program generate_round(uint64_t seed, uint32_t round, const Limits& limits = {});

}  // namespace uroce::model
