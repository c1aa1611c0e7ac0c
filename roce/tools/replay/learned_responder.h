// What a recorded conversation tells about the responder: which requests reached it, what it answered to each, its
// access rights, memory and numbers.
#pragma once

#include <map>
#include <vector>

#include "replay/parameters.h"
#include "replay/recording.h"
#include "uroce/qp_attributes.h"
#include "uroce/types.h"

namespace uroce::replay {

enum class Fate : uint8_t {
  kUnknown,   // the capture does not tell
  kAccepted,  // something that came later acknowledges it
  kRefused,   // a NAK names it
  kNotReady,  // an RNR NAK names it
  kAhead,     // came while an earlier one was missing
  kLost,      // sent again although nothing answered it
};

struct RequestNote {
  Fate fate = Fate::kUnknown;
  uint8_t nak = 0;  // code, when refused
};

struct LearnedRegion {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t access = 0;
  bool window = false;  // the key is invalidated by a peer
};

struct LearnedResponder {
  std::vector<RequestNote> notes;  // one for each packet of the conversation; those of answers are not used
  Psn first_psn;
  uint32_t mtu = 1024;
  bool mtu_proven = false;
  uint32_t rnr_timer = 12;
  uint32_t access = 0;  // of the QP
  std::map<uint32_t, LearnedRegion> regions;
};

/// The PSN behind the last one that the request takes.
Psn end_of(const PacketView& request, uint32_t mtu);
uint32_t learn_mtu(const Conversation& conversation, const Parameters& parameters, bool& proven);
/// Takes DSCP, hop limit and flow label from the first packet of this side, which is returned; nullptr for datagrams,
/// each of which chooses its own path.
const Recorded* learn_path(const Conversation& conversation, bool responses, AddressVector& av);
LearnedResponder learn_responder(const Conversation& conversation, const Parameters& parameters);

}  // namespace uroce::replay
