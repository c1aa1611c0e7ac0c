#include "bridge_port.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <rte_mbuf.h>

#include "dpdk/log.h"
#include "segment/host_identity.h"

namespace uroce::netswitch {

namespace {

/// How often the directory is read for a member that has come but sends nothing.
constexpr Duration kLook = milliseconds(10);

}  // namespace

std::unique_ptr<BridgePort> BridgePort::start(const std::string& directory, Of of, const std::string& name,
                                              rte_mempool* pool, std::string& error) {
  segment::SegmentOptions options;
  options.directory = directory;
  options.record.role = segment::Role::kBridge;
  // On its own segment it is always the same, so that no files of earlier ones stay there.
  options.record.host = of == Of::kOwn ? "switch" : "switch-" + std::to_string(getpid());
  options.record.mac = segment::mac_of_host(options.record.host);  // on no frame
  options.record.pid = getpid();
  options.record.program = "uroce-switch";
  options.as_cable = of == Of::kOwn;
  options.warn = [name](const std::string& line) {
    log_message(LogLevel::kWarning, "%s: %s", name.c_str(), line.c_str());
  };
  auto segment = segment::SegmentPort::join(options, error);
  if (segment == nullptr) return nullptr;
  return std::unique_ptr<BridgePort>(new BridgePort(std::move(segment), of, name, pool));
}

BridgePort::~BridgePort() {
  rte_pktmbuf_free_bulk(spares_.data(), spare_count_);
  rte_pktmbuf_free_bulk(pending_.data() + pending_head_, pending_count_);
}

// From the segment.

void BridgePort::take_spares(uint32_t count) {
  while (spare_count_ < count) {
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool_);
    if (mbuf == nullptr) return;
    spares_[spare_count_++] = mbuf;
  }
}

uint32_t BridgePort::receive(rte_mbuf** mbufs, uint32_t max) {
  if (!segment_->has_frames()) return 0;
  take_spares(max);
  RxFrame frames[Port::kMaxBurst];
  const uint32_t got = segment_->receive(frames, std::min({max, spare_count_, Port::kMaxBurst}));
  uint32_t count = 0;
  for (uint32_t i = 0; i < got; i++) {
    if (fill(*spares_[spare_count_ - 1], frames[i])) mbufs[count++] = spares_[--spare_count_];
  }
  segment_->release_rx(frames, got);
  return count;
}

/// Copies the headers as they were checked, since a member may change what it has sent.
bool BridgePort::fill(rte_mbuf& mbuf, const RxFrame& frame) {
  if (frame.bytes > rte_pktmbuf_tailroom(&mbuf)) {
    rx_too_long_++;
    return false;
  }
  auto* const data = rte_pktmbuf_mtod(&mbuf, uint8_t*);
  const uint32_t headers = frame.headers == nullptr ? 0 : std::min(frame.bytes, RxFrame::kHeaderBytes);
  if (headers != 0) std::memcpy(data, frame.headers, headers);
  std::memcpy(data + headers, frame.data + headers, frame.bytes - headers);
  mbuf.data_len = static_cast<uint16_t>(frame.bytes);
  mbuf.pkt_len = frame.bytes;
  return true;
}

// To the segment.

bool BridgePort::ready_to_send() {
  if (pending_count_ != 0) flush();
  return turned_ && pending_count_ == 0;
}

void BridgePort::send(rte_mbuf* const* mbufs, uint32_t count) {
  pending_head_ = 0;
  pending_count_ = count;
  std::copy_n(mbufs, count, pending_.begin());
  flush();
}

void BridgePort::flush() {
  while (pending_count_ != 0) {
    TxFrame out[Port::kMaxBurst];
    const uint32_t room = segment_->acquire_tx(out, std::min(pending_count_, Port::kMaxBurst));
    if (room == 0) return;
    for (uint32_t i = 0; i < room; i++) fill(out[i], *pending_[pending_head_ + i]);
    segment_->send(out, room);
    rte_pktmbuf_free_bulk(pending_.data() + pending_head_, room);
    pending_head_ += room;
    pending_count_ -= room;
  }
}

/// A frame that is too long leaves `out` unused.
void BridgePort::fill(TxFrame& out, const rte_mbuf& mbuf) {
  if (mbuf.data_len > out.capacity) {
    tx_too_long_++;
    return;
  }
  std::memcpy(out.data, rte_pktmbuf_mtod(&mbuf, const uint8_t*), mbuf.data_len);
  out.bytes = mbuf.data_len;
}

void BridgePort::on_turn(Instant now) {
  turned_ = true;
  segment_->on_turn(now);
  if (pending_count_ != 0) flush();
  counters_.tx_dropped_stuck = segment_->counters().tx_dropped_stuck;
  if (of_ == Of::kOwn) look_who_is_there(now);
}

/// The link is up while there is a member. Those in contact are known without reading the directory.
void BridgePort::look_who_is_there(Instant now) {
  if (now >= next_look_) {
    next_look_ = now + kLook;
    segment_->peers().refresh();
  }
  if (const bool up = segment_->peers().size() != 0; up != std::exchange(link_up_, up)) {
    if (up) counters_.link_ups++;
    log_message(LogLevel::kInfo, up ? "%s: the peer is there" : "%s: the peer left", name_.c_str());
  }
}

void BridgePort::for_each_own_counter(const std::function<void(const char*, uint64_t)>& f) const {
  const segment::SegmentCounters counters = segment_->counters();
  f("drop_rx_too_long", rx_too_long_);
  f("drop_rx_nonsense", counters.rx_nonsense);
  f("drop_tx_no_room", tx_too_long_ + counters.tx_dropped_full);
  f("drop_tx_nobody", counters.tx_dropped_nobody + counters.tx_dropped_no_way);
  f("peers_met", counters.contacts);
  f("peers_lost", counters.peers_lost);
}

}  // namespace uroce::netswitch
