// Posting, which is on the hot path. A list is queued first, and then sent with one flush.
#include <cerrno>
#include <cstddef>

#include "operations.h"
#include "runtime.h"
#include "transport/receive_queue.h"

namespace uroce::verbs {

// Scatter/gather lists are passed to the engine as they are.
static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, addr) == offsetof(ibv_sge, addr) &&
              offsetof(Sge, length) == offsetof(ibv_sge, length) && offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
static_assert(static_cast<int>(WrOpcode::kRdmaWrite) == IBV_WR_RDMA_WRITE &&
              static_cast<int>(WrOpcode::kRdmaWriteWithImm) == IBV_WR_RDMA_WRITE_WITH_IMM &&
              static_cast<int>(WrOpcode::kSend) == IBV_WR_SEND &&
              static_cast<int>(WrOpcode::kSendWithImm) == IBV_WR_SEND_WITH_IMM &&
              static_cast<int>(WrOpcode::kRdmaRead) == IBV_WR_RDMA_READ &&
              static_cast<int>(WrOpcode::kCompareSwap) == IBV_WR_ATOMIC_CMP_AND_SWP &&
              static_cast<int>(WrOpcode::kFetchAdd) == IBV_WR_ATOMIC_FETCH_AND_ADD &&
              static_cast<int>(WrOpcode::kLocalInv) == IBV_WR_LOCAL_INV &&
              static_cast<int>(WrOpcode::kBindMw) == IBV_WR_BIND_MW &&
              static_cast<int>(WrOpcode::kSendWithInv) == IBV_WR_SEND_WITH_INV);
static_assert(int{kSendFence} == IBV_SEND_FENCE && int{kSendSignaled} == IBV_SEND_SIGNALED &&
              int{kSendSolicited} == IBV_SEND_SOLICITED && int{kSendInline} == IBV_SEND_INLINE);

namespace {

constexpr unsigned kKnownFlags = kSendFence | kSendSignaled | kSendSolicited | kSendInline;

const Sge* sges_of(ibv_sge* list) { return reinterpret_cast<const Sge*>(list); }

/// False for an opcode that verbs knows but the engine does not.
bool translate(const ibv_send_wr& from_wr, bool datagram, SendWr& wr) {
  if (from_wr.num_sge < 0 || (from_wr.num_sge != 0 && from_wr.sg_list == nullptr)) return false;
  wr.wr_id = from_wr.wr_id;
  wr.opcode = static_cast<WrOpcode>(from_wr.opcode);
  wr.flags = static_cast<uint8_t>(from_wr.send_flags & kKnownFlags);
  wr.sges = sges_of(from_wr.sg_list);
  wr.num_sge = static_cast<uint32_t>(from_wr.num_sge);
  wr.imm_or_rkey = from_wr.imm_data;
  if (datagram) {
    wr.ah = from_wr.wr.ud.ah != nullptr ? ours(from_wr.wr.ud.ah).address.get() : nullptr;
    wr.remote_qpn = from_wr.wr.ud.remote_qpn;
    wr.remote_qkey = from_wr.wr.ud.remote_qkey;
    return from_wr.opcode == IBV_WR_SEND || from_wr.opcode == IBV_WR_SEND_WITH_IMM;
  }
  switch (from_wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      wr.remote_addr = from_wr.wr.rdma.remote_addr;
      wr.rkey = from_wr.wr.rdma.rkey;
      return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      wr.remote_addr = from_wr.wr.atomic.remote_addr;
      wr.rkey = from_wr.wr.atomic.rkey;
      wr.compare_add = from_wr.wr.atomic.compare_add;
      wr.swap = from_wr.wr.atomic.swap;
      return true;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      return true;
    case IBV_WR_BIND_MW: {
      if (from_wr.bind_mw.mw == nullptr) return false;
      const ibv_mw_bind_info& info = from_wr.bind_mw.bind_info;
      wr.num_sge = 0;
      wr.bind.mw_rkey = ours(from_wr.bind_mw.mw).id;
      wr.bind.new_rkey = key_after_bind(ours(from_wr.bind_mw.mw), from_wr.bind_mw.rkey);
      wr.bind.mr_lkey = info.mr != nullptr ? info.mr->lkey : 0;
      wr.bind.addr = info.addr;
      wr.bind.length = info.length;
      wr.bind.access = info.mw_access_flags;
      return true;
    }
    default:
      return false;
  }
}

/// A missing list counts as one with more elements than any queue takes, so that it is refused.
RecvWr translate(const ibv_recv_wr& wr) {
  const auto count = wr.sg_list != nullptr || wr.num_sge == 0 ? static_cast<uint32_t>(wr.num_sge) : UINT32_MAX;
  return {wr.wr_id, sges_of(wr.sg_list), count};
}

}  // namespace

int post_error(PostResult result) {
  if (result == PostResult::kQueueFull) return ENOMEM;
  return result == PostResult::kInlineNotThere ? EFAULT : EINVAL;
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (is_the_parents(base->context)) [[unlikely]] {
    *bad_wr = wr;
    return refuse_to_child();
  }
  QueuePair& qp = ours(base);
  const bool datagram = base->qp_type == IBV_QPT_UD;
  const bool xrc = base->qp_type == IBV_QPT_XRC_SEND;
  const unsigned refused = base->qp_type == IBV_QPT_RAW_PACKET ? kOffloadFlags : 0;
  int error = 0;
  BriefEngineLock lock(endpoint());
  const Instant now = endpoint().now();
  Engine& engine = lock.engine();
  for (; wr != nullptr; wr = wr->next) {
    SendWr out;
    if (xrc) out.remote_srqn = wr->qp_type.xrc.remote_srqn;
    const bool good = (wr->send_flags & refused) == 0 && translate(*wr, datagram, out);
    // As with most providers, the program's structure keeps the key that it asked for; only another key is entered
    // there (not by ibv_wr_bind_mw, for a work request that may never be posted).
    const bool other_key = good && wr->opcode == IBV_WR_BIND_MW && out.bind.new_rkey != wr->bind_mw.rkey;
    ibv_mw* const window = other_key ? wr->bind_mw.mw : nullptr;
    const uint32_t old_rkey = window != nullptr ? window->rkey : 0;
    if (window != nullptr) window->rkey = out.bind.new_rkey;  // first: a queue pair in error flushes it at once
    const PostResult result = good ? engine.post_send(*qp.qp, out, now) : PostResult::kBadOpcode;
    if (window != nullptr && result != PostResult::kOk) window->rkey = old_rkey;
    if (result != PostResult::kOk) [[unlikely]] {
      error = post_error(result);
      *bad_wr = wr;
      break;
    }
  }
  endpoint().transmit(now);
  return with_errno(error);
}

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (is_the_parents(base->context)) [[unlikely]] {
    *bad_wr = wr;
    return refuse_to_child();
  }
  QueuePair& qp = ours(base);
  BriefEngineLock lock(endpoint());
  const Instant now = endpoint().now();
  for (; wr != nullptr; wr = wr->next) {
    const PostResult result = lock->post_recv(*qp.qp, translate(*wr), now);
    if (result != PostResult::kOk) [[unlikely]] {
      *bad_wr = wr;
      return with_errno(post_error(result));
    }
  }
  return 0;
}

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (is_the_parents(base->context)) [[unlikely]] {
    *bad_wr = wr;
    return refuse_to_child();
  }
  Srq& srq = ours(base);
  BriefEngineLock lock(endpoint());
  for (; wr != nullptr; wr = wr->next) {
    const PostResult result = srq.queue->post(translate(*wr));
    if (result != PostResult::kOk) [[unlikely]] {
      *bad_wr = wr;
      return with_errno(post_error(result));
    }
  }
  return 0;
}

}  // namespace uroce::verbs
