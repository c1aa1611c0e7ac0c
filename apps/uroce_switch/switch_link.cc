#include "switch_link.h"

#include <algorithm>

#include "dpdk/pcapng_writer.h"

namespace uroce::netswitch {

using fabric::Delivery;
using fabric::FabricFrame;
using fabric::Impairments;

namespace {

// A loop that was stopped for longer than this (by SIGSTOP or a debugger) does not catch up on that time.
constexpr Duration kMostCatchUp = milliseconds(100);

}  // namespace

SwitchLink::SwitchLink(const SwitchLinkConfig& config, std::unique_ptr<SwitchPort> port, MbufPool& pool, Instant start)
    : config_(config),
      port_(std::move(port)),
      pool_(pool),
      random_(config.seed),
      in_faults_(config.in, pool, random_, start),
      out_faults_(config.out, pool, random_, start),
      in_line_(config.max_delayed),
      out_line_(config.max_delayed),
      wire_(config.bits_per_second) {}

bool SwitchLink::to_one_piece(rte_mbuf* mbuf) {
  // Flags from the reception are removed before the mbuf is sent, except those that say where its data lies, which are
  // needed to free it.
  mbuf->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
  if (mbuf->nb_segs == 1 || rte_pktmbuf_linearize(mbuf) == 0) return true;
  counters_.rx_too_long++;
  rte_pktmbuf_free(mbuf);
  return false;
}

uint32_t SwitchLink::receive(fabric::Switch& to, Instant now) {
  uint32_t work = 0;
  while (const FabricFrame late = in_line_.pop(now)) {
    to.on_frame(config_.id, late, now);
    work++;
  }
  while (const FabricFrame storm = in_faults_.poll_injected(now)) to.on_frame(config_.id, storm, now);
  rte_mbuf* mbufs[kBurst];
  const uint32_t count = port_->receive(mbufs, kBurst);
  if (count != 0 && !up_) {
    // A peer that sends is there. The port is asked directly, because look_after would only see its earlier state.
    port_->read_link();
    if (port_->link_up()) set_up(to, true, now);
  }
  for (uint32_t i = 0; i < count; i++) {
    if (to_one_piece(mbufs[i])) take_in(to, mbufs[i], now);
  }
  return work + count;
}

void SwitchLink::take_in(fabric::Switch& to, rte_mbuf* mbuf, Instant now) {
  const FabricFrame frame = MbufPool::frame_of(mbuf);
  if (capture_ != nullptr) capture_->on_frame_at(capture_interface_, Direction::kReceived, now, frame.view());
  if (!in_faults_.active()) return to.on_frame(config_.id, frame, now);
  std::array<Delivery, Impairments::kMaxDeliveries> deliveries;
  const uint32_t count = in_faults_.on_frame(frame, now, deliveries);
  for (uint32_t i = 0; i < count; i++) {
    if (deliveries[i].delay.ns <= 0) {
      to.on_frame(config_.id, deliveries[i].frame, now);
    } else if (!in_line_.push(deliveries[i].frame, now + deliveries[i].delay)) {
      counters_.in_delay_full++;
      pool_.release(deliveries[i].frame);
    }
  }
}

/// Puts the frame into the outbox, which must have room.
void SwitchLink::send_out(const FabricFrame& frame, Instant now) {
  if (frame.bytes > config_.max_frame_bytes) {
    counters_.tx_too_long++;
    pool_.release(frame);
    return;
  }
  if (capture_ != nullptr) capture_->on_frame_at(capture_interface_, Direction::kSent, now, frame.view());
  outbox_[outbox_count_++] = MbufPool::mbuf_of(frame);
}

void SwitchLink::put_out(const FabricFrame& frame, Instant now) {
  if (!out_faults_.active()) return send_out(frame, now);
  std::array<Delivery, Impairments::kMaxDeliveries> deliveries;
  const uint32_t count = out_faults_.on_frame(frame, now, deliveries);
  for (uint32_t i = 0; i < count; i++) {
    if (deliveries[i].delay.ns <= 0) {
      send_out(deliveries[i].frame, now);
    } else if (!out_line_.push(deliveries[i].frame, now + deliveries[i].delay)) {
      counters_.out_delay_full++;
      pool_.release(deliveries[i].frame);
    }
  }
}

uint32_t SwitchLink::transmit(fabric::Switch& from, Instant now) {
  // As long as the port does not take its frames, the others stay in the switch, where they are counted, marked and
  // paused.
  if (!port_->ready_to_send()) {
    backlogged_ = false;
    return 0;
  }
  outbox_count_ = 0;
  while (outbox_count_ < kOutbox / 2) {
    const FabricFrame late = out_line_.pop(now);
    if (!late) break;
    send_out(late, now);
  }
  while (outbox_count_ < kOutbox) {
    const FabricFrame storm = out_faults_.poll_injected(now);
    if (!storm) break;
    send_out(storm, now);
  }
  while (outbox_count_ + Impairments::kMaxDeliveries <= kOutbox) {
    const FabricFrame pause = from.poll_pause_frame(config_.id, now);
    if (!pause) break;
    put_out(pause, now);
  }
  while (outbox_count_ + Impairments::kMaxDeliveries <= kOutbox && fill_outbox(from, now)) {
  }
  if (outbox_count_ != 0) port_->send(outbox_.data(), outbox_count_);
  return outbox_count_;
}

/// Takes one frame from the switch. False when none may leave yet.
bool SwitchLink::fill_outbox(fabric::Switch& from, Instant now) {
  Instant start = now;
  if (config_.bits_per_second != 0) {
    start = std::max(wire_.ready_at(), backlogged_ ? Instant{now.ns - kMostCatchUp.ns} : now);
    if (now < start) {
      backlogged_ = waits_for(from);
      return false;
    }
  }
  const FabricFrame frame = from.poll_transmit(config_.id, start);
  backlogged_ = static_cast<bool>(frame);
  if (!frame) return false;
  wire_.on_sent(frame.bytes, start);
  put_out(frame, now);
  return true;
}

bool SwitchLink::waits_for(const fabric::Switch& from) const {
  for (unsigned priority = 0; priority < kPriorities; priority++) {
    if (from.queue_bytes(config_.id, priority) != 0) return true;
  }
  return false;
}

void SwitchLink::set_up(fabric::Switch& of, bool up, Instant now) {
  up_ = up;
  of.set_port_up(config_.id, up, now);
}

void SwitchLink::look_after(fabric::Switch& of, Instant now) {
  port_->on_turn(now);
  if (port_->link_up() != up_) set_up(of, port_->link_up(), now);
}

Instant SwitchLink::next_event() const {
  Instant next = std::min(std::min(in_line_.next(), out_line_.next()),
                          std::min(in_faults_.next_event(), out_faults_.next_event()));
  if (backlogged_) next = std::min(next, wire_.ready_at());
  return next;
}

}  // namespace uroce::netswitch
