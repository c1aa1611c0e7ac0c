#include "transport/memory_placement.h"

#include <atomic>
#include <cstring>

#include "base/guarded_memory.h"

namespace uroce {

namespace {

uint32_t rights_for(const Feth& feth) {
  return ((feth.placement & kFlushToGlobal) != 0 ? kFlushGlobal : 0u) |
         ((feth.placement & kFlushToPersistent) != 0 ? kFlushPersistent : 0u);
}

bool known(const Feth& feth) {
  const bool placement = feth.placement != 0 && (feth.placement & ~(kFlushToGlobal | kFlushToPersistent)) == 0;
  return placement && feth.selectivity <= static_cast<uint8_t>(FlushLevel::kRegion);
}

const Refusal* flush(const QpContext& context, const Feth& feth, const Reth& reth) {
  if (!known(feth)) return &refusal::kMalformed;
  const uint32_t rights = rights_for(feth);
  if ((context.attributes.access & rights) != rights) return &refusal::kNotEnabled;
  const MemoryTable& table = context.env.memory;
  uint8_t* memory = nullptr;
  const bool whole = feth.selectivity == static_cast<uint8_t>(FlushLevel::kRegion) || reth.dma_length == 0;
  const AccessCheck check =
      whole ? table.check_key(reth.rkey, context.pd, rights, context.qpn)
            : table.check(reth.rkey, context.pd, reth.va, reth.dma_length, rights, context.qpn, memory);
  if (check != AccessCheck::kOk) return &refusal::kKey;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return nullptr;
}

/// `write.swap_add` is the value to store.
const Refusal* write_atomically(const QpContext& context, const PacketView& packet, const AtomicEth& write) {
  const bool fits = packet.reth().dma_length == kAtomicWriteBytes && packet.payload_bytes == kAtomicWriteBytes;
  if (!fits || (write.va & 7) != 0) return &refusal::kMalformed;
  uint8_t* memory = nullptr;
  const AccessCheck check =
      context.env.memory.check(write.rkey, context.pd, write.va, kAtomicWriteBytes, kRemoteWrite, context.qpn, memory);
  if (check != AccessCheck::kOk) return &refusal::kKey;
  if ((reinterpret_cast<uintptr_t>(memory) & 7) != 0) return &refusal::kMisaligned;
  try {
    guarded_store(reinterpret_cast<uint64_t*>(static_cast<void*>(memory)), write.swap_add);
  } catch (const MemoryFault&) {
    return &refusal::kMemoryGone;
  }
  return nullptr;
}

}  // namespace

AtomicEth identity_of(const PacketView& packet) {
  if (packet.info->has(kHasAtomicEth)) return packet.atomic_eth();
  const Reth reth = packet.reth();
  if (packet.info->operation == Operation::kFlush) {
    return {reth.va, reth.rkey, reth.dma_length, packet.feth().word()};
  }
  uint64_t value = 0;  // the payload of a duplicate may have any length
  if (packet.payload_bytes == kAtomicWriteBytes) std::memcpy(&value, packet.payload, kAtomicWriteBytes);
  return {reth.va, reth.rkey, value, reth.dma_length};
}

const Refusal* place(QpContext& context, const PacketView& packet, const AtomicEth& identity) {
  Counters& counters = context.counters();
  if (packet.info->operation == Operation::kFlush) {
    const Refusal* why = flush(context, packet.feth(), packet.reth());
    counters.rx_flush_requests += why == nullptr ? 1 : 0;
    return why;
  }
  const Refusal* why = write_atomically(context, packet, identity);
  counters.rx_atomic_write_requests += why == nullptr ? 1 : 0;
  return why;
}

}  // namespace uroce
