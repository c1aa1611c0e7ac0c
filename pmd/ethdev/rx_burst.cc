// Receiving. Per packet one completion is read and one mbuf header written. No register is read, and the card is told
// once per batch.
#include "pmd/ethdev/rx_burst.h"

#include <rte_atomic.h>
#include <rte_debug.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/queues.h"
#include "pmd/hw/checksum.h"
#include "pmd/hw/ptp_clock.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

const char* const kRxCounterNames[kRxCounters] = {
    "rx_packets",  "rx_bytes",           "rx_zero_length",     "rx_oversize",
    "rx_clamped",  "rx_foreign_queue",   "rx_wrong_index",     "rx_lost_completions",
    "rx_no_mbufs", "rx_bad_ip_checksum", "rx_bad_l4_checksum",
};

namespace {

// How many entries ahead mbuf headers are prefetched, which were last used when the buffer was posted; and, in bursts
// that read them, the headers of frames.
constexpr uint32_t kPrefetchAhead = 4, kPrefetchFrameAhead = 2;

// Blocks whose buffers are taken from the pool at once.
constexpr uint32_t kBlocksAtOnce = 8;

static_assert(offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4 &&
              offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8 &&
              offsetof(rte_mbuf, hash) == offsetof(rte_mbuf, packet_type) + 12);

constexpr unsigned kSegmentsShift = 8 * (offsetof(rte_mbuf, nb_segs) - offsetof(rte_mbuf, rearm_data));

/// Queue, index and length: read once, as the card may write at any time.
uint64_t load_head(const Completion& completion) {
  static_assert(sizeof(Completion) % alignof(uint64_t) == 0);
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(&completion), __ATOMIC_RELAXED);
}

void count(RxQueue& queue, RxCounter counter, uint64_t n = 1) { queue.counters.now[counter] += n; }

uint8_t load_phase(const Completion& completion) { return __atomic_load_n(&completion.phase, __ATOMIC_RELAXED); }

void free_block(RxQueue& queue, uint32_t entry) {
  rte_mbuf** slot = queue.mbufs + (size_t{entry & queue.mask} << queue.log2_block);
  for (uint32_t i = 0; i < queue.pieces; ++i) {
    if (slot[i] != nullptr) rte_mempool_put(queue.pool, slot[i]);
    slot[i] = nullptr;
  }
}

/// Handles a completion that is not for the oldest descriptor. True when it is for a later one, which is now the
/// oldest.
[[gnu::noinline]] bool catch_up(RxQueue& queue, uint32_t head, uint32_t& consumer) {
  if (static_cast<uint16_t>(head) != queue.expected) {
    count(queue, kRxForeignQueue);
    return false;
  }
  const uint32_t skipped = ((head >> 16) - consumer) & queue.mask;
  if (skipped >= queue.producer - consumer) {
    count(queue, kRxWrongIndex);
    return false;
  }
  count(queue, kRxLostCompletions, skipped);
  for (uint32_t i = 0; i < skipped; ++i) free_block(queue, consumer++);
  return true;
}

/// Drops a frame that is incomplete or empty.
[[gnu::noinline]] void drop(RxQueue& queue, uint32_t entry, uint32_t length) {
  const RxCounter why = length == 0 ? kRxZeroLength : length > queue.limit ? kRxOversize : kRxClamped;
  count(queue, why);
  free_block(queue, entry);
}

/// data_off, refcnt, nb_segs and port in one word.
void rearm(rte_mbuf* m, uint64_t word) {
  *reinterpret_cast<uint64_t*>(reinterpret_cast<uint8_t*>(m) + offsetof(rte_mbuf, rearm_data)) = word;
}

void write_header(const RxQueue& queue, rte_mbuf* m, const Completion& completion, uint32_t packet_bytes,
                  uint32_t piece_bytes) {
  rearm(m, queue.rearm);
  const bool hashed = completion.hash_type != 0;
  m->ol_flags = hashed ? RTE_MBUF_F_RX_RSS_HASH : 0;
  const uint32_t type =
      (completion.hash_type & kHashIpv4) != 0 ? RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN : RTE_PTYPE_L2_ETHER;
  const uint64_t fields[2] = {type | uint64_t{packet_bytes} << 32, piece_bytes | uint64_t{completion.rx_hash} << 32};
  memcpy(reinterpret_cast<uint8_t*>(m) + offsetof(rte_mbuf, packet_type), fields, sizeof(fields));
}

/// Prefetches what `gather` writes: two cache lines of an mbuf that has a successor.
void prefetch_block(const RxQueue& queue, uint32_t entry, uint32_t length) {
  rte_mbuf* const* slot = queue.mbufs + (size_t{entry & queue.mask} << queue.log2_block);
  rte_prefetch0(slot[0]);
  for (uint32_t at = queue.room; at < length; at += queue.room) {
    rte_prefetch0(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(*slot) + offsetof(rte_mbuf, next)));
    rte_prefetch0(*++slot);
  }
}

/// Chains the pieces of a block that the frame fills. The others stay where they are.
rte_mbuf* gather(const RxQueue& queue, const Completion& completion, uint32_t entry, uint32_t length) {
  rte_mbuf** slot = queue.mbufs + (size_t{entry & queue.mask} << queue.log2_block);
  rte_mbuf* const head = *slot;
  *slot = nullptr;
  const uint32_t room = queue.room;
  write_header(queue, head, completion, length, std::min(length, room));
  if (length <= room) return head;
  rte_mbuf* last = head;
  uint64_t more = 0;
  for (uint32_t left = length - room; left != 0; ++more) {
    rte_mbuf* const next = *++slot;
    *slot = nullptr;
    const uint32_t bytes = std::min(left, room);
    rearm(next, queue.rearm);
    next->ol_flags = 0;
    next->data_len = static_cast<uint16_t>(bytes);
    left -= bytes;
    last->next = next;
    last = next;
  }
  rearm(head, queue.rearm + (more << kSegmentsShift));
  return head;
}

/// The mbuf flags for each verdict: first on the IPv4 header, then on what the packet carries.
constexpr uint64_t kVerdictFlags[2][3] = {
    {0, RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_IP_CKSUM_BAD},
    {0, RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_BAD},
};

[[gnu::noinline]] void count_bad(RxQueue& queue, uint64_t flags) {
  if ((flags & RTE_MBUF_F_RX_IP_CKSUM_BAD) != 0) count(queue, kRxBadIpChecksum);
  if ((flags & RTE_MBUF_F_RX_L4_CKSUM_BAD) != 0) count(queue, kRxBadL4Checksum);
}

void verify_checksums(RxQueue& queue, rte_mbuf* m, const Completion& completion) {
  const auto* head = rte_pktmbuf_mtod(m, const uint8_t*);
  ReceivedChecksums sums;
  if (!check_usual(head, m->data_len, m->pkt_len, completion.rx_checksum, sums)) {
    sums = check_received(head, m->data_len, m->pkt_len, completion.rx_checksum);
  }
  const uint64_t flags =
      (kVerdictFlags[0][static_cast<size_t>(sums.ipv4_header)] | kVerdictFlags[1][static_cast<size_t>(sums.l4)]) &
      queue.verified_flags;
  if ((flags & (RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD)) != 0) [[unlikely]]
    count_bad(queue, flags);
  m->ol_flags |= flags;
}

/// Prefetches the beginning of the frame of a later entry, whose mbuf is in the cache already.
void prefetch_frame(const RxQueue& queue, uint32_t entry) {
  if (queue.producer - entry - 1 > queue.mask) return;  // no buffer is there
  const rte_mbuf* m = queue.mbufs[size_t{entry & queue.mask} << queue.log2_block];
  rte_prefetch0(static_cast<const uint8_t*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM);
}

void add_time(RxQueue& queue, rte_mbuf* m, const Completion& completion) {
  if (queue.timestamps) {
    const uint64_t seconds = extend_seconds(completion.timestamp_s, queue.port->card->reference_seconds());
    *RTE_MBUF_DYNFIELD(m, queue.timestamp_offset, rte_mbuf_timestamp_t*) =
        seconds * kNanosecondsPerSecond + completion.timestamp_ns;
    m->ol_flags |= queue.timestamp_flag;
  }
  if (queue.timesync && m->data_len >= sizeof(rte_ether_hdr) &&
      rte_pktmbuf_mtod(m, const rte_ether_hdr*)->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_1588)) {
    m->ol_flags |= RTE_MBUF_F_RX_IEEE1588_PTP | RTE_MBUF_F_RX_IEEE1588_TMST;
    m->timesync = 0;
    queue.port->rx_timestamp.put(completion.timestamp_s, completion.timestamp_ns);
  }
}

void add_offloads(RxQueue& queue, rte_mbuf* m, const Completion& completion) {
  if (queue.verified_flags != 0) verify_checksums(queue, m, completion);
  if (queue.timestamps || queue.timesync) [[unlikely]]
    add_time(queue, m, completion);
}

uint64_t address_of(const RxQueue& queue, const rte_mbuf* m) {
  if (queue.virtual_addresses) return reinterpret_cast<uintptr_t>(m->buf_addr) + RTE_PKTMBUF_HEADROOM;
  return rte_mbuf_data_iova_default(m);
}

void write_descriptor(const RxQueue& queue, Descriptor& descriptor, const rte_mbuf* m) {
  const uint64_t words[2] = {uint64_t{queue.room} << 32, address_of(queue, m)};
  memcpy(&descriptor, words, sizeof(words));
}

/// Posts the entries [at, at + n), which do not wrap around. False when the pool has too few buffers.
bool post_single(RxQueue& queue, uint32_t at, uint32_t n) {
  void** slots = reinterpret_cast<void**>(queue.mbufs + at);
  if (rte_mempool_get_bulk(queue.pool, slots, n) != 0) return false;
  for (uint32_t i = 0; i < n; ++i) write_descriptor(queue, queue.descriptors[at + i], queue.mbufs[at + i]);
  return true;
}

/// Gives buffers to those of the entries [at, at + n), at most kBlocksAtOnce, whose buffers went up with frames. False,
/// with nothing changed, when the pool has too few.
bool post_blocks_at_once(RxQueue& queue, uint32_t at, uint32_t n) {
  uint32_t vacant[kBlocksAtOnce << kLog2BlockMax];
  uint32_t missing = 0;
  for (uint32_t entry = at; entry < at + n; ++entry) {
    const uint32_t first = entry << queue.log2_block;
    for (uint32_t i = first; i < first + queue.pieces; ++i) {
      vacant[missing] = i;
      missing += queue.mbufs[i] == nullptr ? 1 : 0;
    }
  }
  void* fresh[std::size(vacant)];
  if (rte_mempool_get_bulk(queue.pool, fresh, missing) != 0) return false;
  for (uint32_t i = 0; i < missing; ++i) {
    auto* m = static_cast<rte_mbuf*>(fresh[i]);
    queue.mbufs[vacant[i]] = m;
    write_descriptor(queue, queue.descriptors[vacant[i]], m);
  }
  return true;
}

uint32_t post_blocks(RxQueue& queue, uint32_t at, uint32_t n) {
  uint32_t posted = 0;
  while (posted < n) {
    const uint32_t count = std::min(n - posted, kBlocksAtOnce);
    if (!post_blocks_at_once(queue, at + posted, count)) break;
    posted += count;
  }
  // A pool with too few buffers for several blocks may have enough for one.
  while (posted < n && post_blocks_at_once(queue, at + posted, 1)) ++posted;
  return posted;
}

/// Posts the entries [at, at + n). Returns how many of them got their buffers.
uint32_t post(RxQueue& queue, uint32_t at, uint32_t n) {
  if (queue.log2_block != 0) return post_blocks(queue, at, n);
  if (post_single(queue, at, n)) return n;
  // Buffers are posted one by one only when the card would have none otherwise.
  if (queue.producer - queue.consumer >= queue.refill_threshold) return 0;
  uint32_t posted = 0;
  while (posted < n && post_single(queue, at + posted, 1)) ++posted;
  return posted;
}

template <bool kScatter, bool kOffloads>
uint16_t rx_burst(void* rx_queue, rte_mbuf** packets, uint16_t most) {
  auto& queue = *static_cast<RxQueue*>(rx_queue);
  if (!queue.running.load(std::memory_order_relaxed)) [[unlikely]]
    return 0;
  if (queue.run != nullptr) queue.run->run();

  uint32_t consumer = queue.consumer, completed = queue.completed;
  const uint32_t mask = queue.mask, entries = queue.entries;
  uint64_t bytes = 0;
  uint16_t received = 0;
  // Each iteration uses up one completion and their number is limited, so that a card that writes nonsense cannot keep
  // this loop running.
  const uint32_t last = completed + 2u * most;
  while (received < most && consumer != queue.producer && completed != last) {
    const Completion& completion = queue.completions[completed & mask];
    if (!is_new(load_phase(completion), completed, entries)) break;
    order_phase_before_rest();
    const uint64_t head = load_head(completion);
    const uint32_t expected = queue.expected + ((consumer & mask) << 16);
    ++completed;
    if ((static_cast<uint32_t>(head) & queue.expected_mask) != expected) [[unlikely]] {
      if (!catch_up(queue, static_cast<uint32_t>(head), consumer)) continue;
    }
    const auto length = static_cast<uint32_t>(head >> 32) & 0xffff;
    const uint32_t entry = consumer++;
    if (length - 1 >= queue.longest) [[unlikely]] {
      drop(queue, entry, length);
      continue;
    }
    rte_mbuf* m;
    if constexpr (kScatter) {
      prefetch_block(queue, entry + kPrefetchAhead, length);
      m = gather(queue, completion, entry, length);
    } else {
      m = queue.mbufs[entry & mask];
      rte_prefetch0(queue.mbufs[(entry + kPrefetchAhead) & mask]);
      write_header(queue, m, completion, length, length);
    }
    if constexpr (kOffloads) {
      prefetch_frame(queue, entry + kPrefetchFrameAhead);
      add_offloads(queue, m, completion);
    }
    bytes += length;
    packets[received++] = m;
  }
  RTE_VERIFY(queue.producer - consumer <= entries);  // what the card wrote was checked before
  queue.consumer = consumer;
  queue.completed = completed;
  count(queue, kRxPackets, received);
  count(queue, kRxBytes, bytes);
  if (entries - (queue.producer - consumer) >= queue.refill_threshold) {
    refill(queue);
  } else if (completed - queue.acknowledged >= queue.refill_threshold) [[unlikely]] {
    queue.acknowledged = completed;
    queue.completion_bell.ring(command::set_consumer(static_cast<uint16_t>(completed)));
  }
  return received;
}

}  // namespace

bool refill(RxQueue& queue) {
  uint32_t vacant = queue.entries - (queue.producer - queue.consumer);
  const uint32_t before = queue.producer;
  while (vacant != 0) {
    const uint32_t at = queue.producer & queue.mask;
    const uint32_t n = std::min({vacant, queue.entries - at, queue.refill_threshold});
    // Less than a batch waits for the next call, unless that would never come.
    if (n < queue.refill_threshold && queue.producer != before && queue.entries - at > n) break;
    const uint32_t posted = post(queue, at, n);
    queue.producer += posted;
    RTE_VERIFY(queue.producer - queue.consumer <= queue.entries);
    vacant -= posted;
    if (posted != n) {
      count(queue, kRxNoMbufs);
      rte_eth_devices[queue.port_id].data->rx_mbuf_alloc_failed += n - posted;
      break;
    }
  }
  // Completions are acknowledged first: when the card sees the new descriptors, there must be room for their
  // completions.
  if (queue.acknowledged != queue.completed) {
    queue.acknowledged = queue.completed;
    queue.completion_bell.ring(command::set_consumer(static_cast<uint16_t>(queue.completed)));
  }
  if (queue.producer != before) {
    queue.ring_bell.ring(command::set_producer(static_cast<uint16_t>(queue.producer)));
  }
  return queue.producer != queue.consumer;
}

eth_rx_burst_t choose_rx_burst(bool scatter, bool offloads) {
  if (scatter) return offloads ? rx_burst<true, true> : rx_burst<true, false>;
  return offloads ? rx_burst<false, true> : rx_burst<false, false>;
}

uint32_t count_waiting(void* rx_queue) {
  const auto& queue = *static_cast<const RxQueue*>(rx_queue);
  uint32_t n = 0;
  while (
      n < queue.producer - queue.consumer &&
      is_new(load_phase(queue.completions[(queue.completed + n) & queue.mask]), queue.completed + n, queue.entries)) {
    ++n;
  }
  return n;
}

int rx_descriptor_status(void* rx_queue, uint16_t offset) {
  const auto& queue = *static_cast<const RxQueue*>(rx_queue);
  if (offset >= queue.entries) return -EINVAL;
  if (offset >= queue.producer - queue.consumer) return RTE_ETH_RX_DESC_UNAVAIL;
  const uint32_t position = queue.completed + offset;
  const bool done = is_new(load_phase(queue.completions[position & queue.mask]), position, queue.entries);
  return done ? RTE_ETH_RX_DESC_DONE : RTE_ETH_RX_DESC_AVAIL;
}

}  // namespace mqnic::ethdev
