// The two rings of a connection, as a server uses them.
//
// The peer may write to all of this memory at any time. So everything in it is read once, into a variable, and checked
// there; the server's own position is kept here and only published to the peer, never read back; and a frame is copied
// before anything in it is looked at. The work of a call is bounded by the size of the ring, whatever the peer writes.
#pragma once

#include <cstdint>

#include "memif/handshake.h"
#include "memif/memory.h"
#include "memif/protocol.h"

namespace uroce::memif {

/// Frames from the peer: the peer fills slots and moves the head, the server follows with the tail.
class InRing {
 public:
  enum class Taken : uint8_t {
    kNothing,  // no frame waits
    kFrame,
    kTooLong,  // the frame has no room in `out` and is skipped
    kBroken,   // the peer broke the protocol; the ring must not be used any more
  };

  /// False when there is no ring at that place.
  bool open(const Memory& memory, const RingPlace& place);
  /// Reads the peer's position. To be called once per burst, before `take`. False when the ring is broken.
  bool begin();
  /// Copies the next frame to `out`, which has `room` bytes.
  Taken take(const Memory& memory, uint8_t* out, uint32_t room, uint32_t& bytes);
  /// Gives the slots of all frames that were taken back to the peer. To be called once per burst.
  void finish();

 private:
  uint8_t* base_ = nullptr;
  uint16_t slots_ = 0;
  uint16_t next_ = 0;  // our position
  uint16_t head_ = 0;  // the peer's position, checked
};

/// Frames to the peer: the peer offers empty slots by moving the head, the server fills them and moves the tail.
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
