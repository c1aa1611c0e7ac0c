#include "pmd/shmlan/station.h"

#include <rte_cycles.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "packet/network_headers.h"
#include "pmd/shmlan/membership.h"

namespace uroce::shmlan {
namespace {

/// Writes behind what is in an mbuf, and adds segments of the same pool where one is full.
class MbufWriter {
 public:
  MbufWriter(rte_mbuf& first, bool scatter) : first_(first), last_(&first), scatter_(scatter) {}

  /// False when there is no room.
  bool append(const uint8_t* data, uint32_t bytes) {
    while (bytes != 0) {
      const uint32_t part = std::min<uint32_t>(bytes, rte_pktmbuf_tailroom(last_));
      std::memcpy(rte_pktmbuf_mtod_offset(last_, uint8_t*, last_->data_len), data, part);
      last_->data_len = static_cast<uint16_t>(last_->data_len + part);
      first_.pkt_len += part;
      data += part;
      bytes -= part;
      if (bytes != 0 && !add_segment()) return false;
    }
    return true;
  }

 private:
  bool add_segment() {
    rte_mbuf* const more = scatter_ ? rte_pktmbuf_alloc(first_.pool) : nullptr;
    if (more == nullptr) return false;
    last_->next = more;
    last_ = more;
    first_.nb_segs++;
    return true;
  }

  rte_mbuf& first_;
  rte_mbuf* last_;
  const bool scatter_;
};

}  // namespace

Station::Station() : started_(rte_get_tsc_cycles()), ns_per_cycle_(1e9 / static_cast<double>(rte_get_tsc_hz())) {
  rte_spinlock_init(&lock_);
}

std::unique_ptr<Station> Station::join(const Arguments& arguments, std::string& error) {
  std::unique_ptr<Station> station(new Station);
  Joined joined;
  if (!join_segment(arguments, joined, error)) return nullptr;
  station->port_ = std::move(joined.port);
  station->mac_ = joined.mac;
  vdev::RxInterrupt& interrupt = station->interrupt_;
  if (interrupt.open(error) && interrupt.watch(station->port_->sleep().fd(), error)) return station;
  error = arguments.device + ": " + error;
  return nullptr;
}

void Station::set_rx_frame_bytes(uint32_t bytes) {
  const Lock lock(lock_);
  rx_frame_bytes_ = bytes;
}

void Station::turn() {
  const auto cycles = static_cast<double>(rte_get_tsc_cycles() - started_);
  port_->on_turn(Instant{static_cast<int64_t>(cycles * ns_per_cycle_)});
}

uint16_t Station::receive(RxBuffers& buffers, rte_mbuf** mbufs, uint16_t max) {
  const Lock lock(lock_);
  turn();
  uint16_t count = 0;
  // Frames that are dropped count, too, so that no sender can keep this loop running.
  for (uint32_t left = max; left != 0 && port_->has_frames();) {
    if (!buffers.fill()) {
      counters_.rx_no_mbufs++;  // the frames wait
      break;
    }
    RxFrame frames[Port::kMaxBurst];
    const uint32_t got = port_->receive(frames, std::min(left, buffers.count));
    for (uint32_t i = 0; i < got; i++) {
      if (!take(frames[i], buffers)) continue;
      mbufs[count++] = buffers.ready[--buffers.count];
    }
    port_->release_rx(frames, got);
    if (got == 0) break;
    left -= got;
  }
  return count;
}

/// Puts the frame into the next mbuf that is ready. False when it is dropped; the mbuf is then ready for another.
bool Station::take(const RxFrame& frame, RxBuffers& buffers) {
  rte_mbuf*& mbuf = buffers.ready[buffers.count - 1];
  MbufWriter writer(*mbuf, buffers.scatter);
  const uint32_t headers = frame.headers == nullptr ? 0 : std::min(frame.bytes, RxFrame::kHeaderBytes);
  const bool fits = frame.bytes <= rx_frame_bytes_;
  if (fits && writer.append(frame.headers, headers) && writer.append(frame.data + headers, frame.bytes - headers)) {
    mbuf->port = buffers.port_id;
    counters_.rx_packets++;
    counters_.rx_bytes += frame.bytes;
    return true;
  }
  (fits && buffers.scatter ? counters_.rx_no_mbufs : counters_.rx_too_long)++;
  rte_pktmbuf_free(std::exchange(mbuf->next, nullptr));
  rte_pktmbuf_reset(mbuf);
  return false;
}

uint16_t Station::send(rte_mbuf** mbufs, uint16_t count) {
  uint16_t done = 0;
  {
    const Lock lock(lock_);
    turn();
    while (done < count) {
      TxFrame frames[Port::kMaxBurst];
      const uint32_t room = port_->acquire_tx(frames, std::min<uint32_t>(count - done, Port::kMaxBurst));
      if (room == 0) break;
      for (uint32_t i = 0; i < room; i++) fill(frames[i], *mbufs[done + i]);
      port_->send(frames, room);
      done = static_cast<uint16_t>(done + room);
    }
  }
  rte_pktmbuf_free_bulk(mbufs, done);
  return done;
}

/// A packet that cannot be sent leaves `out` unused.
void Station::fill(TxFrame& out, const rte_mbuf& mbuf) {
  if (mbuf.pkt_len < kEthernetBytes) {
    counters_.tx_too_short++;
    return;
  }
  uint32_t bytes = 0;
  for (const rte_mbuf* segment = &mbuf; segment != nullptr; segment = segment->next) {
    if (segment->data_len > out.capacity - bytes) {
      counters_.tx_too_long++;
      return;
    }
    std::memcpy(out.data + bytes, rte_pktmbuf_mtod(segment, const uint8_t*), segment->data_len);
    bytes += segment->data_len;
  }
  out.bytes = bytes;
  counters_.tx_packets++;
  counters_.tx_bytes += bytes;
}

uint32_t Station::waiting() const {
  const Lock lock(lock_);
  uint32_t count = 0;
  for (const segment::Peer* peer : port_->peers().in_contact()) count += peer->lane->receiver.waiting();
  return count;
}

void Station::discard_received() {
  const Lock lock(lock_);
  turn();
  // Members may go on sending, so this ends after as many frames as can have waited.
  for (uint32_t left = segment::kPoolFrames; left != 0 && port_->has_frames();) {
    RxFrame frames[Port::kMaxBurst];
    const uint32_t got = port_->receive(frames, std::min(left, Port::kMaxBurst));
    port_->release_rx(frames, got);
    if (got == 0) break;
    left -= got;
  }
}

void Station::enable_interrupt() {
  const Lock lock(lock_);
  if (port_->tx_pending() || !port_->sleep().arm(true)) interrupt_.raise();
}

void Station::disable_interrupt() {
  const Lock lock(lock_);
  port_->sleep().disarm();
  interrupt_.clear();
}

vdev::Statistics Station::statistics() const {
  const Lock lock(lock_);
  vdev::Statistics all;
  all.rx_packets = counters_.rx_packets;
  all.rx_bytes = counters_.rx_bytes;
  all.rx_errors = counters_.rx_too_long;
  all.rx_no_mbufs = counters_.rx_no_mbufs;
  all.tx_packets = counters_.tx_packets;
  all.tx_bytes = counters_.tx_bytes;
  all.tx_errors = counters_.tx_too_long + counters_.tx_too_short;
  all.named.add("rx_too_long", counters_.rx_too_long);
  all.named.add("rx_no_mbufs", counters_.rx_no_mbufs);
  all.named.add("tx_too_long", counters_.tx_too_long);
  all.named.add("tx_too_short", counters_.tx_too_short);
  for_each_counter(port_->counters(), [&](const char* name, uint64_t value) { all.named.add(name, value); });
  return all;
}

}  // namespace uroce::shmlan
