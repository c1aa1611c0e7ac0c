// Exact faults: "drop the second transmission of PSN 77 to QP 0x12".
//
// A rule watches one direction of one cable. It counts the frames that fit its filter, and acts on those whose count it
// names. A retransmission fits as the first transmission did, so a rule can name the n-th transmission of a packet.
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/frame_fields.h"
#include "uroce/time.h"

namespace uroce::fabric {

/// Which frames a rule is for, by their purpose.
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
  kOpcode,        // packets with one BTH opcode
};

struct FrameFilter {
  FrameClass what = FrameClass::kAny;
  uint8_t opcode = 0;  // for kOpcode
  std::optional<uint32_t> psn;
  std::optional<uint32_t> qp;  // the destination QP's number

  /// True when nothing but RoCEv2 packets can fit.
  bool needs_roce() const { return what != FrameClass::kAny || psn || qp; }
  /// `roce` has no value when the frame is not a RoCEv2 packet.
  bool fits(const std::optional<RoceFields>& roce) const;
};

struct FaultRule {
  enum class Action : uint8_t { kDrop, kDelay, kDuplicate, kCorrupt, kMark };
  Action action = Action::kDrop;
  FrameFilter filter;
  /// The rule acts on the frames that fit from number `first` to number `last`; they count from 1.
  uint64_t first = 1;
  uint64_t last = 1;   // UINT64_MAX: all from the first on
  uint64_t every = 0;  // instead of first and last: each frame whose number is a multiple of this
  Duration delay{};    // for kDelay: how much later the frame comes; for kDuplicate: how much later the copy comes

  bool acts_on(uint64_t number) const { return every != 0 ? number % every == 0 : number >= first && number <= last; }
};

}  // namespace uroce::fabric
