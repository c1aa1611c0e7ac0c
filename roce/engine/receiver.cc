#include "engine/receiver.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "packet/icrc.h"
#include "transport/qp_init.h"

namespace uroce {

namespace {

constexpr uint32_t kReceivesPerTurn = 2;
constexpr uint32_t kReceivesAtEnd = 64;
constexpr uint32_t kOtherFrameBytes =
    2048;  // of frames that may change while they are read; no longer ping is answered

/// Full and limited membership of the default partition; ours is full, so either is a match.
bool pkey_matches(uint16_t pkey) { return (pkey & 0x7FFF) == (kDefaultPkey & 0x7FFF); }

ParseResult parse(const RxFrame& frame, PacketView& packet) {
  return parse_frame({frame.data, frame.bytes}, packet, frame.headers);
}

/// May a QP in this state receive such a packet?
bool state_receives(QpState state, bool response) {
  switch (state) {
    case QpState::kRts:
    case QpState::kSqd:
      return true;
    case QpState::kRtr:
    case QpState::kSqe:
      return !response;
    default:
      return false;
  }
}

}  // namespace

/// The port's backlog is measured before anything is taken: the longer the program was away, the larger it is. A port
/// that cannot tell has one when several turns could not empty it.
void Receiver::note_backlog(Instant now) {
  uint32_t frames = parts_.port.rx_backlog();
  if (frames == Port::kBacklogUnknown) frames = full_receives_ * kReceivesPerTurn * kReceiveBurst;
  parts_.pfc.on_backlog(frames, now);
}

uint32_t Receiver::receive(Instant now) {
  if (parts_.pfc.enabled()) note_backlog(now);
  uint32_t total = 0;
  for (uint32_t i = 0; i < kReceivesPerTurn; i++) {
    const uint32_t count = parts_.port.receive(frames_.data(), kReceiveBurst);
    ensure(count <= kReceiveBurst, "a port gives no more frames than there is room for");
    if (count == 0) break;
    for (uint32_t at = 0; at < count; at += kParseAhead) {
      process({frames_.data() + at, std::min<size_t>(kParseAhead, count - at)}, now);
    }
    parts_.port.release_rx(frames_.data(), count);
    total += count;
    if (count < kReceiveBurst) break;
  }
  full_receives_ = total == kReceivesPerTurn * kReceiveBurst ? full_receives_ + 1 : 0;
  // There may be no further call before the neighbour sends: so the shorter backlog is reported now.
  if (parts_.pfc.pausing() && parts_.port.rx_backlog() != Port::kBacklogUnknown) note_backlog(now);
  return total;
}

void Receiver::receive_all(Instant now) {
  for (uint32_t i = 0; i < kReceivesAtEnd && receive(now) == kReceivesPerTurn * kReceiveBurst; i++) {
  }
  drain_loopback(now);
}

uint32_t Receiver::drain_loopback(Instant now) {
  const uint32_t count = parts_.loopback.size();
  for (uint32_t i = 0; i < count; i++) {
    const auto frame = parts_.loopback.front();
    const RxFrame rx{frame.data(), static_cast<uint32_t>(frame.size())};
    process({&rx, 1}, now);
    parts_.loopback.pop();
  }
  return count;
}

void Receiver::process(std::span<const RxFrame> frames, Instant now) {
  const size_t count = frames.size();
  ensure(count <= kParseAhead, "no more frames are looked at together than there is room for");
  KnownHeaders::Known* known[kParseAhead];
  ParseResult results[kParseAhead];
  for (size_t i = 0; i < count; i++) {
    counters_.rx_packets++;
    counters_.rx_bytes += frames[i].bytes;
    parts_.tap.on_received(frames[i], now);
    results[i] = ParseResult::kOk;
    known[i] = headers_.find(frames[i]);
    if (known[i] != nullptr) {
      parts_.qps.prefetch_at(known[i]->slot);
      continue;
    }
    results[i] = parse(frames[i], packets_[i]);
    if (results[i] == ParseResult::kOk) parts_.qps.prefetch(packets_[i].bth.dest_qp);
  }
  noted_ = false;
  for (size_t i = 0; i < count; i++) {
    if (parts_.steering != nullptr && parts_.steering->sniffs()) sniff(results[i], frames[i], now);
    if (noted_ && known[i] != nullptr) {
      known[i] = nullptr;  // others may have taken their place
      results[i] = parse(frames[i], packets_[i]);
    }
    if (known[i] != nullptr) {
      on_known(KnownHeaders::view_of(frames[i], *known[i]), *known[i], now);
    } else if (results[i] == ParseResult::kOk) {
      on_packet(packets_[i], now);
    } else {
      on_unparsed(results[i], frames[i], now);
    }
  }
  update_last();
}

/// Shows sniffers the frames that flows do not see.
void Receiver::sniff(ParseResult result, const RxFrame& frame, Instant now) {
  const bool steered = result == ParseResult::kNotRoce || result == ParseResult::kTruncated ||
                       result == ParseResult::kBadIpHeader || result == ParseResult::kFragmented;
  if (!steered) parts_.steering->sniff(frame, now);
}

/// Frames of other protocols: flow control and the neighbour protocol read them more than once, so one that may change
/// is copied. True when they took it.
bool Receiver::on_other(const RxFrame& frame, Instant now) {
  std::span<const uint8_t> bytes(frame.data, frame.bytes);
  uint8_t copy[kOtherFrameBytes];
  if (frame.headers != nullptr) {
    if (frame.bytes > sizeof copy) return false;
    const uint32_t head = std::min(frame.bytes, RxFrame::kHeaderBytes);
    std::memcpy(copy, frame.headers, head);
    std::memcpy(copy + head, frame.data + head, frame.bytes - head);
    std::atomic_signal_fence(std::memory_order_acquire);
    bytes = {copy, frame.bytes};
  }
  return parts_.pfc.on_frame(bytes, now) || parts_.neighbours.on_frame(bytes, now) ||
         parts_.multicast.membership().on_frame(bytes, now);
}

void Receiver::on_unparsed(ParseResult result, const RxFrame& frame, Instant now) {
  switch (result) {
    case ParseResult::kOk:
      break;
    case ParseResult::kNotRoce: {
      const bool used = on_other(frame, now);
      if (!steer(frame, now) && !used) counters_.rx_drop_not_roce++;
      break;
    }
    case ParseResult::kTruncated:
      if (!steer(frame, now)) counters_.rx_drop_truncated++;
      break;
    case ParseResult::kBadIpHeader:
      if (!steer(frame, now)) counters_.rx_drop_bad_ip_header++;
      break;
    case ParseResult::kFragmented:
      if (!steer(frame, now)) counters_.rx_drop_fragmented++;
      break;
    case ParseResult::kLengthMismatch:
      counters_.rx_drop_length_mismatch++;
      break;
    case ParseResult::kUnknownOpcode:
      counters_.rx_drop_unknown_opcode++;
      break;
    case ParseResult::kBadTver:
      counters_.rx_drop_bad_tver++;
      break;
    case ParseResult::kBadPad:
      counters_.rx_drop_bad_pad++;
      break;
    case ParseResult::kUnexpectedPayload:
      counters_.rx_drop_unexpected_payload++;
      break;
  }
}

/// The checks that come before the iCRC, cheapest first. nullptr: dropped and counted.
Qp* Receiver::find_receiver(const PacketView& packet) {
  Qp* qp = packet.bth.dest_qp == 0 ? nullptr : parts_.qps.find(packet.bth.dest_qp);
  if (qp == nullptr) {
    counters_.rx_drop_no_qp++;
    return nullptr;
  }
  return takes(*qp, packet) ? qp : nullptr;
}

/// Those of them that the QP makes.
bool Receiver::takes(const Qp& qp, const PacketView& packet) {
  if (qp.type() == QpType::kRawPacket) {
    counters_.rx_drop_qp_service++;
    return false;
  }
  // CNPs are for connections, of either kind.
  const bool cnp = packet.info->service == Service::kCnp;
  if (cnp ? !qp.connected() : packet.info->service != service_of(qp.type())) {
    counters_.rx_drop_qp_service++;
    return false;
  }
  // Of an XRC connection, one side sends requests and the other sends responses.
  const bool xrc = packet.info->service == Service::kXrc;
  if (xrc && packet.info->is_response() != (qp.type() == QpType::kXrcSend)) {
    counters_.rx_drop_qp_service++;
    return false;
  }
  if (!state_receives(qp.state(), packet.info->is_response())) {
    counters_.rx_drop_qp_state++;
    return false;
  }
  if (qp.connected()) {
    const Route& path = qp.path();
    if (packet.src_ip != path.dst_ip || packet.dst_ip != path.src_ip || packet.vlan_id != path.vlan_id) {
      counters_.rx_drop_wrong_peer++;
      return false;
    }
  }
  if (!pkey_matches(packet.bth.pkey)) {
    counters_.rx_drop_bad_pkey++;
    return false;
  }
  return true;
}

/// Each queue pair of the group gets its own copy, and drops it for its own reasons.
void Receiver::on_multicast(const PacketView& packet, Instant now) {
  const std::vector<Qp*>* const qps = parts_.multicast.attached(packet.dst_ip);
  if (qps == nullptr || packet.bth.dest_qp != kMulticastQpn || !parts_.addresses.has_vlan(packet.vlan_id)) {
    counters_.rx_drop_not_for_us++;
  } else if (packet.info->service != Service::kUd) {
    counters_.rx_drop_qp_service++;
  } else if (!pkey_matches(packet.bth.pkey)) {
    counters_.rx_drop_bad_pkey++;
  } else if (!icrc_matches(packet)) {
    counters_.rx_icrc_encapsulated++;
  } else {
    counters_.rx_multicast++;
    for (Qp* const qp : *qps) {
      if (!state_receives(qp->state(), false)) {
        counters_.rx_drop_qp_state++;
        continue;
      }
      if (qp->init().blocks_own_multicast && packet.deth().src_qp == qp->qpn() &&
          parts_.addresses.is_own(packet.src_ip, packet.vlan_id))
        continue;
      qp->on_packet(packet, now);
      parts_.schedule.update(*qp);
    }
  }
}

void Receiver::on_packet(const PacketView& packet, Instant now) {
  if (packet.dst_ip.is_multicast()) return on_multicast(packet, now);
  if (!addressed_to_us(packet)) {
    counters_.rx_drop_not_for_us++;
    return;
  }
  if (packet.bth.dest_qp == kManagementQpn) return on_management(packet, now);
  Qp* qp = find_receiver(packet);
  if (qp == nullptr) return;
  if (!icrc_matches(packet)) {
    counters_.rx_icrc_encapsulated++;
    return;
  }
  if (packet.info->operation == Operation::kCnp) {
    if (!qp->on_cnp(now)) counters_.rp_cnp_ignored++;
    return parts_.schedule.update(*qp);
  }
  if (headers_.note(packet, qp->index(), parts_.addresses.version())) noted_ = true;
  deliver(*qp, packet, now);
}

/// The same for a packet with known headers. What they say of the destination and the service still holds, unless the
/// queue pair or our addresses are others by now.
void Receiver::on_known(const PacketView& packet, const KnownHeaders::Known& known, Instant now) {
  Qp* const qp = parts_.qps.find_at(known.slot, packet.bth.dest_qp);
  if (qp == nullptr || known.own != parts_.addresses.version()) return on_packet(packet, now);
  if (!takes(*qp, packet)) return;
  if (!icrc_matches(packet, known.crc)) {
    counters_.rx_icrc_encapsulated++;
    return;
  }
  deliver(*qp, packet, now);
}

void Receiver::deliver(Qp& qp, const PacketView& packet, Instant now) {
  if (packet.ecn_marked()) on_marked(qp, now);
  qp.on_packet(packet, now);
  if (last_ == &qp) return;
  update_last();
  last_ = &qp;
}

void Receiver::update_last() {
  if (last_ != nullptr) parts_.schedule.update(*last_);
  last_ = nullptr;
}

/// Queue pair 1 is no object: it takes datagrams, and has no memory of its own.
void Receiver::on_management(const PacketView& packet, Instant now) {
  const OpcodeInfo& info = *packet.info;
  if (info.service != Service::kUd || info.has(kHasImm)) {
    counters_.rx_drop_qp_service++;
  } else if (!pkey_matches(packet.bth.pkey)) {
    counters_.rx_drop_bad_pkey++;
  } else if (!icrc_matches(packet)) {
    counters_.rx_icrc_encapsulated++;
  } else {
    parts_.management.on_packet(packet, now);
  }
}

/// The sender is to slow down, if it can be told: the sender of a datagram has no connection for a CNP.
void Receiver::on_marked(Qp& qp, Instant now) {
  counters_.np_ecn_marked_roce_packets++;
  if (qp.congestion() == nullptr || !parts_.schedule.takes_cnp(qp) || !qp.on_marked(now)) return;
  parts_.schedule.want_cnp(qp);
}

}  // namespace uroce
