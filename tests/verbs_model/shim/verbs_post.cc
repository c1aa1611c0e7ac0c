// Posting and polling.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbs_model/shim/verbs_machine.h"

namespace uroce::model {

namespace {

Answer answer_of(int error) {
  switch (error) {
    case 0:
      return Answer::kOk;
    case ENOMEM:
      return Answer::kFull;
    case EINVAL:
      return Answer::kInvalid;
    default:
      std::fprintf(stderr, "verbs model: a post was answered with %s\n", std::strerror(error));
      std::abort();
  }
}

ibv_sge* sges_of(const Sge* sges) { return reinterpret_cast<ibv_sge*>(const_cast<Sge*>(sges)); }

/// The library passes the structure on, and the device reads only its key, so that invalid keys can be used.
ibv_mr region_with(uint32_t lkey, ibv_pd* pd) {
  ibv_mr mr{};
  mr.context = pd->context;
  mr.pd = pd;
  mr.lkey = mr.rkey = lkey;
  return mr;
}

ibv_mw_bind_info bind_info_of(const MwBind& bind, ibv_mr& mr) { return {&mr, bind.addr, bind.length, bind.access}; }

bool has_elements(WrOpcode opcode) { return opcode != WrOpcode::kLocalInv && opcode != WrOpcode::kBindMw; }

uint64_t operation_of(WrOpcode opcode) {
  constexpr uint64_t kFlags[] = {
      IBV_QP_EX_WITH_RDMA_WRITE,           IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_SEND,
      IBV_QP_EX_WITH_SEND_WITH_IMM,        IBV_QP_EX_WITH_RDMA_READ,           IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_LOCAL_INV,           IBV_QP_EX_WITH_BIND_MW,
      IBV_QP_EX_WITH_SEND_WITH_INV};
  return kFlags[static_cast<unsigned>(opcode)];
}

void start(ibv_qp_ex* qp, const SendWr& wr, ibv_mw* window, ibv_mr& mr) {
  switch (wr.opcode) {
    case WrOpcode::kRdmaWrite:
      return ibv_wr_rdma_write(qp, wr.rkey, wr.remote_addr);
    case WrOpcode::kRdmaWriteWithImm:
      return ibv_wr_rdma_write_imm(qp, wr.rkey, wr.remote_addr, wr.imm_or_rkey);
    case WrOpcode::kSend:
      return ibv_wr_send(qp);
    case WrOpcode::kSendWithImm:
      return ibv_wr_send_imm(qp, wr.imm_or_rkey);
    case WrOpcode::kSendWithInv:
      return ibv_wr_send_inv(qp, wr.imm_or_rkey);
    case WrOpcode::kRdmaRead:
      return ibv_wr_rdma_read(qp, wr.rkey, wr.remote_addr);
    case WrOpcode::kCompareSwap:
      return ibv_wr_atomic_cmp_swp(qp, wr.rkey, wr.remote_addr, wr.compare_add, wr.swap);
    case WrOpcode::kFetchAdd:
      return ibv_wr_atomic_fetch_add(qp, wr.rkey, wr.remote_addr, wr.compare_add);
    case WrOpcode::kLocalInv:
      return ibv_wr_local_inv(qp, wr.imm_or_rkey);
    case WrOpcode::kBindMw: {
      const ibv_mw_bind_info info = bind_info_of(wr.bind, mr);
      return ibv_wr_bind_mw(qp, window, wr.bind.new_rkey, &info);
    }
    case WrOpcode::kFlush:
    case WrOpcode::kAtomicWrite:
      break;  // the model draws neither
  }
}

void set_inline_data(ibv_qp_ex* qp, const SendWr& wr) {
  std::vector<ibv_data_buf> pieces;
  for (uint32_t i = 0; i < wr.num_sge; i++) {
    pieces.push_back({reinterpret_cast<void*>(wr.sges[i].addr), wr.sges[i].length});
  }
  ibv_wr_set_inline_data_list(qp, pieces.size(), pieces.data());
}

}  // namespace

uint64_t operations_of(QpType type) {
  constexpr uint64_t kBoth = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kConnected = kBoth | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                  IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  if (type == QpType::kUd) return kBoth;
  if (type == QpType::kUc) return kConnected;
  return kConnected | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;
}

Answer VerbsMachine::post_send(unsigned qp, SendWr& wr, unsigned to) {
  moment_ = device_.now();
  const bool old_window = wr.opcode == WrOpcode::kBindMw && binding_->type == IBV_MW_TYPE_1;
  return answer_of(old_window ? bind_old(qp, wr) : can_build(qp, wr) ? build(qp, wr, to) : post(qp, wr, to));
}

/// False for operations that the type does not have, which ibv_wr_* has no function for, and for inline data in more
/// pieces than there are elements, which ibv_wr_* accepts.
bool VerbsMachine::can_build(unsigned qp, const SendWr& wr) const {
  const QueuePair& spec = program_.qps[qp];
  if (!manner_.builds || (operations_of(spec.type) & operation_of(wr.opcode)) == 0) return false;
  return (wr.flags & kSendInline) == 0 || wr.num_sge <= spec.sges;
}

int VerbsMachine::post(unsigned qp, const SendWr& from, unsigned to) {
  ibv_mr mr = region_with(from.bind.mr_lkey, end(qp).pd);
  ibv_send_wr wr{};
  wr.wr_id = from.wr_id;
  wr.opcode = static_cast<ibv_wr_opcode>(from.opcode);
  wr.send_flags = from.flags;
  wr.sg_list = sges_of(from.sges);
  wr.num_sge = static_cast<int>(from.num_sge);
  wr.imm_data = from.imm_or_rkey;
  if (program_.qps[qp].type == QpType::kUd) {
    wr.wr.ud = {end(qp).ah, qpns_[to], kQkey};
  } else if (from.opcode == WrOpcode::kCompareSwap || from.opcode == WrOpcode::kFetchAdd) {
    wr.wr.atomic = {from.remote_addr, from.compare_add, from.swap, from.rkey};
  } else {
    wr.wr.rdma = {from.remote_addr, from.rkey};
  }
  if (from.opcode == WrOpcode::kBindMw) {
    wr.bind_mw.mw = binding_;
    wr.bind_mw.rkey = from.bind.new_rkey;
    wr.bind_mw.bind_info = bind_info_of(from.bind, mr);
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qps_[qp], &wr, &bad);
  if (error != 0 && bad != &wr) std::abort();
  return error;
}

int VerbsMachine::build(unsigned qp, const SendWr& wr, unsigned to) {
  ibv_mr mr = region_with(wr.bind.mr_lkey, end(qp).pd);
  ibv_qp_ex* const out = ibv_qp_to_qp_ex(qps_[qp]);
  ibv_wr_start(out);
  out->wr_id = wr.wr_id;
  out->wr_flags = wr.flags & ~unsigned{kSendInline};
  start(out, wr, binding_, mr);
  if (program_.qps[qp].type == QpType::kUd) ibv_wr_set_ud_addr(out, end(qp).ah, qpns_[to], kQkey);
  if ((wr.flags & kSendInline) != 0 && has_elements(wr.opcode)) {
    set_inline_data(out, wr);
  } else if (wr.num_sge == 1) {
    ibv_wr_set_sge(out, wr.sges[0].lkey, wr.sges[0].addr, wr.sges[0].length);
  } else if (wr.num_sge != 0) {
    ibv_wr_set_sge_list(out, wr.num_sge, sges_of(wr.sges));
  }
  return ibv_wr_complete(out);
}

/// Windows of type 1 are bound by a call of their own, which makes the key.
int VerbsMachine::bind_old(unsigned qp, const SendWr& wr) {
  ibv_mr mr = region_with(wr.bind.mr_lkey, end(qp).pd);
  ibv_mw_bind bind{};
  bind.wr_id = wr.wr_id;
  bind.send_flags = wr.flags;
  bind.bind_info = bind_info_of(wr.bind, mr);
  return ibv_bind_mw(qps_[qp], binding_, &bind);
}

Answer VerbsMachine::post_receive(unsigned qp, const RecvWr& from) {
  moment_ = device_.now();
  ibv_recv_wr wr{from.wr_id, nullptr, sges_of(from.sges), static_cast<int>(from.num_sge)};
  ibv_recv_wr* bad = nullptr;
  const int error =
      program_.qps[qp].srq ? ibv_post_srq_recv(end(qp).srq, &wr, &bad) : ibv_post_recv(qps_[qp], &wr, &bad);
  if (error != 0 && bad != &wr) std::abort();
  return answer_of(error);
}

uint32_t VerbsMachine::poll(unsigned endpoint, unsigned cq, std::span<Completion> out) {
  End& one = ends_[endpoint];
  Queue& queue = one.cqs[cq];
  const uint32_t count = manner_.extended ? poll_extended(queue.extended, out) : poll_plain(queue.cq, out);
  moment_ = device_.now();
  take_events();
  if (manner_.events) note_events(one, queue, count);
  return count;
}

uint32_t VerbsMachine::poll_plain(ibv_cq* cq, std::span<Completion> out) {
  ibv_wc wc[64];
  const int count = ibv_poll_cq(cq, static_cast<int>(std::min<size_t>(out.size(), 64)), wc);
  if (count < 0) std::abort();
  for (int i = 0; i < count; i++) {
    Completion& to = out[static_cast<size_t>(i)] = {};
    to.wr_id = wc[i].wr_id;
    to.status = static_cast<WcStatus>(wc[i].status);
    to.opcode = static_cast<WcOpcode>(wc[i].opcode);
    to.flags = static_cast<uint8_t>(wc[i].wc_flags);
    to.byte_len = wc[i].byte_len;
    to.imm_or_rkey = wc[i].imm_data;
    to.qp_num = wc[i].qp_num;
    to.src_qp = wc[i].src_qp;
    to.cause = static_cast<Cause>(wc[i].vendor_err);
  }
  return static_cast<uint32_t>(count);
}

uint32_t VerbsMachine::poll_extended(ibv_cq_ex* cq, std::span<Completion> out) {
  ibv_poll_cq_attr attr{};
  uint32_t count = 0;
  int error = out.empty() ? ENOENT : ibv_start_poll(cq, &attr);
  const bool begun = error == 0;
  while (error == 0) {
    Completion& to = out[count++] = {};
    to.wr_id = cq->wr_id;
    to.status = static_cast<WcStatus>(cq->status);
    to.opcode = static_cast<WcOpcode>(ibv_wc_read_opcode(cq));
    to.flags = static_cast<uint8_t>(ibv_wc_read_wc_flags(cq));
    to.byte_len = ibv_wc_read_byte_len(cq);
    to.imm_or_rkey = ibv_wc_read_imm_data(cq);
    to.qp_num = ibv_wc_read_qp_num(cq);
    to.src_qp = ibv_wc_read_src_qp(cq);
    to.cause = static_cast<Cause>(ibv_wc_read_vendor_err(cq));
    to.timestamp_ns = static_cast<int64_t>(ibv_wc_read_completion_ts(cq));
    error = count < out.size() ? ibv_next_poll(cq) : ENOENT;
  }
  if (error != ENOENT) std::abort();
  if (begun) ibv_end_poll(cq);
  return count;
}

}  // namespace uroce::model
