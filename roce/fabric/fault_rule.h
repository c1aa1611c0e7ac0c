// Exact faults: "drop the second transmission of PSN 77 to QP 0x12".
//
// A rule watches one direction of one cable. It counts the frames that its filter fits, and acts on those whose count
// it names. Retransmissions fit as the first transmission did, which is how the n-th transmission of a packet is named.
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/frame_fields.h"
#include "uroce/time.h"

namespace uroce::fabric {

/// Which frames are meant, by what they are for.
enum class FrameClass : uint8_t {
  kAny,           // every frame, ARP too
  kRoce,          // every RoCEv2 packet
  kRequest,       // what a requester sends: SEND, WRITE, READ request, atomic request
  kResponse,      // what a responder sends: READ response, ACK, NAK, atomic response
  kData,          // SEND, WRITE and READ response
  kSend,          //
  kWrite,         //
  kReadRequest,   //
  kReadResponse,  //
  kAtomic,        // requests
  kAtomicAck,     //
  kAck,           // ACK packets that acknowledge
  kNak,           // NAKs without RNR NAKs
  kRnrNak,        //
  kCnp,           //
  kOpcode,        // those of one BTH opcode
};

struct FrameFilter {
  FrameClass what = FrameClass::kAny;
  uint8_t opcode = 0;  // of kOpcode
  std::optional<uint32_t> psn;
  std::optional<uint32_t> qp;  // the destination QP's number

  /// True when nothing but RoCEv2 packets can fit.
  bool needs_roce() const { return what != FrameClass::kAny || psn || qp; }
  /// `roce`: nothing when the frame is no RoCEv2 packet.
  bool fits(const std::optional<RoceFields>& roce) const;
};

struct FaultRule {
  enum class Action : uint8_t { kDrop, kDelay, kDuplicate, kCorrupt, kMark };
  Action action = Action::kDrop;
  FrameFilter filter;
  /// The n-th to the m-th frame that fits, from 1.
  uint64_t first = 1;
  uint64_t last = 1;   // UINT64_MAX: all from the first on
  uint64_t every = 0;  // instead of first and last: each frame whose number is a multiple of this
  Duration delay{};    // of kDelay: that much later; of kDuplicate: the copy comes that much later

  bool acts_on(uint64_t number) const { return every != 0 ? number % every == 0 : number >= first && number <= last; }
};

}  // namespace uroce::fabric
