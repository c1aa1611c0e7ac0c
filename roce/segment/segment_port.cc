#include "segment/segment_port.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace uroce::segment {
namespace {

// How often letters are looked for. A thread that sleeps while another one polls is woken by them.
constexpr Duration kMailLook = microseconds(50);
constexpr Duration kMailWakes = milliseconds(10);
/// A member that is gone is noticed a quarter of a second later; meanwhile some more may come and go.
constexpr uint32_t kMembersOfCable = 8;
/// Frames lent at a time when few are free: all of them may go to one receiver that does not read.
constexpr uint32_t kFewFrames = 4;

/// Where a bridge meets one member only, as on a cable, frames wait before the segment. Otherwise no sender waits for
/// another's receiver.
bool only_way_is_congested(Role own, const Peers& peers) {
  if (own != Role::kBridge || peers.size() != 1) return false;
  const auto& met = peers.in_contact();
  return met.size() == 1 && met.front()->lane->sender.congested();
}

}  // namespace

std::unique_ptr<SegmentPort> SegmentPort::join(const SegmentOptions& options, std::string& error) {
  std::unique_ptr<SegmentPort> port(new SegmentPort(options));
  if (!port->start(error)) return nullptr;
  return port;
}

SegmentPort::Parts::Parts(SegmentPort& port, BaseMemory& base)
    : pool(base),
      peers(port.registration_.directory(), port.registration_.id(), port.options_.record.mac, port.options_.as_cable),
      hops(peers),
      introductions(port.mailbox_, peers, pool, port.base_memory_, port.registration_.id(),
                    {port.options_.lanes_max, port.options_.as_cable ? kMembersOfCable : 0}, port.options_.warn),
      answers(peers, port.options_.warn),
      forwarding(peers, answers, port.options_.record.role),
      bells(port.mailbox_, port.registration_.id()),
      deliveries(introductions, pool, bells, port.counters_),
      sleep(base, port.mailbox_, peers, answers, bells),
      uplink(peers, port.options_.record),
      checks(peers) {}

bool SegmentPort::start(std::string& error) {
  ensure(options_.frame_bytes <= kFrameBytes, "a frame of the port fits the segment's");
  if (!base_memory_.make("uroce-segment", sizeof(BaseMemory), error)) return false;
  BaseMemory& base = *static_cast<BaseMemory*>(base_memory_.data());
  if (!registration_.join(options_.directory, options_.record, error)) return false;
  // What is shown has keys in it, which are for programs of the user alone.
  const bool direct = options_.direct && (registration_.directory().file_mode() & (S_IRWXG | S_IRWXO)) == 0;
  if (direct) mailbox_.ask_for_senders();
  if (!mailbox_.open(registration_.directory(), registration_.id(), error)) return false;
  parts_.emplace(*this, base);
  if (direct) {
    parts_->direct.emplace(base.direct, parts_->peers, options_.tell);
    parts_->direct->open();
  }
  parts_->peers.refresh();
  parts_->uplink.look(now_);
  return true;
}

SegmentPort::~SegmentPort() {
  if (parts_) parts_->bells.look(Bells::Look::kLast);
}

void SegmentPort::abandon() {
  // The memory is not mapped here. Tables may be as another thread of the parent left them in the middle of a change.
  base_memory_.forget();
  mailbox_.forget();
  registration_.forget();
}

std::optional<uint32_t> SegmentPort::take_block() {
  std::string error;
  const auto block = registration_.take_block(error);
  if (!error.empty()) options_.warn(error);
  return block;
}

SegmentCounters SegmentPort::counters() const {
  SegmentCounters counters = counters_;
  counters.tx_dropped_stuck += parts_->checks.dropped_stuck();
  counters.wakes_sent = parts_->bells.wakes_sent();
  return counters;
}

// Out.

uint32_t SegmentPort::acquire_tx(TxFrame* frames, uint32_t max) {
  if (only_way_is_congested(options_.record.role, parts_->peers)) return 0;
  if (parts_->pool.free() < FramePool::kReserve) {
    for (Peer* peer : parts_->peers.in_contact()) peer->lane->sender.reclaim();
  }
  if (parts_->pool.free() < FramePool::kReserve) max = std::min(max, kFewFrames);
  const uint32_t count = std::min({max, parts_->pool.free(), kMaxBurst});
  for (uint32_t i = 0; i < count; i++) {
    const uint16_t frame = parts_->pool.take();
    frames[i] = {parts_->pool.at(frame), options_.frame_bytes, 0, reinterpret_cast<void*>(uintptr_t{frame})};
  }
  return count;
}

void SegmentPort::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const auto frame = static_cast<uint16_t>(reinterpret_cast<uintptr_t>(frames[i].token));
    if (frames[i].bytes == 0) {
      parts_->pool.give_back(frame);
      continue;
    }
    ensure(frames[i].bytes <= options_.frame_bytes, "a frame is no longer than its buffer");
    Peer* const peer = parts_->hops.receiver_of(frames[i]);
    const PooledFrame pooled{frame, static_cast<uint16_t>(frames[i].bytes)};
    peer != nullptr ? parts_->deliveries.deliver(*peer, pooled, now_) : forward(pooled);
  }
  parts_->bells.ring();
}

/// Frames whose receiver is not known yet, or that are for no queue pair.
void SegmentPort::forward(PooledFrame frame) {
  const Forwarding::Verdict way = parts_->forwarding.find({parts_->pool.at(frame.frame), frame.bytes}, now_);
  if (way == Forwarding::Verdict::kNobody) counters_.tx_dropped_nobody++;
  if (way == Forwarding::Verdict::kNone) counters_.tx_dropped_no_way++;
  if (way == Forwarding::Verdict::kPeers) {
    const auto& receivers = parts_->forwarding.receivers();
    for (size_t i = 1; i < receivers.size(); i++) {
      if (parts_->pool.free() < FramePool::kReserve) {
        counters_.tx_dropped_full++;
        continue;
      }
      const PooledFrame copy{parts_->pool.take(), frame.bytes};
      std::memcpy(parts_->pool.at(copy.frame), parts_->pool.at(frame.frame), frame.bytes);
      parts_->deliveries.deliver(*receivers[i], copy, now_);
    }
    return parts_->deliveries.deliver(*receivers.front(), frame, now_);
  }
  parts_->pool.give_back(frame.frame);
}

bool SegmentPort::congested(const MacAddress& dst, uint32_t dest_qpn) {
  if (dest_qpn == 0) {  // raw packets: any of the programs that may get a copy
    const auto& takers = parts_->peers.raw_takers();
    return std::any_of(takers.begin(), takers.end(),
                       [](const Peer* peer) { return peer->lane && peer->lane->sender.congested(); });
  }
  // The slowest program of a group holds its senders back, as a lossless wire would; one that takes nothing at all does
  // so only until it counts as stuck. Stations, which get every group, do not.
  if (dst.is_multicast()) {
    const auto& peers = parts_->peers.in_contact();
    return std::any_of(peers.begin(), peers.end(), [&](const Peer* peer) {
      return peer->role == Role::kProgram && peer->lane && peer->lane->sender.congested() && peer->in_group(dst);
    });
  }
  Peer* const peer = parts_->peers.find(dst, dest_qpn);
  return peer != nullptr && peer->lane && peer->lane->sender.congested();
}

// In.

uint32_t SegmentPort::receive_from(Peer& peer, RxFrame* frames, uint32_t max) {
  uint32_t count = 0;
  const uint64_t nonsense = peer.lane->receiver.nonsense();
  for (; count < max; count++) {
    const auto frame = peer.lane->receiver.receive(headers_[held_].data());
    if (!frame) break;
    frames[count] = {frame->data, frame->bytes, &peer, frame->headers};
    held_++;
  }
  counters_.rx_nonsense += peer.lane->receiver.nonsense() - nonsense;
  return count;
}

uint32_t SegmentPort::receive(RxFrame* frames, uint32_t max) {
  uint32_t count = 0;
  max = std::min(max, kMaxBurst - held_);
  while (parts_->answers.any() && count < max) {
    const auto answer = parts_->answers.next();
    std::memcpy(headers_[held_].data(), answer->data.data(), answer->bytes);
    frames[count++] = {headers_[held_++].data(), answer->bytes, nullptr, nullptr};
  }
  const auto& contacts = parts_->peers.in_contact();
  // Every peer has its turn, even if one can fill a burst alone.
  for (size_t i = 0; i < contacts.size() && count < max; i++) {
    last_received_ = last_received_ + 1 < contacts.size() ? last_received_ + 1 : 0;
    Peer& peer = *contacts[last_received_];
    if (!peer.held_back) count += receive_from(peer, frames + count, max - count);
  }
  return count;
}

void SegmentPort::release_rx(RxFrame* /*frames*/, uint32_t count) {
  ensure(count <= held_, "a frame that is released was received");
  held_ -= count;
  if (held_ != 0) return;
  for (Peer* peer : parts_->peers.in_contact()) peer->lane->receiver.release();
}

// Other members come and go.

void SegmentPort::look_after(Instant now) {
  const bool timely = now >= next_look_;
  if (timely) next_look_ = now + Bells::kLook;
  parts_->bells.look(timely ? Bells::Look::kTimely : Bells::Look::kAtAnyTime);
  if (!parts_->sleep.take_woken() && now < next_mail_) return;
  look_at_mail(now);
  parts_->uplink.look(now);
  if (parts_->direct) parts_->direct->look_after();
  if (registration_.tell_again(now))
    options_.warn("the directory has room again: the other programs know everything now");
  if (const std::string news = registration_.look_after_directory(mailbox_, now); !news.empty()) options_.warn(news);
  if (held_ == 0) part_with_the_gone(now);
}

void SegmentPort::look_at_mail(Instant now) {
  const size_t before = parts_->peers.in_contact().size();
  if (parts_->introductions.read_mail(now)) parts_->sleep.note_rung();
  counters_.contacts += parts_->peers.in_contact().size() - before;
  parts_->introductions.repeat(now);
  next_mail_ = now + (parts_->sleep.wakes_for_letters() ? kMailWakes : kMailLook);
}

void SegmentPort::part_with_the_gone(Instant now) {
  std::vector<LostMember> lost;
  while (Peer* gone = parts_->checks.find_gone(now)) {
    counters_.peers_lost++;
    if (parts_->direct) parts_->direct->expel(*gone);
    gone->lane->sender.abandon();
    parts_->bells.forget(*gone);
    parts_->deliveries.forget(*gone);
    lost.push_back(parts_->peers.remove(*gone));
  }
  if (!lost.empty()) parts_->peers.refresh(true);
  parts_->checks.tidy(now);
  // Uplinks and bridges only forward: no connection ends at them.
  for (const LostMember& member : lost) {
    if (member.whole_host || !member.blocks.empty()) on_lost_(member, now);
  }
}

}  // namespace uroce::segment
