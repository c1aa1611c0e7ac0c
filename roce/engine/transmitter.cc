#include "engine/transmitter.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "packet/route_header.h"
#include "transport/address_handle.h"

namespace uroce {

namespace {

// A post or an answer rarely needs more; bulk senders come back for whole bursts. Where it costs little to come back,
// it is a message, and an ACK.
constexpr uint32_t kFirstBurst = 4;
constexpr uint32_t kFirstBurstByHops = 2;
constexpr uint32_t kSendsPerTurn = 5;
constexpr uint32_t kFewFrames = 2;  // a message, and an ACK
constexpr uint32_t kQuantum = 16;   // frames of one QP before the next has its turn

}  // namespace

uint32_t Transmitter::transmit_bursts(Instant now) {
  const uint64_t copied = counters_.direct_bytes;
  const uint32_t first = hops_ != nullptr ? kFirstBurstByHops : kFirstBurst;
  uint32_t total = transmit_burst(first, now);
  for (uint32_t i = 1; total >= first && i < kSendsPerTurn && anything_waits(now); i++) {
    const uint32_t sent = transmit_burst(kSendBurst, now);
    total += sent;
    if (sent < kSendBurst) break;
  }
  if (by_destination_) parts_.schedule.release_congested();
  return total + (counters_.direct_bytes != copied ? 1 : 0);  // what was copied without frames is work, too
}

void Transmitter::send_last_ack(Qp& qp, Instant now) {
  qp.end_ack_delay();
  parts_.schedule.update(qp);
  ending_ = &qp;
  for (uint32_t i = 0; i == 0 || (i < kSendsPerTurn && qp.owes_answer()); i++) {
    if (qp.owes_answer()) parts_.schedule.put_first(qp);
    if (transmit(now) == 0) break;
  }
  keep_answers(qp, now);
  ending_ = nullptr;
}

void Transmitter::keep_answers(Qp& qp, Instant now) {
  while (qp.wants_unpaced()) {
    if (!kept_.has_room()) return;
    TxFrame frame = kept_.room();
    if (!qp.poll_unpaced(frame, now)) return;
    if (!keep_from_port(frame, qp.lead_link(), qp.qpn(), now))
      kept_.keep(frame.bytes, qp.qpn(), qp.attributes().dest_qpn, qp.priority(), now);
  }
}

/// Sends up to `size` frames; returns how many.
uint32_t Transmitter::transmit_burst(uint32_t size, Instant now) {
  TxFrame* const frames = frames_.data();
  const uint32_t acquired = parts_.port.acquire_tx(frames, size);
  ensure(acquired <= size, "a port lends no more frames than it was asked for");
  if (acquired == 0) {
    counters_.tx_port_full++;
    return 0;
  }
  uint32_t used = host_waits(now) ? send_host_frames(frames, acquired, now) : 0;
  if (parts_.management.wants_transmit()) used += send_mads(frames + used, acquired - used, now);
  std::fill_n(senders_, used, 0);
  if (!kept_.empty()) used += kept_.send(frames + used, senders_ + used, acquired - used, parts_.pfc.paused(), now);
  if (parts_.schedule.cnps_wait()) used += send_cnps(frames + used, senders_ + used, acquired - used, now);
  used += send_qp_frames(frames + used, senders_ + used, acquired - used, now);
  ensure(used <= acquired, "no more frames are sent than the port lent");
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < used; i++) {
    bytes += frames[i].bytes;
    parts_.tap.on_sent({frames[i].data, frames[i].bytes}, senders_[i], now);
  }
  counters_.tx_packets += used;
  counters_.tx_bytes += bytes;
  parts_.port.send(frames, acquired);
  for (uint32_t i = 0; i < used; i++) {  // nothing of them is left for the next burst
    frames[i].bytes = 0;
    frames[i].hop = {};
  }
  return used;
}

uint32_t Transmitter::send_host_frames(TxFrame* frames, uint32_t count, Instant now) {
  PriorityFlowControl& pfc = parts_.pfc;
  Neighbours& neighbours = parts_.neighbours;
  uint32_t used = 0;
  if (pfc.wants_transmit(now) && pfc.poll_transmit(frames[0], now)) used++;
  while (used < count && neighbours.next_timeout() <= now && neighbours.poll_transmit(frames[used], now)) used++;
  GroupMembership& groups = parts_.multicast.membership();
  while (used < count && groups.next_timeout() <= now && groups.poll_transmit(frames[used], now)) used++;
  return used;
}

/// Congestion notifications go before everything else that QPs send.
uint32_t Transmitter::send_cnps(TxFrame* frames, uint32_t* senders, uint32_t count, Instant now) {
  uint32_t used = 0;
  while (used < count && parts_.schedule.cnps_wait()) {
    Qp& qp = parts_.schedule.take_cnp();
    if (!qp.encode_cnp(frames[used])) continue;
    if (keep_from_port(frames[used], qp.lead_link(), qp.qpn(), now)) {
      frames[used].bytes = 0;
      continue;
    }
    counters_.np_cnp_sent++;
    senders[used++] = qp.qpn();
  }
  return used;
}

/// Fills up to `count` frames from the QPs in turn; returns how many.
uint32_t Transmitter::send_qp_frames(TxFrame* frames, uint32_t* senders, uint32_t count, Instant now) {
  QpSchedule& schedule = parts_.schedule;
  uint32_t used = 0;
  uint32_t rounds = schedule.ready_count();
  while (used < count && rounds > 0 && schedule.ready_count() != 0) {
    Qp& qp = schedule.take_ready();
    if (parts_.pfc.paused() != 0 && blocked(qp.priority())) {
      schedule.set_paused(qp, parts_.pfc.paused());
      rounds--;
      continue;
    }
    PeerLink& link = qp.lead_link();
    if (is_congested(qp, link)) {
      schedule.set_congested(qp);
      rounds--;
      continue;
    }
    const uint32_t quantum = std::min(kQuantum, count - used);
    bool done = false;
    const uint32_t sent = send_frames_of(qp, link, {frames + used, quantum}, now, done);
    std::fill_n(senders + used, sent, qp.qpn());
    used += sent;
    done ? schedule.rest(qp) : schedule.update(qp);
    // A QP that used up its quantum gets another turn while there is room; one that ran out of frames does not.
    if (done || sent != quantum) rounds--;
  }
  return used;
}

/// Fills up to `count` frames with those of `qp`, which may send; each datagram has a destination of its own. `done`:
/// it was found to have no more.
uint32_t Transmitter::send_frames_of(Qp& qp, PeerLink& link, std::span<TxFrame> frames, Instant now, bool& done) {
  if (qp.type() == QpType::kRawPacket) return send_raw_frames(qp, frames, now);
  const bool datagrams = !qp.connected();
  uint32_t sent = 0;
  while (sent < frames.size() && !parts_.loopback.full()) {
    if (datagrams && is_congested(qp, qp.lead_link())) break;
    TxFrame& frame = frames[sent];
    if (!qp.poll_transmit(frame, now)) break;
    if (keep_from_port(frame, link, qp.qpn(), now)) {
      frame.bytes = 0;
    } else {
      frame.hop = hop_of(link);
      sent++;
    }
    // Cheaper than to find out with a frame, as long as there are few.
    if (sent <= kFewFrames && !qp.wants_transmit()) {
      done = true;
      break;
    }
  }
  return sent;
}

uint32_t Transmitter::send_raw_frames(Qp& qp, std::span<TxFrame> frames, Instant now) {
  uint32_t sent = 0;
  while (sent < frames.size() && !is_congested(qp, qp.lead_link()) && !parts_.loopback.full() &&
         qp.poll_transmit(frames[sent], now))
    loop_back_raw(frames[sent++]);
  return sent;
}

/// Whether its frames would only wait in the port; of a UD QP, its next datagram. As on a wire, the datagrams behind
/// that one wait for it. Otherwise they would be lost whenever a receiver gets no CPU for some hundred of them.
bool Transmitter::is_congested(const Qp& qp, PeerLink& link) {
  if (!by_destination_) return false;
  if (qp.type() == QpType::kRawPacket) return parts_.port.congested(MacAddress{}, 0);
  if (qp.connected() ? !qp.path_resolved() || &qp == ending_ : qp.sends_queued() == 0) return false;
  if (leads_to_us(link)) return false;
  const NextHop hop = hop_of(link);
  return hop.place != nullptr ? hops_->congested(hop) : parts_.port.congested(link.mac(), link.qpn());
}

/// Takes frames that no port should see: to our own QPs, or to a peer whose MAC is not known yet. True when taken. Our
/// MAC with a number that is not ours means another program of this host, which the port reaches.
bool Transmitter::keep_from_port(TxFrame& frame, const PeerLink& link, uint32_t qpn, Instant now) {
  if (link.mac().is_zero()) {
    counters_.tx_neighbour_unresolved++;
    parts_.neighbours.on_unresolved(frame.data, now);
    return true;
  }
  if (link.mac().is_multicast() && parts_.multicast.any() &&
      parts_.multicast.attached(dest_ip_of(frame.data)) != nullptr)
    loop_back_copy(frame);
  if (!leads_to_us(link)) return false;
  loop_back(frame, qpn, now);
  return true;
}

void Transmitter::loop_back(const TxFrame& frame, uint32_t qpn, Instant now) {
  parts_.tap.on_sent({frame.data, frame.bytes}, qpn, now);
  loop_back_copy(frame);
}

/// Raw packets go to their destination, and to our own flows, too, if that is our MAC or multicast.
void Transmitter::loop_back_raw(const TxFrame& frame) {
  MacAddress dst;
  std::memcpy(dst.bytes.data(), frame.data, dst.bytes.size());
  if (parts_.steering != nullptr && parts_.steering->takes_own(dst, mac_)) loop_back_copy(frame);
}

/// A copy of a frame that also goes to the port, such as one to a group with queue pairs of ours.
void Transmitter::loop_back_copy(const TxFrame& frame) {
  Loopback& loopback = parts_.loopback;
  if (loopback.full()) {
    counters_.loopback_full++;
  } else {
    counters_.loopback_packets++;
    loopback.push(frame);
  }
}

uint32_t Transmitter::send_mads(TxFrame* frames, uint32_t count, Instant now) {
  uint32_t used = 0;
  while (used < count && parts_.management.poll_transmit(frames[used], parts_.pfc.paused())) {
    if (keep_mad(frames[used], now)) {
      frames[used].bytes = 0;
    } else {
      used++;
    }
  }
  return used;
}

/// A datagram to our own host is for the program that it names. Takes it if that is this program; true then.
bool Transmitter::keep_mad(TxFrame& frame, Instant now) {
  if (!parts_.loopback.is_open() || std::memcmp(mac_.bytes.data(), frame.data, mac_.bytes.size()) != 0) return false;
  const std::span<const uint8_t> all(frame.data, frame.bytes);
  const ManagementAddress address =
      management_address(all.subspan(all.size() - kIcrcBytes - kManagementBytes, kManagementBytes));
  const bool alone = parts_.qps.owns_all();
  bool ours = alone;
  if (!alone && address.kind == ManagementAddress::Kind::kService) {
    ours = parts_.management.takes_request(address.service_id);
  } else if (!alone && address.kind == ManagementAddress::Kind::kId) {
    // A program that is gone answers nothing: its peer's host answers in its place.
    const uint32_t number = number_of_communication_id(address.communication_id);
    ours = parts_.qps.owns(number) || !parts_.qps.another_has(number);
  }
  const bool everybody = address.kind == ManagementAddress::Kind::kEverybody;
  if (ours || everybody) loop_back(frame, 0, now);
  return ours;
}

}  // namespace uroce
