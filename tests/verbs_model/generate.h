// Programs drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbs_model/program.h"

namespace uroce::model {

/// What is left out, for machines that cannot do it.
struct Limits {
  bool faults = true;       // of the wires
  bool overruns = true;     // completion queues that are too small
  bool few_retries = true;  // than seven; in real time, a peer may just wait for a processor
  bool placements = true;   // FLUSH and ATOMIC_WRITE
  bool old_windows = true;  // type 1: binding them is a call that checks some things itself
  uint32_t port_mtu = 4096;
  uint32_t without = 0;  // bits of `Trouble`
};

/// What may befall simulated hosts and the cables between them, besides the exact faults: each is drawn from numbers of
/// its own, so that leaving some out changes none of the others.
enum class Trouble : uint8_t {
  kLoss,
  kReorder,
  kDuplicate,
  kCorrupt,
  kBurst,   // Gilbert and Elliott
  kJitter,  //
  kFlap,    // the cable is unplugged for a moment, again and again
  kPause,   // a storm of pause frames, to engines that obey
  kMarks,   // congestion control, and switches that mark
  kLate,    // hosts that come late to their frames and timers
  kQueue,   // small receive queues
  // Of a moment.
  kPort,      // a port that takes nothing for a while
  kBlackout,  // a cable is cut, often for longer than the retries last
  kReset,     // connections end and begin anew in the middle, with old packets under way
  kVanish,    // queue pairs that vanish and come again under other numbers; the peer is not told
  kEngine,    // the whole engine of a host is destroyed, and a new one made at the same addresses
  kClock,     // a host's clock leaps forward
  kMemory,    // frame buffers run out
  kSpoofer,   // somebody who is not on the path guesses numbers and keys
  kCount,
};
constexpr uint32_t bit(Trouble trouble) { return 1u << static_cast<unsigned>(trouble); }
/// "loss,burst".
std::string trouble_list(uint32_t bits);
/// A list such as "loss,burst" as bits; false: not all of them are known.
bool parse_troubles(std::string_view text, uint32_t& bits);

/// Lets it befall the program. Returns which troubles were drawn. `round`: of a course; 0: it is a program by itself.
uint32_t draw_troubles(Program& program, uint64_t seed, uint32_t without, uint32_t round = 0);

Program generate(uint64_t seed, const Limits& limits = {});

/// A round of a course (from 1): what exists, and the cables, are the seed's alone, what is done is drawn anew. Nothing
/// is wrong with it, and receives are rarely missing, so that the connections go on from one round to the next.
Program generate_round(uint64_t seed, uint32_t round, const Limits& limits = {});

}  // namespace uroce::model
