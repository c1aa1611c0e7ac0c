#include "segment/direct_memory.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "base/no_cancel.h"
#include "base/random.h"

namespace uroce::segment {
namespace {

constexpr uint32_t kNoPsn = UINT32_MAX;
constexpr int kYields = 200;  // before the wait sleeps; a copy is over within some ten microseconds
constexpr timespec kNap{0, 50'000};

}  // namespace

bool DirectMemory::open() {
  void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  madvise(page, kPage, MADV_DONTFORK);
  proof_ = page;
  SystemRandom random;
  auto* const words = static_cast<uint64_t*>(page);
  for (size_t i = 0; i < 2; i++) {
    words[i] = uint64_t{random.next_u32()} << 32 | random.next_u32();
    table_.proof[i].store(words[i], std::memory_order_relaxed);
  }
  table_.proof_at.store(reinterpret_cast<uint64_t>(page), std::memory_order_relaxed);
  table_.open.store(1, std::memory_order_release);
  return true;
}

DirectMemory::~DirectMemory() {
  if (proof_ == nullptr) return;
  pause(true);
  munmap(proof_, kPage);
}

void DirectMemory::admit_all() {
  for (Peer* peer : peers_.in_contact()) {
    Lane& lane = *peer->lane;
    if (lane.direct.admitted || lane.direct.barred || !lane.receiver.connected()) continue;
    if (peer->role != Role::kProgram || lane.direct.process.pid == 0 || lane.direct.process.uid != getuid()) continue;
    lane.direct.admitted = true;
    lane.own().admits.store(1, std::memory_order_release);
  }
}

void DirectMemory::expel(Peer& peer) {
  Lane& lane = *peer.lane;
  lane.direct.barred = true;
  if (!lane.direct.admitted) return;
  lane.own().admits.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  wait_for(peer);
  lane.direct.admitted = false;
}

void DirectMemory::show(const ShownRegion& region) {
  hide_region(region.key);  // what it allowed may be more than now
  if (DirectSlot* const slot = own_slot(table_.regions, region.key, 0)) fill(*slot, encode(region));
}

void DirectMemory::hide_region(uint32_t key) { hide(table_.regions, key); }

std::atomic<uint32_t>* DirectMemory::show(const ShownQueuePair& qp) {
  DirectSlot* slot = own_slot(table_.queue_pairs, qp.qpn, qp.qpn);
  const DirectWords words = encode(qp);
  if (slot != nullptr) {
    bool same = true;
    for (size_t i = 0; i < words.size(); i++) same &= slot->words[i].load(std::memory_order_relaxed) == words[i];
    if (same) return &slot->next_psn;
    hide(table_.queue_pairs, qp.qpn);  // what it allowed may be less now
  } else {
    slot = own_slot(table_.queue_pairs, qp.qpn, 0);
  }
  if (slot == nullptr) return nullptr;
  slot->next_psn.store(kNoPsn, std::memory_order_relaxed);  // until the caller stores one
  fill(*slot, words);
  return &slot->next_psn;
}

void DirectMemory::hide_queue_pair(uint32_t qpn) { hide(table_.queue_pairs, qpn); }

void DirectMemory::hide(DirectSlot (&slots)[kDirectSlots], uint32_t key) {
  DirectSlot* const slot = key != 0 ? own_slot(slots, key, key) : nullptr;
  if (slot == nullptr) return;  // it was not shown
  fill(*slot, {});
  wait_for_copies();
}

void DirectMemory::pause(bool paused) {
  if (proof_ == nullptr) return;
  table_.open.store(paused ? 0 : 1, std::memory_order_relaxed);
  if (paused) wait_for_copies();
}

void DirectMemory::wait_for_copies() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (Peer* peer : peers_.in_contact()) {
    if (peer->lane->direct.admitted) wait_for(*peer);
  }
}

void DirectMemory::wait_for(Peer& peer) {
  Lane& lane = *peer.lane;
  const std::atomic<uint32_t>& copying = lane.theirs()->copying;
  const uint32_t seen = copying.load(std::memory_order_acquire);
  if ((seen & 1) == 0) return;
  const NoCancel with_the_engine;
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  const Duration before = lane.direct.waited;
  for (int i = 0; copying.load(std::memory_order_acquire) == seen; i++) {
    if (i < kYields) {
      sched_yield();
      continue;
    }
    nanosleep(&kNap, nullptr);
    if (peers_.life(peer) == Directory::Life::kNo) return;
    lane.direct.waited.ns = before.ns + std::chrono::nanoseconds(Clock::now() - begun).count();
    if (lane.direct.waited < kPatience) continue;
    lane.direct.barred = true;
    lane.direct.admitted = false;
    lane.own().admits.store(0, std::memory_order_release);
    tell_("process " + std::to_string(lane.direct.process.pid) +
          " has been in the middle of a copy for a second, as if it was stopped: what it sends goes in frames from "
          "now on");
    return;
  }
}

}  // namespace uroce::segment
