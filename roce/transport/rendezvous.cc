#include "transport/rendezvous.h"

#include <algorithm>

#include "base/check.h"
#include "packet/tag_header.h"
#include "transport/qp_context.h"
#include "transport/request_encoder.h"
#include "transport/send_queue.h"
#include "transport/tag_matching.h"

namespace uroce {

namespace {

constexpr uint32_t kWorkOfEach = 2;  // READ and notice

/// The elements of a receive as far as a message fills them, and the READ that does.
struct TagRead {
  TagRead(const TaggedReceive& receive, const RendezvousHeader& header) {
    uint64_t left = header.length;
    for (uint32_t i = 0; i < receive.num_sge && left != 0; i++) {
      sges[wr.num_sge] = receive.sges[i];
      sges[wr.num_sge].length = static_cast<uint32_t>(std::min<uint64_t>(left, receive.sges[i].length));
      left -= sges[wr.num_sge++].length;
    }
    fits = left == 0;
    wr.wr_id = receive.wr_id;
    wr.opcode = WrOpcode::kRdmaRead;
    wr.sges = sges;
    wr.remote_addr = header.va;
    wr.rkey = header.rkey;
  }

  Sge sges[TagList::kSgesMax];
  SendWr wr;
  bool fits = false;
};

}  // namespace

uint32_t device_work_of(const QpInit& init) {
  return init.srq != nullptr && init.srq->tags() != nullptr ? kRendezvousMax * kWorkOfEach : 0;
}

bool rendezvous_fits(const QpContext& context, const SendQueue& queue) {
  const bool sends = context.state == QpState::kRts || context.state == QpState::kSqd;
  return sends && queue.device_room() >= kWorkOfEach;
}

Cause check_rendezvous(const QpContext& context, const SendQueue& queue, const TaggedReceive& receive,
                       const RendezvousHeader& header) {
  const TagRead read(receive, header);
  if (!read.fits) return Cause::kReceiveTooShort;
  return queue.check_device(read.wr, context.mtu) == PostResult::kOk ? Cause::kNone : Cause::kTagHeader;
}

void start_rendezvous(const QpContext& context, SendQueue& queue, const TaggedReceive& receive,
                      const TaggedHeaders& headers) {
  const TagRead read(receive, headers.rendezvous);
  queue.push_device(read.wr, context.mtu);
  uint8_t bytes[TagHeader::kBytes];
  TagHeader{TagOperation::kFinished, headers.tag.context, headers.tag.tag}.encode(bytes);
  const Sge sge{.addr = reinterpret_cast<uint64_t>(bytes), .length = sizeof bytes, .lkey = 0};
  SendWr notice;
  notice.flags = kSendInline | kSendFence;
  notice.sges = &sge;
  notice.num_sge = 1;
  const bool taken = queue.take_inline_data(notice, 0);
  ensure(taken, "the notice lies on this stack");
  queue.push_device(notice, context.mtu);
}

Outcome report_device_work(QpContext& context, SendQueue& queue, Cause cause, Instant now) {
  const SendWqe& wqe = queue.ring().front();
  queue.end_device();
  Completion completion;
  completion.wr_id = wqe.wr_id;
  completion.status = status_of(cause);
  completion.cause = cause;
  if (!wqe.is_read()) {
    // No receive is left that could tell of it, and the queue pair is in error.
    completion.qp_num = context.qpn;
    if (cause != Cause::kNone) context.events.on_error_completion(completion);
    return Outcome::kGoesOn;
  }
  WorkQueueSlots& slots = context.srq->tags()->tag_slots();
  slots.end();
  completion.opcode = WcOpcode::kTmRecv;
  if (cause == Cause::kNone) {
    completion.flags = kWcTmDataValid;
    completion.byte_len = wqe.length;
  }
  return context.complete_receive(slots, completion, false, now);
}

void forget_rendezvous(const QpContext& context, SendQueue& queue) {
  const Ring<SendWqe>& ring = queue.ring();
  for (uint32_t at = ring.head(); at != ring.tail(); at++) {
    if (ring.at(at).posted_by_device() && ring.at(at).is_read()) context.srq->tags()->tag_slots().give_back(1);
  }
}

}  // namespace uroce
