// Connections that end before their time, by an error or on purpose: everything is flushed in order, nothing that was
// acknowledged is missing, and nothing is done twice.
#include "oracle/rc_end.h"

#include <cinttypes>
#include <cstdio>

#include "base/check.h"
#include "transport/requester.h"

namespace uroce::oracle {

RcEnd::RcEnd(const sim::Side& side, Receiver& receiver, HostShare& share, const MixedOptions& options, uint64_t seed,
             uint64_t ops, Verdict& verdict)
    : context_(side, share, options, seed, ops, verdict),
      drawer_(context_),
      send_judge_(context_),
      receive_judge_(context_, receiver) {}

void RcEnd::stop(bool vanished) {
  context_.stopped = true;
  context_.vanished = context_.vanished || vanished;
}

void RcEnd::move_to(const sim::Side& side) {
  ensure(context_.vanished, "who moves to another engine has left the old one without a word");
  context_.side = side;
  context_.target.register_again(side);
  context_.landing.register_again(side);
  // The old window stays what it was until the connection begins anew: the peer does not know.
  context_.window.allocate(side);
}

void RcEnd::check_broken() {
  ensure(context_.stopped, "a connection is looked at when it is over");
  const RcContext& peer = *context_.peer;
  SendLedger& sends = context_.sends;
  if (!sends.empty() && !context_.vanished) {
    return context_.verdict.fail("QP %06x: no completion for work request %" PRIu64 " although it is in error",
                                 qp().qpn(), sends.oldest().wr_id);
  }
  sends.give_up_all();
  if (peer.messages.misses(sends.last_done()) && !peer.vanished) {
    return context_.verdict.fail("QP %06x: work request %" PRIu64 " completed, but its message never arrived",
                                 qp().qpn(), peer.messages.oldest().wr_id);
  }
  context_.peer->share.counter.note_unsure(sends.unsure_adds());
}

void RcEnd::restart() {
  TargetMemory& target = context_.target;
  SendLedger& theirs = context_.peer->sends;
  for (auto at = target.find_difference(); at; at = target.find_difference(*at + 1)) {
    if (theirs.may_explain(*at, target.byte(*at))) continue;
    return context_.verdict.fail("QP %06x: byte %u of its memory is %02x, not %02x, when its connection is over",
                                 qp().qpn(), *at, target.byte(*at), target.expected_byte(*at));
  }
  target.accept();
  theirs.forget_unsure();
  context_.landing.clear();
  context_.messages.restart();
  context_.window.reset();
  if (!context_.window.allocate(context_.side)) context_.verdict.fail("no memory window");
  context_.sends.restart();
  context_.note_progress();
  context_.stopped = context_.vanished = context_.broken = false;
}

void RcEnd::check_memory() {
  const TargetMemory& target = context_.target;
  if (const auto at = target.find_difference()) {
    context_.verdict.fail("QP %06x: byte %u of its memory is %02x, not %02x", qp().qpn(), *at, target.byte(*at),
                          target.expected_byte(*at));
  }
}

std::string RcEnd::state() const {
  const Requester& requester = qp().requester();
  char text[256];
  std::snprintf(text, sizeof text,
                "QP %06x %s: %" PRIu64 " to post, %zu pending, %zu to receive; una %06x next %06x in flight %u%s",
                qp().qpn(), qp_state_name(qp().state()), context_.sends.ops_left(), context_.sends.pending(),
                context_.messages.size(), requester.window().una().value(), requester.window().next().value(),
                requester.window().packets_in_flight(), requester.retry_timer().awaits_receive() ? ", RNR" : "");
  return text;
}

}  // namespace uroce::oracle
