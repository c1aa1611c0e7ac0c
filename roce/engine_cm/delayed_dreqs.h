// Ends of connections that are told a moment later: not before the program has seen what its queue pair completed until
// then.
//
// A peer that has what it wants acknowledges the last message and hangs up. With a NIC the completion is there within
// microseconds, and the DREQ takes a hundred more, through the kernel. Here one turn may take both out of the same
// memory; a program with a thread for events may then end its queue pair, and with it the completions that its other
// thread has not polled (libfabric reports them as flushed). So a DREQ waits while completions of its queue pair lie in
// their queues, but not for long: who waits for the end before it polls is told, too.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>

#include "engine/engine.h"
#include "engine/management.h"
#include "uroce/time.h"

namespace uroce {

class DelayedDreqs {
 public:
  static constexpr Duration kPatience = milliseconds(20);
  /// More are not held.
  static constexpr size_t kMax = 16;

  /// Keeps the datagram if it is a DREQ that has to wait, of the host that its queue pair is connected with: nobody
  /// else can fill the room. False: it has not.
  bool keep(const IncomingMad& mad, const Engine& engine, Instant now);
  /// The oldest that has waited long enough, valid until the next call; nothing: there is none.
  std::optional<IncomingMad> take(const Engine& engine, Instant now);
  /// When to ask `take`.
  Instant next_look() const { return next_look_; }
  void forget();

 private:
  static constexpr Duration kLookAgain = microseconds(50);

  struct Kept {
    Kept(const IncomingMad& from, uint32_t of, Instant latest);
    std::array<uint8_t, kManagementBytes> bytes;
    IncomingMad mad;
    uint32_t qpn;
    Instant until;
  };

  std::list<Kept> kept_;
  std::list<Kept> taken_;  // the last one
  Instant next_look_ = Instant::never();
};

}  // namespace uroce
