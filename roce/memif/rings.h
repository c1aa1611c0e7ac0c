// The two rings of a connection, as a server uses them.
//
// The peer may write to all of this memory at any time. So everything in it is read once, into a variable, and checked
// there; what is ours (how far we got) is kept here and only published to the peer, never read back; and a frame is
// copied before anybody looks at it. Work is bounded by the size of the ring, whatever the peer writes.
#pragma once

#include <cstdint>

#include "memif/handshake.h"
#include "memif/memory.h"
#include "memif/protocol.h"

namespace uroce::memif {

/// Frames from the peer: it fills slots and moves the head, we follow with the tail.
class InRing {
 public:
  enum class Taken : uint8_t {
    kNothing,  // no frame waits
    kFrame,
    kTooLong,  // one that has no room in `out`: it is skipped
    kBroken,   // the peer breaks the protocol; nothing more is to be had from it
  };

  /// False: there is no ring at that place.
  bool open(const Memory& memory, const RingPlace& place);
  /// Looks how far the peer is. Once a burst, before take(). False: broken.
  bool begin();
  /// The next frame, copied to `out`, which has `room` bytes.
  Taken take(const Memory& memory, uint8_t* out, uint32_t room, uint32_t& bytes);
  /// Gives the slots of all frames taken back to the peer. Once a burst.
  void finish();

 private:
  uint8_t* base_ = nullptr;
  uint16_t slots_ = 0;
  uint16_t next_ = 0;  // of us
  uint16_t head_ = 0;  // of the peer, checked
};

/// Frames to the peer: it offers empty slots by moving the head, we fill them and move the tail.
class OutRing {
 public:
  enum class Put : uint8_t {
    kSent,
    kFull,     // the peer has to read first
    kTooLong,  // the peer's slots cannot hold it, not even all of them
    kBroken,
  };

  bool open(const Memory& memory, const RingPlace& place);
  bool begin();
  /// Copies a frame into as many slots as it needs.
  Put put(const Memory& memory, const uint8_t* frame, uint32_t bytes);
  void finish();

 private:
  uint8_t* base_ = nullptr;
  uint16_t slots_ = 0;
  uint16_t next_ = 0;
  uint16_t head_ = 0;
};

}  // namespace uroce::memif
