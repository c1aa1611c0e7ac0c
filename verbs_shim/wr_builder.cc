// ibv_wr_*: work requests are built piece by piece, and posted together.
#include <cerrno>
#include <cstring>

#include "base/guarded_memory.h"
#include "operations.h"
#include "runtime.h"
#include "transport/qp.h"

namespace uroce::verbs {

void WrBuilder::reserve(uint32_t max_wr, uint32_t max_sge, uint32_t max_inline) {
  max_wr_ = max_wr;
  max_sge_ = max_sge;
  max_inline_ = max_inline;
  const size_t sges = size_t{max_wr} * max_sge;
  const size_t inline_bytes = size_t{max_wr} * max_inline;
  memory_ = UntouchedBlock(UntouchedBlock::bytes_for<SendWr>(max_wr) + UntouchedBlock::bytes_for<Sge>(sges) +
                           UntouchedBlock::bytes_for<uint8_t>(inline_bytes));
  wrs_ = UntouchedArray<SendWr>(memory_, max_wr);
  sges_ = UntouchedArray<Sge>(memory_, sges);
  inline_ = UntouchedArray<uint8_t>(memory_, inline_bytes);
}

SendWr& WrBuilder::next() {
  if (count_ < max_wr_) {
    count_++;
  } else {
    fail(ENOMEM);
  }
  SendWr& wr = error_ == 0 ? wrs_[count_ - 1] : scratch_;
  wr = SendWr{};
  return wr;
}

namespace {

SendWr& begin(ibv_qp_ex* base, WrOpcode opcode) {
  constexpr unsigned kFlags = kSendFence | kSendSignaled | kSendSolicited;
  SendWr& wr = ours(base).builder->next();
  wr.wr_id = base->wr_id;
  wr.opcode = opcode;
  wr.flags = static_cast<uint8_t>(base->wr_flags & kFlags);
  const bool raw = base->qp_base.qp_type == IBV_QPT_RAW_PACKET;
  if (raw && (base->wr_flags & kOffloadFlags) != 0) ours(base).builder->fail(EINVAL);
  return wr;
}

void wr_rdma(ibv_qp_ex* qp, WrOpcode opcode, uint32_t rkey, uint64_t remote_addr, uint32_t imm) {
  SendWr& wr = begin(qp, opcode);
  wr.rkey = rkey;
  wr.remote_addr = remote_addr;
  wr.imm_or_rkey = imm;
}

void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  wr_rdma(qp, WrOpcode::kRdmaWrite, rkey, remote_addr, 0);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, __be32 imm) {
  wr_rdma(qp, WrOpcode::kRdmaWriteWithImm, rkey, remote_addr, imm);
}
void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  wr_rdma(qp, WrOpcode::kRdmaRead, rkey, remote_addr, 0);
}

void wr_atomic(ibv_qp_ex* qp, WrOpcode opcode, uint32_t rkey, uint64_t remote_addr, uint64_t compare_add,
               uint64_t swap) {
  SendWr& wr = begin(qp, opcode);
  wr.rkey = rkey;
  wr.remote_addr = remote_addr;
  wr.compare_add = compare_add;
  wr.swap = swap;
}
void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap) {
  wr_atomic(qp, WrOpcode::kCompareSwap, rkey, remote_addr, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t add) {
  wr_atomic(qp, WrOpcode::kFetchAdd, rkey, remote_addr, add, 0);
}

void wr_send(ibv_qp_ex* qp) { begin(qp, WrOpcode::kSend).imm_or_rkey = 0; }
void wr_send_imm(ibv_qp_ex* qp, __be32 imm) { begin(qp, WrOpcode::kSendWithImm).imm_or_rkey = imm; }
void wr_send_inv(ibv_qp_ex* qp, uint32_t rkey) { begin(qp, WrOpcode::kSendWithInv).imm_or_rkey = rkey; }
void wr_local_inv(ibv_qp_ex* qp, uint32_t rkey) { begin(qp, WrOpcode::kLocalInv).imm_or_rkey = rkey; }

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  SendWr& wr = begin(qp, WrOpcode::kBindMw);
  if (mw == nullptr || info == nullptr) return ours(qp).builder->fail(EINVAL);
  wr.bind.mw_rkey = ours(mw).id;
  wr.bind.new_rkey = key_after_bind(ours(mw), rkey);
  wr.bind.mr_lkey = info->mr != nullptr ? info->mr->lkey : 0;
  wr.bind.addr = info->addr;
  wr.bind.length = info->length;
  wr.bind.access = info->mw_access_flags;
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  SendWr& wr = ours(qp).builder->last();
  wr.ah = ah != nullptr ? ours(ah).address.get() : nullptr;  // null is refused when it is posted
  wr.remote_qpn = remote_qpn;
  wr.remote_qkey = remote_qkey;
}

void wr_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  WrBuilder& builder = *ours(qp).builder;
  if (count > builder.max_sge() || builder.last_sges() == nullptr) {
    builder.fail(EINVAL);
    return;
  }
  Sge* const sges = builder.last_sges();
  std::memcpy(static_cast<void*>(sges), list, count * sizeof *list);
  SendWr& wr = builder.last();
  wr.sges = sges;
  wr.num_sge = static_cast<uint32_t>(count);
}

void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  const ibv_sge sge{addr, length, lkey};
  wr_set_sge_list(qp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  WrBuilder& builder = *ours(qp).builder;
  uint8_t* const data = builder.last_inline();
  uint32_t used = 0;
  for (size_t i = 0; i < count; i++) {
    if (data == nullptr || list[i].length > builder.max_inline() - used) {
      builder.fail(EINVAL);
      return;
    }
    if (!try_copy(data + used, list[i].addr, list[i].length)) {
      builder.fail(EFAULT);
      return;
    }
    used += static_cast<uint32_t>(list[i].length);
  }
  Sge* const sge = builder.last_sges();
  if (sge == nullptr) {
    builder.fail(EINVAL);
    return;
  }
  *sge = {reinterpret_cast<uint64_t>(data), used, 0};
  SendWr& wr = builder.last();
  wr.sges = sge;
  wr.num_sge = 1;
  wr.flags |= kSendInline;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* addr, size_t length) {
  const ibv_data_buf buffer{addr, length};
  wr_set_inline_data_list(qp, 1, &buffer);
}

void wr_start(ibv_qp_ex* qp) { ours(qp).builder->start(); }

void wr_abort(ibv_qp_ex* qp) { ours(qp).builder->finish(); }

int wr_complete(ibv_qp_ex* base) {
  QueuePair& qp = ours(base);
  WrBuilder& builder = *qp.builder;
  int error = is_the_parents(qp.base()->context) ? refuse_to_child() : builder.error();
  if (error == 0) {
    BriefEngineLock lock(endpoint());
    const Instant now = endpoint().now();
    const PostResult result = lock->post_sends(*qp.qp, builder.wrs(), now);
    if (result != PostResult::kOk) error = post_error(result);
    endpoint().transmit(now);
  }
  builder.finish();
  return with_errno(error);
}

void wr_not_offered(ibv_qp_ex* qp) { ours(qp).builder->fail(EOPNOTSUPP); }
void wr_send_tso(ibv_qp_ex* qp, void*, uint16_t, uint16_t) { wr_not_offered(qp); }
void wr_set_xrc_srqn(ibv_qp_ex* qp, uint32_t number) {
  if (ours(qp).base()->qp_type != IBV_QPT_XRC_SEND) return wr_not_offered(qp);
  ours(qp).builder->last().remote_srqn = number;
}

}  // namespace

void fill_wr_operations(QueuePair& qp, uint64_t) {
  const QpCapabilities& cap = qp.qp->init().cap;
  qp.builder = std::make_unique<WrBuilder>();
  qp.builder->reserve(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
  qp.extended = true;
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_local_inv = wr_local_inv;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = wr_send_inv;
  qp.wr_send_tso = wr_send_tso;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  fill_placement_operations(qp);
}

}  // namespace uroce::verbs
