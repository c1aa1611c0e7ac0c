#include "memif_port.h"

#include <algorithm>

#include <rte_mbuf.h>

#include "dpdk/log.h"

namespace uroce::netswitch {

using memif::InRing;
using memif::OutRing;

namespace {

// A peer that is stopped or waits for a CPU keeps its ring full. Frames for it wait, but no longer than this.
constexpr Duration kStuckAfter = milliseconds(1000);
// Limits the log lines about a client that is refused again and again.
constexpr Duration kNewsInterval = milliseconds(1000);

}  // namespace

std::unique_ptr<MemifPort> MemifPort::start(const std::string& socket, const std::string& name, rte_mempool* pool,
                                            std::string& error) {
  auto server = memif::Server::listen(socket, name, error);
  if (server == nullptr) return nullptr;
  return std::unique_ptr<MemifPort>(new MemifPort(std::move(server), name, pool));
}

MemifPort::~MemifPort() {
  drop_pending(counters_.tx_dropped_no_link);
  rte_pktmbuf_free(spare_);
}

uint32_t MemifPort::receive(rte_mbuf** mbufs, uint32_t max) {
  if (!server_->connected()) return 0;
  InRing& ring = server_->in();
  if (!ring.begin()) {
    server_->on_broken("its ring has more frames than slots");
    return 0;
  }
  uint32_t count = 0;
  while (count < max) {
    if (spare_ == nullptr) spare_ = rte_pktmbuf_alloc(pool_);
    if (spare_ == nullptr) break;  // the frames wait in the ring
    uint32_t bytes = 0;
    const InRing::Taken taken =
        ring.take(server_->memory(), rte_pktmbuf_mtod(spare_, uint8_t*), rte_pktmbuf_tailroom(spare_), bytes);
    if (taken == InRing::Taken::kNothing) break;
    if (taken == InRing::Taken::kBroken) {
      server_->on_broken("a descriptor of its ring points outside its memory, or to no next one");
      return count;
    }
    if (taken == InRing::Taken::kTooLong) {
      rx_too_long_++;
      continue;
    }
    spare_->data_len = static_cast<uint16_t>(bytes);
    spare_->pkt_len = bytes;
    mbufs[count++] = std::exchange(spare_, nullptr);
  }
  ring.finish();
  return count;
}

bool MemifPort::ready_to_send() {
  if (pending_count_ != 0) flush();
  return pending_count_ == 0;
}

void MemifPort::send(rte_mbuf* const* mbufs, uint32_t count) {
  if (count == 0) return;
  pending_head_ = 0;
  pending_count_ = count;
  std::copy_n(mbufs, count, pending_.begin());
  flush();
}

void MemifPort::flush() {
  const uint32_t first = pending_head_;
  const char* broken = nullptr;
  if (server_->connected()) {
    OutRing& ring = server_->out();
    if (!ring.begin()) broken = "its ring offers more slots than there are";
    while (pending_count_ != 0 && broken == nullptr) {
      const rte_mbuf* mbuf = pending_[pending_head_];
      const OutRing::Put put = ring.put(server_->memory(), rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len);
      if (put == OutRing::Put::kFull) break;
      if (put == OutRing::Put::kBroken) {
        broken = "a slot of its ring points outside its memory";
        break;
      }
      if (put == OutRing::Put::kTooLong) tx_no_room_++;
      pending_head_++;
      pending_count_--;
    }
    if (broken == nullptr) ring.finish();
  }
  if (const uint32_t done = pending_head_ - first; done != 0) {
    rte_pktmbuf_free_bulk(pending_.data() + first, done);
    accepted_ = true;
    stuck_ = false;
  }
  if (broken != nullptr) server_->on_broken(broken);
  // When nobody is at the other end, the frames are lost, as with an unplugged cable.
  if (pending_count_ != 0 && !server_->connected()) drop_pending(counters_.tx_dropped_no_link);
  if (pending_count_ != 0 && stuck_) drop_pending(counters_.tx_dropped_stuck);
}

void MemifPort::drop_pending(uint64_t& counter) {
  if (pending_count_ != 0) rte_pktmbuf_free_bulk(pending_.data() + pending_head_, pending_count_);
  counter += pending_count_;
  pending_count_ = 0;
}

void MemifPort::on_turn(Instant now) {
  server_->on_turn(now);
  if (pending_count_ != 0) flush();
  if (pending_count_ == 0 || std::exchange(accepted_, false)) {
    waiting_since_ = now;
  } else if (now - waiting_since_ >= kStuckAfter) {
    stuck_ = true;
    drop_pending(counters_.tx_dropped_stuck);
  }
  tell_news(now);
}

void MemifPort::tell_news(Instant now) {
  const uint64_t connected = server_->counters().connected;
  if (const uint64_t more = connected - std::exchange(seen_connected_, connected); more != 0) {
    counters_.link_ups += more;
    log_message(LogLevel::kInfo, "%s: the peer is there", name_.c_str());
  }
  if (std::exchange(was_up_, server_->connected()) && !was_up_) {
    log_message(LogLevel::kInfo, "%s: the peer left", name_.c_str());
  }
  if (now < next_news_) return;
  if (const std::string news = server_->take_news(); !news.empty()) {
    next_news_ = now + kNewsInterval;
    log_message(LogLevel::kWarning, "%s: %s", name_.c_str(), news.c_str());
  }
}

void MemifPort::for_each_own_counter(const std::function<void(const char*, uint64_t)>& f) const {
  f("drop_rx_too_long", rx_too_long_);
  f("drop_tx_no_room", tx_no_room_);
  f("peers_refused", server_->counters().refused);
  f("peers_given_up", server_->counters().given_up);
  f("peers_broken", server_->counters().broken);
}

}  // namespace uroce::netswitch
