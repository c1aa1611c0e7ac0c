// Shared receive queues that match tags: operations on their lists, and what the device says of itself.
#include "tag_matching.h"

#include <infiniband/tm_types.h>

#include <cerrno>

#include "dpdk/log.h"
#include "operations.h"
#include "packet/tag_header.h"
#include "runtime.h"
#include "transport/receive_queue.h"
#include "transport/tag_list.h"
#include "transport/tag_matching.h"

namespace uroce::verbs {

static_assert(static_cast<int>(TagOp::Kind::kAdd) == IBV_WR_TAG_ADD &&
              static_cast<int>(TagOp::Kind::kRemove) == IBV_WR_TAG_DEL &&
              static_cast<int>(TagOp::Kind::kSync) == IBV_WR_TAG_SYNC);
static_assert(static_cast<int>(WcOpcode::kTmAdd) == IBV_WC_TM_ADD &&
              static_cast<int>(WcOpcode::kTmDel) == IBV_WC_TM_DEL &&
              static_cast<int>(WcOpcode::kTmSync) == IBV_WC_TM_SYNC &&
              static_cast<int>(WcOpcode::kTmRecv) == IBV_WC_TM_RECV &&
              static_cast<int>(WcOpcode::kTmNoTag) == IBV_WC_TM_NO_TAG);
static_assert(int{kWcTmSyncReq} == IBV_WC_TM_SYNC_REQ && int{kWcTmMatch} == IBV_WC_TM_MATCH &&
              int{kWcTmDataValid} == IBV_WC_TM_DATA_VALID);
static_assert(static_cast<int>(WcStatus::kTmErr) == IBV_WC_TM_ERR);
static_assert(static_cast<int>(TagOperation::kNoTag) == IBV_TMH_NO_TAG &&
              static_cast<int>(TagOperation::kRendezvous) == IBV_TMH_RNDV &&
              static_cast<int>(TagOperation::kFinished) == IBV_TMH_FIN &&
              static_cast<int>(TagOperation::kEager) == IBV_TMH_EAGER);
static_assert(TagHeader::kBytes == sizeof(ibv_tmh) && RendezvousHeader::kBytes == sizeof(ibv_rvh));

namespace {

constexpr int kListOpFlags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;

/// False for an operation that no queue knows.
bool read_operation(const ibv_ops_wr& from, TagOp& op) {
  if (from.opcode > IBV_WR_TAG_SYNC || (from.flags & ~kListOpFlags) != 0) return false;
  op.wr_id = from.wr_id;
  op.kind = static_cast<TagOp::Kind>(from.opcode);
  op.signaled = (from.flags & IBV_OPS_SIGNALED) != 0;
  op.sync = (from.flags & IBV_OPS_TM_SYNC) != 0;
  op.unexpected = from.tm.unexpected_cnt;
  op.handle = from.tm.handle;
  if (op.kind != TagOp::Kind::kAdd) return true;
  if (from.tm.add.num_sge < 0 || (from.tm.add.num_sge != 0 && from.tm.add.sg_list == nullptr)) return false;
  op.receive = {.wr_id = from.tm.add.recv_wr_id,
                .tag = from.tm.add.tag,
                .mask = from.tm.add.mask,
                .sges = reinterpret_cast<const Sge*>(from.tm.add.sg_list),
                .num_sge = static_cast<uint32_t>(from.tm.add.num_sge)};
  return true;
}

}  // namespace

int post_srq_ops(ibv_srq* base, ibv_ops_wr* wr, ibv_ops_wr** bad_wr) {
  if (is_the_parents(base->context)) [[unlikely]] {
    *bad_wr = wr;
    return refuse_to_child();
  }
  EngineLock lock(endpoint());
  TagMatching* const tags = ours(base).queue->tags();
  const Instant now = endpoint().now();
  for (; wr != nullptr; wr = wr->next) {
    TagOp op;
    const PostResult result = tags != nullptr && read_operation(*wr, op) ? tags->post(op, now) : PostResult::kBadOpcode;
    if (result != PostResult::kOk) [[unlikely]] {
      *bad_wr = wr;
      return with_errno(post_error(result));
    }
    if (op.kind == TagOp::Kind::kAdd) wr->tm.handle = op.handle;
  }
  return 0;
}

int check_tag_attributes(const ibv_srq_init_attr_ex& attr) {
  constexpr uint32_t kNeeded = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  if ((attr.comp_mask & kNeeded) != kNeeded || attr.cq == nullptr) return EINVAL;
  if (is_the_parents(attr.cq->context)) return refuse_to_child();
  const ibv_tm_cap& cap = attr.tm_cap;
  if (cap.max_num_tags == 0 || cap.max_num_tags > TagList::kCapacityMax) return EINVAL;
  return cap.max_ops == 0 || cap.max_ops > TagMatching::kOpsMax ? EINVAL : 0;
}

void fill_tag_caps(ibv_tm_caps& caps) {
  caps.max_rndv_hdr_size = TagMatching::kRendezvousHeadersMax;
  caps.max_num_tags = TagList::kCapacityMax;
  caps.flags = IBV_TM_CAP_RC;
  caps.max_ops = TagMatching::kOpsMax;
  caps.max_sge = TagList::kSgesMax;
}

}  // namespace uroce::verbs
