#include "segment/direct_copies.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/kept_errno.h"
#include "base/unique_fd.h"

namespace uroce::segment {
namespace {

/// The bytes of a message that others see last: those that one store writes.
constexpr size_t kLastBytes = 8;

using Vectors = std::array<iovec, DirectPeer::kPiecesMax>;

/// The pieces for the kernel; `bytes` is their sum.
size_t vectors_of(std::span<const DirectPiece> pieces, Vectors& vectors, size_t& bytes) {
  bytes = 0;
  for (size_t i = 0; i < pieces.size(); i++) {
    vectors[i] = {pieces[i].memory, pieces[i].bytes};
    bytes += pieces[i].bytes;
  }
  return pieces.size();
}

/// Whether Yama asks the target for its consent (scope 1). The scopes above allow nobody without the capability.
bool consent_is_asked_for() {
  const UniqueFd file(open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char scope = 0;
  return file && read(file.get(), &scope, 1) == 1 && scope == '1';
}

void* remote(uint64_t address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

}  // namespace

void DirectCopies::open() {
  consents_ = consent_is_asked_for() && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
  paused_ = !memory_.open();
}

DirectCopies::~DirectCopies() {
  if (consents_) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

void DirectCopies::look_after() {
  if (!memory_.is_open()) return;
  memory_.admit_all();
  for (Peer* peer : peers_.in_contact()) {
    Lane& lane = *peer->lane;
    const bool is_new = lane.direct.state == DirectWay::State::kUntried && lane.theirs() != nullptr;
    if (!is_new || lane.base()->direct.proof_at.load(std::memory_order_relaxed) == 0) continue;
    peer_.set(lane);
    peer_.try_way();
  }
}

void DirectCopies::pause(bool paused) {
  paused_ = paused || !memory_.is_open();
  memory_.pause(paused);
}

DirectPeer* DirectCopies::find(const MacAddress& mac, uint32_t qpn) {
  if (paused_) return nullptr;
  Peer* const peer = peers_.find(mac, qpn);
  if (peer == nullptr || !peer->lane || peer->lane->theirs() == nullptr) return nullptr;
  Lane& lane = *peer->lane;
  if (lane.direct.state != DirectWay::State::kOpen || lane.direct.barred) return nullptr;
  if (lane.theirs()->admits.load(std::memory_order_relaxed) == 0) return nullptr;
  if (lane.base()->direct.open.load(std::memory_order_relaxed) == 0) return nullptr;
  peer_.set(lane);
  return &peer_;
}

/// The first time. Says what was found.
void DirectCopies::Found::try_way() {
  const KeptErrno kept;
  DirectWay& way = lane_->direct;
  const std::string whom = "process " + std::to_string(way.process.pid);
  std::string why;
  errno = 0;
  if (way.process.pid == 0) {
    why = "it has no number here, as in another container";
  } else if (way.process.uid != getuid()) {
    why = "it belongs to another user";
  } else if (!prove()) {
    why = errno != 0 ? std::strerror(errno) : "it is not the one that it was";
  }
  way.state = why.empty() ? DirectWay::State::kOpen : DirectWay::State::kClosed;
  tell_(why.empty() ? "READs and WRITEs of " + whom + "'s memory need no frames"
                    : "everything for " + whom + " goes in frames: " + why);
}

/// Whether the process has what its member shows.
bool DirectCopies::Found::prove() {
  const DirectTable& table = lane_->base()->direct;
  uint64_t shown[2];
  uint64_t found[2] = {};
  for (size_t i = 0; i < 2; i++) shown[i] = table.proof[i].load(std::memory_order_relaxed);
  const iovec here{found, sizeof found};
  const iovec there{remote(table.proof_at.load(std::memory_order_relaxed)), sizeof found};
  return process_vm_readv(lane_->direct.process.pid, &here, 1, &there, 1, 0) == ssize_t{sizeof found} &&
         std::memcmp(shown, found, sizeof found) == 0;
}

bool DirectCopies::Found::still_there(Instant now) {
  DirectWay& way = lane_->direct;
  if (now - way.proven < kProofLasts && now >= way.proven) return true;
  if (!prove()) {
    way.state = DirectWay::State::kClosed;
    tell_("everything for process " + std::to_string(way.process.pid) + " goes in frames from now on: it has changed");
    return false;
  }
  way.proven = now;
  return true;
}

bool DirectCopies::Found::shows(uint32_t qpn, uint32_t key) const {
  const DirectTable& table = lane_->base()->direct;
  return qpn != 0 && key != 0 && has_slot(table.queue_pairs, qpn) && has_slot(table.regions, key);
}

/// Who the process is, is asked before: between the look at what is shown and the copy there is nothing that takes
/// time.
bool DirectCopies::Found::begin(uint32_t qpn, uint32_t key, ShownTarget& target, Instant now) {
  const KeptErrno kept;
  const bool there = still_there(now);
  std::atomic<uint32_t>& copying = lane_->own().copying;
  copying.store(copying.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const DirectTable& table = lane_->base()->direct;
  if (!there || lane_->theirs()->admits.load(std::memory_order_relaxed) == 0) return false;
  if (table.open.load(std::memory_order_relaxed) == 0) return false;
  const DirectSlot* place = nullptr;
  const auto region = find_slot(table.regions, key, place);
  const auto qp = find_slot(table.queue_pairs, qpn, place);
  if (!region || !qp) return false;
  target.region = decode_region(*region);
  target.qp = decode_queue_pair(*qp);
  target.next_psn = place->next_psn.load(std::memory_order_acquire);
  return true;
}

void DirectCopies::Found::end() {
  std::atomic<uint32_t>& copying = lane_->own().copying;
  copying.store(copying.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// The kernel copies a piece of the peer's memory after the other, but the bytes of a page in any order.
bool DirectCopies::Found::write(uint64_t to, std::span<const DirectPiece> from, bool ends) {
  const KeptErrno kept;
  Vectors vectors;
  size_t bytes = 0;
  const size_t count = vectors_of(from, vectors, bytes);
  const size_t last = ends && bytes > kLastBytes ? kLastBytes : 0;
  const iovec there[2] = {{remote(to), bytes - last}, {remote(to + (bytes - last)), last}};
  return process_vm_writev(lane_->direct.process.pid, vectors.data(), count, there, last != 0 ? 2 : 1, 0) ==
         static_cast<ssize_t>(bytes);
}

bool DirectCopies::Found::read(uint64_t from, std::span<const DirectPiece> to) {
  const KeptErrno kept;
  Vectors vectors;
  size_t bytes = 0;
  const size_t count = vectors_of(to, vectors, bytes);
  const iovec there{remote(from), bytes};
  return process_vm_readv(lane_->direct.process.pid, vectors.data(), count, &there, 1, 0) ==
         static_cast<ssize_t>(bytes);
}

}  // namespace uroce::segment
