#include "verbs_model/spoofer.h"

#include <cstring>

#include "base/check.h"
#include "packet/opcode.h"
#include "packet/sack.h"
#include "transport/frame_builder.h"
#include "transport/qp.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace uroce::model {

namespace {

/// More than is ever in flight.
constexpr uint32_t kReach = 1u << 17;
/// A request this far ahead is held by a peer with selective repeat, and executed when its turn comes: a hit, only
/// later (doc/adr, selective repeat).
constexpr uint32_t kHeldReach = (1u << 22) + kReach;
constexpr uint32_t kPayloadMax = 256;

constexpr uint8_t kOpcodes[] = {
    kOpSendFirst,          kOpSendMiddle,       kOpSendLast,          kOpSendLastImm, kOpSendOnly,
    kOpSendOnlyImm,        kOpWriteFirst,       kOpWriteMiddle,       kOpWriteLast,   kOpWriteLastImm,
    kOpWriteOnly,          kOpWriteOnlyImm,     kOpReadRequest,       kOpReadRequest, kOpReadResponseFirst,
    kOpReadResponseMiddle, kOpReadResponseLast, kOpReadResponseOnly,  kOpAcknowledge, kOpAcknowledge,
    kOpAcknowledge,        kOpAcknowledge,      kOpAtomicAcknowledge, kOpCompareSwap, kOpFetchAdd,
    kOpSendLastInv,        kOpSendOnlyInv,      kOpcodeCnp,           kOpcodeSack,
};

}  // namespace

Psn Spoofer::far_from(Psn near, uint32_t ahead) { return near + ahead + random_.below((1u << 24) - ahead - kReach); }

/// An ACK, an RNR NAK, or a NAK of any code, with any credits.
uint8_t Spoofer::syndrome() {
  const uint32_t kind = random_.below(4);
  if (kind <= 1) return make_syndrome(AethKind::kAck, static_cast<uint8_t>(random_.below(32)));
  if (kind == 2) return make_syndrome(AethKind::kRnrNak, static_cast<uint8_t>(random_.below(32)));
  return make_syndrome(AethKind::kNak, static_cast<uint8_t>(random_.below(6)));
}

void Spoofer::forge(sim::Host& host, const Qp& victim, const Qp& peer, const Prey& prey) {
  const uint8_t opcode = kOpcodes[random_.below(std::size(kOpcodes))];
  const OpcodeInfo& info = opcode_info(opcode);
  ensure(prey.bytes / 8 > kPayloadMax / 8, "there is memory to be aimed at");
  const bool knows_key = random_.below(2) == 0;
  const uint32_t key = knows_key ? prey.key : random_.next_u32();
  const uint64_t place = prey.addr + 8 * random_.below(prey.bytes / 8 - kPayloadMax / 8);

  Bth bth;
  bth.opcode = opcode;
  bth.dest_qp = random_.below(16) == 0 ? random_.below(1u << 24) : victim.qpn();
  bth.ack_req = random_.below(2) == 0;
  bth.solicited = random_.below(8) == 0;
  const bool reliable = victim.requester() != nullptr;  // nobody knows what numbers the others wait for
  bth.psn = info.is_response() ? far_from(reliable ? victim.requester()->window().una() : Psn(), kReach)
                               : far_from(reliable ? victim.responder()->epsn() : Psn(), kHeldReach);

  uint32_t bytes = 0;
  if (info.has(kHasPayload))
    bytes = random_.below(3) == 0 ? victim.attributes().path_mtu_bytes : 4 * (1 + random_.below(kPayloadMax / 4));
  if (opcode == kOpcodeSack) bytes = SackRange::kBytes * (1 + random_.below(kSackRangesMax));
  uint8_t junk[4096];
  ensure(bytes <= sizeof junk, "a forged packet is no longer than a real one");
  for (uint32_t i = 0; i < bytes; i++) junk[i] = static_cast<uint8_t>(random_.next_u32());

  sim::Frame frame = sim::Frame::with_capacity(4096 + kMaxFrameOverhead);
  TxFrame out{frame.data(), 4096 + kMaxFrameOverhead, 0, nullptr};
  const RouteHeader path(peer.path());
  FrameBuilder builder(out, path, bth, info.header_bytes, bytes);
  uint8_t* ext = builder.ext();
  std::memset(ext, 0, info.header_bytes);
  if (info.has(kHasFeth)) {
    Feth::from(random_.below(64)).encode(ext);
    ext += Feth::kBytes;
  }
  if (info.has(kHasReth)) {
    const uint32_t length = info.is_only() && bytes != 0 ? bytes : random_.below(kPayloadMax);
    Reth{place, key, length}.encode(ext);
    ext += Reth::kBytes;
  }
  if (info.has(kHasAtomicEth)) AtomicEth{place, key, random_.next_u64(), random_.next_u64()}.encode(ext);
  if (info.has(kHasAeth)) {
    Aeth{syndrome(), random_.below(1u << 24)}.encode(ext);
    ext += Aeth::kBytes;
  }
  if (info.has(kHasAtomicAckEth)) AtomicAckEth{random_.next_u64()}.encode(ext);
  if (info.has(kHasIeth)) Ieth{key}.encode(ext);
  builder.append(junk, bytes);
  builder.finish();
  frame.set_size(out.bytes);
  host.port().deliver(std::move(frame));
}

}  // namespace uroce::model
