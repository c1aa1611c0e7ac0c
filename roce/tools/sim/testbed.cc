#include "sim/testbed.h"

#include "base/check.h"
#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/object_tables.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce::sim {

namespace {

EngineConfig config_for(const EngineConfig& base, uint8_t n) {
  EngineConfig config = base;
  const EngineConfig own = simple_config(n);
  config.mac = own.mac;
  config.addresses = own.addresses;
  return config;
}

}  // namespace

Testbed::Testbed(uint64_t seed, const LinkConfig& link, const EngineConfig& base)
    : world(seed),
      a(world.add_host(config_for(base, 1))),
      b(world.add_host(config_for(base, 2))),
      cable(world.connect(a, b, link)) {}

void Testbed::connect(Side& first, Side& second, const QpOptions& options) {
  first.host = &a;
  second.host = &b;
  for (Side* side : {&first, &second}) {
    side->pd = side->engine().objects().allocate_pd();
    side->send_cq = side->engine().objects().create_cq(4096, nullptr);
    side->recv_cq = side->engine().objects().create_cq(4096, nullptr);
  }
  add_qps(first, second, options);
}

void Testbed::make_qp(Side& side, bool first, const QpOptions& options) {
  QpInit init;
  init.type = options.type;
  init.pd = side.pd;
  init.send_cq = side.send_cq;
  init.recv_cq = side.recv_cq;
  init.srq = first ? options.srq_a : options.srq_b;
  init.cap = options.cap;
  init.sq_sig_all = options.sq_sig_all;
  init.loss_recovery = first ? options.recovery_a : options.recovery_b;
  side.qp = side.engine().create_qp(init, nullptr);
  ensure(side.qp != nullptr, "a testbed's engine has room for the QP");
}

void Testbed::join(const Side& first, const Side& second, const QpOptions& options) {
  for (const Side* side : {&first, &second}) {
    const bool is_first = side == &first;
    const Side& peer = is_first ? second : first;
    QpAttributes attributes = options.attributes;
    attributes.dest_qpn = peer.qp->qpn();
    attributes.sq_psn = is_first ? options.psn_a : options.psn_b;
    attributes.rq_psn = is_first ? options.psn_b : options.psn_a;
    attributes.av.sgid_index = options.ipv6 ? 2 : 1;
    attributes.av.dgid = peer.engine().addresses().gids()[attributes.av.sgid_index].ip;
    const QpState target = options.to_rts ? QpState::kRts : QpState::kRtr;
    const ModifyResult result = bring_up(side->engine(), *side->qp, attributes, target, side->host->now());
    ensure(result == ModifyResult::kOk, "a testbed's QP comes up");
  }
}

void Testbed::add_qps(Side& first, Side& second, const QpOptions& options) {
  make_qp(first, true, options);
  make_qp(second, false, options);
  join(first, second, options);
}

}  // namespace uroce::sim
