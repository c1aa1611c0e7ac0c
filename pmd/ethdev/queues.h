// A ring of descriptors and its completion queue, one pair for each RX and TX queue of an ethdev.
#pragma once

#include <rte_atomic.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_memzone.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "pmd/ethdev/card_device.h"
#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/hw/bus.h"
#include "pmd/hw/formats.h"

namespace mqnic::ethdev {

// ---- Counters. The card has none, so these are the only ones. Written by the queue's own thread.

enum RxCounter : unsigned {
  kRxPackets,
  kRxBytes,
  kRxZeroLength,       // completions of length 0
  kRxOversize,         // longer than the MTU; the card cuts such frames silently
  kRxClamped,          // longer than the buffers, so the frame is incomplete
  kRxForeignQueue,     // completions that name another queue
  kRxWrongIndex,       // completions for a descriptor that is not in use
  kRxLostCompletions,  // descriptors that the card skipped
  kRxNoMbufs,          // refills that found the pool empty
  kRxBadIpChecksum,
  kRxBadL4Checksum,
  kRxCounters
};
enum TxCounter : unsigned {
  kTxPackets,
  kTxBytes,
  kTxZeroLength,     // not sent, because an empty packet stops the card for good
  kTxOversize,       // not sent: longer than the card takes
  kTxTooManyPieces,  // not sent: more segments than a block has, and no memory to join them
  kTxBadOffload,     // not sent: the headers for the offload are not where the flags say
  kTxLinearised,     // joined into fewer segments
  kTxPadded,         // runts, padded to 60 bytes
  kTxSoftwareSums,   // L4 checksums that the card cannot compute
  kTxRingFull,       // bursts that did not fit
  kTxForeignQueue,
  kTxWrongIndex,
  kTxLostCompletions,
  kTxStaleCompletions,  // of packets that the card still had when this driver found it
  kTxCounters
};
extern const char* const kRxCounterNames[kRxCounters];
extern const char* const kTxCounterNames[kTxCounters];

template <size_t kCount>
struct Counters {
  std::array<uint64_t, kCount> now{};
  std::array<uint64_t, kCount> base{};  // subtracted since the last reset; so the writer never waits for a reader
  uint64_t value(unsigned i) const { return now[i] - base[i]; }
};

// ---- Common to both directions.

struct QueueMemory {
  const rte_memzone* zone = nullptr;
  Descriptor* descriptors = nullptr;
  Completion* completions = nullptr;
  uint64_t descriptor_address = 0, completion_address = 0;  // for the card
};

struct QueuePlace {
  uint16_t number = 0;            // of the ethdev
  uint32_t hw_queue = 0;          // of the interface
  uint32_t completion_queue = 0;  // of the interface
  uint32_t ring_registers = 0, completion_registers = 0;
};

/// Orders the reads of a completion: the phase bit, which says that it is valid, before the rest.
inline void order_phase_before_rest() { rte_io_rmb(); }

struct Port;

/// Fields that the bursts use come first; a packet without offloads needs one cache line of them.
struct alignas(RTE_CACHE_LINE_SIZE) RxQueue {
  std::atomic<bool> running{false};
  uint16_t room = 0;              // bytes that a buffer takes
  uint32_t mask = 0;              // entries - 1
  uint32_t entries = 0;           // descriptor blocks; as many completions
  uint32_t consumer = 0;          // of the ring
  uint32_t completed = 0;         // consumer of the completion queue
  uint32_t acknowledged = 0;      // the value of `completed` that the card knows
  uint32_t producer = 0;          // of the ring
  uint32_t expected = 0;          // low word of the completion for descriptor 0,
  uint32_t expected_mask = 0;     // and the bits of it that count
  uint32_t longest = 0;           // the longest good frame
  uint32_t refill_threshold = 0;  // refill at least this many at once
  uint32_t log2_block = 0;        // descriptors of a packet
  uint32_t pieces = 0;            // of them that have a buffer
  uint64_t rearm = 0;             // mbuf::rearm_data
  const Completion* completions = nullptr;
  Descriptor* descriptors = nullptr;
  rte_mbuf** mbufs = nullptr;  // entries << log2_block
  rte_mempool* pool = nullptr;
  Bus* run = nullptr;  // for a card that works only in `run`; otherwise nullptr
  Doorbell ring_bell, completion_bell;

  // Offloads
  uint64_t verified_flags = 0;  // of an mbuf, that say what the checksums are like
  bool timestamps = false, timesync = false;
  int timestamp_offset = -1;
  uint64_t timestamp_flag = 0;
  Port* port = nullptr;

  Counters<kRxCounters> counters;

  // Configuration
  uint16_t port_id = 0;
  QueuePlace place;
  QueueMemory memory;
  bool virtual_addresses = true;
  bool deferred_start = false;
  bool configured = false;  // the card has the addresses of its rings
  uint32_t limit = 0;       // longest frame of the MTU
  uint64_t offloads = 0;
  int event_fd = -1;
};

struct alignas(RTE_CACHE_LINE_SIZE) TxQueue {
  std::atomic<bool> running{false};
  bool fast_free = false;
  bool virtual_addresses = true;
  bool timesync = false;
  uint32_t mask = 0;
  uint32_t entries = 0;
  uint32_t producer = 0;
  uint32_t consumer = 0;
  uint32_t completed = 0;
  uint32_t acknowledged = 0;
  uint32_t expected = 0;   // low word of the completion for index 0
  uint32_t first = 0;      // where this life of the queue began; older entries are of a former life
  uint32_t inherited = 0;  // how many of those the card had when it began; 0 when all have completed
  uint32_t free_threshold = 0;
  uint32_t longest = 0;
  uint32_t log2_block = 0;
  const Completion* completions = nullptr;
  Descriptor* descriptors = nullptr;
  rte_mbuf** mbufs = nullptr;  // the first segments of packets, one for each entry
  uint8_t* pieces = nullptr;   // descriptors of each block that are not empty
  Bus* run = nullptr;
  Doorbell ring_bell, completion_bell;
  Port* port = nullptr;

  Counters<kTxCounters> counters;

  uint16_t port_id = 0;
  QueuePlace place;
  QueueMemory memory;
  bool deferred_start = false;
  bool configured = false;
  bool card_checksums = false;
  uint64_t offloads = 0;
  rte_mempool* scratch = nullptr;
};

// ---- Setup. These return 0 or a negative errno.

int make_queue_memory(const char* name, uint32_t entries, uint32_t log2_block, int socket, bool virtual_addresses,
                      QueueMemory& out);
void free_queue_memory(QueueMemory& memory);

/// Prepare and start a queue on the card: RX from index 0, with buffers posted; TX where its pointers are.
int start_rx_queue(GuardedBus& bus, RxQueue& queue, unsigned interface, uint32_t event_queue);
void start_tx_queue(GuardedBus& bus, TxQueue& queue, unsigned interface);
/// Takes all buffers back. The card must not use the queue any more.
void free_rx_buffers(RxQueue& queue);
void free_tx_buffers(TxQueue& queue);

}  // namespace mqnic::ethdev
