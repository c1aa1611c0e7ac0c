// Sending. Per packet one descriptor is written. Completions are looked at once per batch, and the card is told once
// per burst.
#include "pmd/ethdev/tx_burst.h"

#include <rte_atomic.h>
#include <rte_debug.h>
#include <rte_errno.h>
#include <rte_ip.h>
#include <rte_net.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/queues.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

const char* const kTxCounterNames[kTxCounters] = {
    "tx_packets",       "tx_bytes",       "tx_zero_length",      "tx_oversize",          "tx_too_many_pieces",
    "tx_bad_offload",   "tx_linearised",  "tx_padded",           "tx_software_sums",     "tx_ring_full",
    "tx_foreign_queue", "tx_wrong_index", "tx_lost_completions", "tx_stale_completions",
};

namespace {

// The shortest Ethernet frame, without FCS. The card does not pad runts, and not every MAC does.
constexpr uint32_t kFrameBytesMin = 60;

constexpr uint64_t kChecksumFlags = RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK;
constexpr uint64_t kWorkFlags = kChecksumFlags | RTE_MBUF_F_TX_IEEE1588_TMST;
constexpr uint64_t kKnownFlags = kWorkFlags | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6;

// A descriptor has eight bits for it, of which the card's engine keeps seven (tx_engine.v).
constexpr uint32_t kChecksumStartMax = 127;

void count(TxQueue& queue, TxCounter counter, uint64_t n = 1) { queue.counters.now[counter] += n; }

uint8_t load_phase(const Completion& completion) { return __atomic_load_n(&completion.phase, __ATOMIC_RELAXED); }

/// Queue and index: read once, as the card may write at any time.
uint32_t load_head(const Completion& completion) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(&completion), __ATOMIC_RELAXED);
}

bool has_completed(const TxQueue& queue, uint32_t position) {
  return is_new(load_phase(queue.completions[position & queue.mask]), position, queue.entries);
}

uint64_t address_of(const TxQueue& queue, const rte_mbuf* m) {
  return queue.virtual_addresses ? rte_pktmbuf_mtod(m, uintptr_t) : rte_pktmbuf_iova(m);
}

void write_descriptor(Descriptor& descriptor, uint64_t address, uint32_t bytes, uint16_t checksum = 0) {
  const uint64_t words[2] = {uint64_t{bytes} << 32 | uint64_t{checksum} << 16, address};
  memcpy(&descriptor, words, sizeof(words));
}

// ---- Freeing what the card has sent

/// Mbufs on their way back to their pool.
class FreeBatch {
 public:
  void put(rte_mbuf* m) {
    if (held_ == kMost || m->pool != pool_) {
      flush();
      pool_ = m->pool;
    }
    mbufs_[held_++] = m;
  }
  void flush() {
    if (held_ != 0) rte_mempool_put_bulk(pool_, mbufs_, held_);
    held_ = 0;
  }

 private:
  static constexpr uint32_t kMost = 32;
  void* mbufs_[kMost];
  uint32_t held_ = 0;
  rte_mempool* pool_ = nullptr;
};

void free_run(const TxQueue& queue, rte_mbuf** mbufs, uint32_t n) {
  if (queue.fast_free) {
    rte_mempool_put_bulk(mbufs[0]->pool, reinterpret_cast<void**>(mbufs), n);
    return;
  }
  FreeBatch batch;
  for (uint32_t i = 0; i < n; ++i) {
    rte_mbuf* const m = mbufs[i];
    if (m->nb_segs == 1 && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1) [[likely]] {
      batch.put(m);  // it is as the pool wants it, so its second cache line, with `next`, is not touched
      continue;
    }
    for (rte_mbuf *segment = m, *next; segment != nullptr; segment = next) {
      next = segment->next;
      rte_mbuf* const free = rte_pktmbuf_prefree_seg(segment);
      if (free != nullptr) batch.put(free);
    }
  }
  batch.flush();
}

void free_oldest(TxQueue& queue, uint32_t n) {
  RTE_VERIFY(n <= queue.producer - queue.consumer);  // what the card wrote was checked before
  const uint32_t at = queue.consumer & queue.mask;
  const uint32_t first = std::min(n, queue.entries - at);
  free_run(queue, queue.mbufs + at, first);
  if (first != n) free_run(queue, queue.mbufs, n - first);
  queue.consumer += n;
}

/// Why a completion is for none of the packets under way: it is for one that left this ring before this life of the
/// queue, and of which this driver knew nothing, or it makes no sense.
TxCounter explain(const TxQueue& queue, uint32_t index) {
  const auto before = static_cast<uint16_t>(queue.first - index);
  return before - 1u < kTxTakenMost ? kTxStaleCompletions : kTxWrongIndex;
}

/// How many packets at the front of the ring are of a former life; they may have left unnoticed before this one.
uint32_t of_last_life(const TxQueue& queue) {
  const uint32_t ahead = queue.first - queue.consumer;
  return ahead <= queue.inherited ? ahead : 0;
}

/// Takes the next completion, and checks that it is possible. Returns how many descriptors it frees.
uint32_t take_completion(TxQueue& queue) {
  const Completion& completion = queue.completions[queue.completed++ & queue.mask];
  const uint32_t head = load_head(completion);
  if (static_cast<uint16_t>(head) != queue.expected) {
    count(queue, kTxForeignQueue);
    return 0;
  }
  // All 16 bits count, so that a completion of a former life is not taken for one of this life.
  const uint32_t skipped = static_cast<uint16_t>((head >> 16) - queue.consumer);
  if (skipped >= queue.producer - queue.consumer) {
    count(queue, explain(queue, head >> 16));
    return 0;
  }
  count(queue, kTxLostCompletions, skipped - std::min(skipped, of_last_life(queue)));
  if (queue.timesync && skipped >= of_last_life(queue)) {
    const rte_mbuf* m = queue.mbufs[(queue.consumer + skipped) & queue.mask];
    if ((m->ol_flags & RTE_MBUF_F_TX_IEEE1588_TMST) != 0) {
      queue.port->tx_timestamp.put(completion.timestamp_s, completion.timestamp_ns);
    }
  }
  free_oldest(queue, skipped + 1);
  return skipped + 1;
}

void acknowledge(TxQueue& queue) {
  if (queue.acknowledged == queue.completed) return;
  queue.acknowledged = queue.completed;
  if (queue.inherited != 0 && of_last_life(queue) == 0) queue.inherited = 0;  // before the pointers come round
  queue.completion_bell.ring(command::set_consumer(static_cast<uint16_t>(queue.completed)));
}

/// Frees whole batches: completions are in order, so the last one of a batch stands for all of it.
[[gnu::always_inline]] inline void reap_batches(TxQueue& queue) {
  const uint32_t batch = queue.free_threshold;
  while (queue.producer - queue.consumer >= batch && has_completed(queue, queue.completed + batch - 1)) {
    order_phase_before_rest();
    const Completion& completion = queue.completions[(queue.completed + batch - 1) & queue.mask];
    const uint32_t head = load_head(completion);
    if (head != queue.expected + ((queue.consumer + batch - 1) << 16) || queue.timesync) [[unlikely]] {
      for (uint32_t i = 0; i < batch; ++i) take_completion(queue);
      continue;
    }
    free_oldest(queue, batch);
    queue.completed += batch;
  }
}

// ---- Packets that need more than one descriptor

rte_mbuf* give_up(TxQueue& queue, rte_mbuf* m, TxCounter why) {
  count(queue, why);
  rte_pktmbuf_free(m);
  return nullptr;
}

uint32_t count_pieces(const rte_mbuf* m, uint32_t& bytes) {
  uint32_t pieces = 0;
  bytes = 0;
  for (; m != nullptr; m = m->next) {
    bytes += m->data_len;
    if (m->data_len != 0) ++pieces;
  }
  return pieces;
}

/// Joins a packet with more segments than a block has pieces, within its first segment or in new ones. nullptr when the
/// packet had to be given up.
rte_mbuf* join_pieces(TxQueue& queue, rte_mbuf* m) {
  const uint32_t most = 1u << queue.log2_block;
  uint32_t bytes = 0;
  m->pkt_len = 0;
  for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next) m->pkt_len += segment->data_len;
  if (RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1 && rte_pktmbuf_linearize(m) == 0) {
    count(queue, kTxLinearised);
    return m;
  }
  rte_mbuf* copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
  if (copy == nullptr) return give_up(queue, m, kTxTooManyPieces);
  rte_pktmbuf_free(m);
  if (count_pieces(copy, bytes) > most) return give_up(queue, copy, kTxTooManyPieces);
  count(queue, kTxLinearised);
  return copy;
}

void pad(TxQueue& queue, rte_mbuf* m, uint32_t& bytes) {
  rte_mbuf* last = rte_pktmbuf_lastseg(m);
  const auto missing = static_cast<uint16_t>(kFrameBytesMin - bytes);
  if (!RTE_MBUF_DIRECT(last) || rte_mbuf_refcnt_read(last) != 1 || rte_pktmbuf_tailroom(last) < missing) return;
  memset(rte_pktmbuf_mtod_offset(last, uint8_t*, last->data_len), 0, missing);
  last->data_len = static_cast<uint16_t>(last->data_len + missing);
  m->pkt_len += missing;
  bytes = kFrameBytesMin;
  count(queue, kTxPadded);
}

/// Computes the L4 checksum; the field contains the sum of the pseudo-header.
bool sum_in_software(rte_mbuf* m, uint32_t start, uint32_t field, uint32_t bytes, bool udp) {
  uint16_t sum = 0;
  if (field + 2 > m->data_len || rte_raw_cksum_mbuf(m, start, bytes - start, &sum) != 0) return false;
  sum = static_cast<uint16_t>(~sum);
  if (udp && sum == 0) sum = 0xffff;
  memcpy(rte_pktmbuf_mtod_offset(m, uint8_t*, field), &sum, sizeof(sum));
  return true;
}

/// Computes the IPv4 header checksum in software, and lets the card compute the L4 checksum where it can. False when
/// the flags do not fit the packet.
bool do_checksums(TxQueue& queue, rte_mbuf* m, uint32_t bytes, uint16_t& card_command) {
  const uint32_t l3 = m->l2_len;
  const uint32_t start = l3 + m->l3_len;
  if ((m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0) {
    if (m->l3_len < sizeof(rte_ipv4_hdr) || start > m->data_len) return false;
    auto* ip = rte_pktmbuf_mtod_offset(m, rte_ipv4_hdr*, l3);
    if (static_cast<uint32_t>(ip->ihl) * 4 != m->l3_len) return false;
    ip->hdr_checksum = 0;
    ip->hdr_checksum = rte_ipv4_cksum(ip);
  }
  const uint64_t l4 = m->ol_flags & RTE_MBUF_F_TX_L4_MASK;
  if (l4 == 0) return true;
  const bool udp = l4 == RTE_MBUF_F_TX_UDP_CKSUM;
  const uint32_t offset = udp ? offsetof(rte_udp_hdr, dgram_cksum) : offsetof(rte_tcp_hdr, cksum);
  if (l4 == RTE_MBUF_F_TX_SCTP_CKSUM || m->l3_len == 0 || start + offset + 2 > bytes) return false;
  if (queue.card_checksums && start <= kChecksumStartMax) {
    card_command = tx_checksum_command(start, offset);
    return true;
  }
  count(queue, kTxSoftwareSums);
  return sum_in_software(m, start, start + offset, bytes, udp);
}

void write_block(TxQueue& queue, rte_mbuf* m, uint16_t checksum) {
  const uint32_t at = queue.producer & queue.mask;
  Descriptor* block = queue.descriptors + (size_t{at} << queue.log2_block);
  uint8_t pieces = 0;
  for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next) {
    if (segment->data_len == 0) continue;
    write_descriptor(block[pieces], address_of(queue, segment), segment->data_len,
                     pieces == 0 ? checksum : uint16_t{0});
    ++pieces;
  }
  for (uint32_t i = pieces; i < queue.pieces[at]; ++i) write_descriptor(block[i], 0, 0);
  queue.pieces[at] = pieces;
  queue.mbufs[at] = m;
  ++queue.producer;
}

/// Sends a packet of several segments without offloads, in one pass over the segments. Returns its bytes; 0 when it is
/// too short, too long or in too many pieces, and then it is not sent.
uint32_t send_chain(TxQueue& queue, rte_mbuf* m) {
  const uint32_t at = queue.producer & queue.mask;
  Descriptor* const block = queue.descriptors + (size_t{at} << queue.log2_block);
  const uint32_t most = 1u << queue.log2_block;
  uint32_t pieces = 0, bytes = 0;
  const rte_mbuf* segment = m;
  for (; segment != nullptr && pieces != most; segment = segment->next) {
    if (segment->data_len == 0) continue;
    write_descriptor(block[pieces++], address_of(queue, segment), segment->data_len);
    bytes += segment->data_len;
  }
  const uint32_t before = queue.pieces[at];
  if (segment != nullptr || bytes - kFrameBytesMin > queue.longest - kFrameBytesMin) [[unlikely]] {
    // The descriptors that were written must be emptied or overwritten, as if a packet had used them.
    queue.pieces[at] = static_cast<uint8_t>(std::max(before, pieces));
    return 0;
  }
  for (uint32_t i = pieces; i < before; ++i) write_descriptor(block[i], 0, 0);
  queue.pieces[at] = static_cast<uint8_t>(pieces);
  queue.mbufs[at] = m;
  ++queue.producer;
  return bytes;
}

/// Handles any packet but a single segment of good length without offloads: sends it, or counts and frees it.
/// Returns the bytes that were sent.
[[gnu::noinline]] uint32_t send_special(TxQueue& queue, rte_mbuf* m) {
  uint32_t bytes = 0;
  const uint32_t pieces = count_pieces(m, bytes);
  if (bytes == 0 || bytes > queue.longest) {
    give_up(queue, m, bytes == 0 ? kTxZeroLength : kTxOversize);
    return 0;
  }
  if (pieces > 1u << queue.log2_block) {
    m = join_pieces(queue, m);
    if (m == nullptr) return 0;
  }
  if (bytes < kFrameBytesMin) pad(queue, m, bytes);
  uint16_t checksum = 0;
  if ((m->ol_flags & kChecksumFlags) != 0 && !do_checksums(queue, m, bytes, checksum)) {
    give_up(queue, m, kTxBadOffload);
    return 0;
  }
  write_block(queue, m, checksum);
  return bytes;
}

template <bool kBlocks>
uint16_t tx_burst(void* tx_queue, rte_mbuf** packets, uint16_t wanted) {
  auto& queue = *static_cast<TxQueue*>(tx_queue);
  if (!queue.running.load(std::memory_order_relaxed)) [[unlikely]]
    return 0;
  reap_batches(queue);
  uint32_t vacant = queue.entries - (queue.producer - queue.consumer);
  if (vacant < wanted) [[unlikely]] {
    vacant += reap(queue, wanted - vacant);
    if (vacant < wanted) {
      count(queue, kTxRingFull);
      wanted = static_cast<uint16_t>(vacant);
    }
  }
  acknowledge(queue);

  const uint32_t before = queue.producer;
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < wanted; ++i) {
    rte_mbuf* m = packets[i];
    // One comparison finds packets that are too short, too long or empty.
    const bool plain = m->nb_segs == 1 && m->data_len - kFrameBytesMin <= queue.longest - kFrameBytesMin &&
                       (m->ol_flags & kWorkFlags) == 0;
    if (!plain) [[unlikely]] {
      uint32_t sent = 0;
      if (kBlocks && (m->ol_flags & kWorkFlags) == 0) sent = send_chain(queue, m);
      bytes += sent != 0 ? sent : send_special(queue, m);
      continue;
    }
    const uint32_t at = queue.producer & queue.mask;
    if constexpr (kBlocks) {
      write_descriptor(queue.descriptors[size_t{at} << queue.log2_block], address_of(queue, m), m->data_len);
      for (uint32_t p = 1; p < queue.pieces[at]; ++p) {
        write_descriptor(queue.descriptors[(size_t{at} << queue.log2_block) + p], 0, 0);
      }
      queue.pieces[at] = 1;
    } else {
      write_descriptor(queue.descriptors[at], address_of(queue, m), m->data_len);
    }
    queue.mbufs[at] = m;
    ++queue.producer;
    bytes += m->data_len;
  }
  RTE_VERIFY(queue.producer - queue.consumer <= queue.entries);
  if (queue.producer != before) {
    queue.ring_bell.ring(command::set_producer(static_cast<uint16_t>(queue.producer)));
    count(queue, kTxPackets, queue.producer - before);
    count(queue, kTxBytes, bytes);
  }
  if (queue.run != nullptr) queue.run->run();
  return wanted;
}

}  // namespace

uint32_t reap(TxQueue& queue, uint32_t most) {
  uint32_t vacant = 0;
  // Each iteration uses up one completion, and there are no more of them than entries.
  for (uint32_t i = 0; vacant < most && i < queue.entries && has_completed(queue, queue.completed); ++i) {
    order_phase_before_rest();
    vacant += take_completion(queue);
  }
  return vacant;
}

eth_tx_burst_t choose_tx_burst(bool blocks) { return blocks ? tx_burst<true> : tx_burst<false>; }

uint16_t prepare_tx(void* tx_queue, rte_mbuf** packets, uint16_t count) {
  const auto& queue = *static_cast<const TxQueue*>(tx_queue);
  for (uint16_t i = 0; i < count; ++i) {
    rte_mbuf* m = packets[i];
    if ((m->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK & ~kKnownFlags) != 0 ||
        (m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_SCTP_CKSUM) {
      rte_errno = ENOTSUP;
      return i;
    }
    if (m->pkt_len == 0 || m->pkt_len > queue.longest) {
      rte_errno = EINVAL;
      return i;
    }
    const int rc = rte_net_intel_cksum_prepare(m);
    if (rc != 0) {
      rte_errno = -rc;
      return i;
    }
  }
  return count;
}

int tx_descriptor_status(void* tx_queue, uint16_t offset) {
  const auto& queue = *static_cast<const TxQueue*>(tx_queue);
  if (offset >= queue.entries) return -EINVAL;
  // `offset` counts from the next descriptor to be filled, so the oldest that the card still has come last.
  const uint32_t vacant = queue.entries - (queue.producer - queue.consumer);
  if (offset < vacant) return RTE_ETH_TX_DESC_DONE;
  return has_completed(queue, queue.completed + (offset - vacant)) ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
}

}  // namespace mqnic::ethdev
