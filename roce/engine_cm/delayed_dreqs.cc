#include "engine_cm/delayed_dreqs.h"

#include <algorithm>

#include "cm/mad.h"
#include "engine/management.h"
#include "engine/queue_pairs.h"
#include "transport/completion_queue.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce {
namespace {

/// Completions of this queue pair, which is connected with a host at `peer`, were not polled yet.
bool completions_lie(const Engine& engine, uint32_t qpn, const IpAddress& peer) {
  const Qp* const qp = engine.qps().table().find(qpn);
  if (qp == nullptr || !qp->connected() || qp->path().dst_ip != peer) return false;
  const auto has = [&](const CompletionQueue* queue) { return queue != nullptr && queue->has_of(qpn); };
  return has(qp->init().send_cq) || has(qp->init().recv_cq);
}

}  // namespace

DelayedDreqs::Kept::Kept(const IncomingMad& from, uint32_t of, Instant latest) : mad(from), qpn(of), until(latest) {
  std::copy(from.bytes.begin(), from.bytes.end(), bytes.begin());
  mad.bytes = bytes;
}

bool DelayedDreqs::keep(const IncomingMad& mad, const Engine& engine, Instant now) {
  cm::MadHeader header;
  if (kept_.size() == kMax || cm::decode(mad.bytes, header) != cm::HeaderFault::kNone ||
      header.attribute != cm::Attribute::kDreq)
    return false;
  const uint32_t qpn = cm::decode_dreq(mad.bytes).remote_qpn;
  if (!completions_lie(engine, qpn, mad.src_ip)) return false;
  kept_.emplace_back(mad, qpn, now + kPatience);
  next_look_ = std::min(next_look_, now + kLookAgain);
  return true;
}

std::optional<IncomingMad> DelayedDreqs::take(const Engine& engine, Instant now) {
  taken_.clear();
  const auto due = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.until <= now || !completions_lie(engine, kept.qpn, kept.mad.src_ip);
  });
  if (due == kept_.end()) {
    next_look_ = kept_.empty() ? Instant::never() : now + kLookAgain;
    return std::nullopt;
  }
  taken_.splice(taken_.begin(), kept_, due);
  return taken_.front().mad;
}

void DelayedDreqs::forget() {
  kept_.clear();
  taken_.clear();
  next_look_ = Instant::never();
}

}  // namespace uroce
