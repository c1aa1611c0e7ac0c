#include "program.h"

#include <gtest/gtest.h>

namespace uroce::cm::test {

ConnParam Program::parameters() {
  ConnParam param;
  param.qpn = next_qpn++;
  param.responder_resources = 1;
  param.initiator_depth = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  return param;
}

void Program::listen(uint16_t port) {
  Id* id = host_.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ids_.insert(id);
  ASSERT_EQ(host_.cm().bind(*id, v4("0.0.0.0", port)), 0);
  ASSERT_EQ(host_.cm().listen(*id, 1024), 0);
}

void Program::connect_to(const SocketAddress& to) {
  Id* id = host_.cm().create_id(PortSpace::kTcp, QpType::kRc, nullptr);
  ids_.insert(id);
  ASSERT_EQ(host_.cm().resolve_addr(*id, nullptr, to, milliseconds(2000), network_.now()), 0);
}

void Program::run() {
  while (const auto event = host_.next_event()) on_event(*event);
}

void Program::on_event(const Event& event) {
  RdmaCm& cm = host_.cm();
  switch (event.type) {
    case EventType::kAddrResolved:
      ASSERT_EQ(cm.resolve_route(*event.id, milliseconds(2000), network_.now()), 0);
      return;
    case EventType::kRouteResolved:
      ASSERT_EQ(cm.connect(*event.id, parameters(), {}, network_.now()), 0);
      return;
    case EventType::kConnectRequest: {
      ids_.insert(event.id);
      const ConnParam param = parameters();
      if (!accepts) return;
      // A request that the peer has meanwhile taken back cannot be accepted.
      cm.accept(*event.id, &param, {}, network_.now());
      return;
    }
    case EventType::kConnectResponse:
      if (cm.accept(*event.id, nullptr, {}, network_.now()) == 0) stand(event.id);
      return;
    case EventType::kEstablished:
      return stand(event.id);
    case EventType::kRejected:
      rejected++;
      established.erase(event.id);
      return destroy(event.id);
    case EventType::kUnreachable:
      unreachable++;
      return destroy(event.id);
    case EventType::kDisconnected:
      established.erase(event.id);
      if (hangs_up_when_told) cm.disconnect(*event.id, network_.now());
      return;
    case EventType::kTimewaitExit:
      ended++;
      return destroy(event.id);
    default:
      FAIL() << "unexpected event " << text_of(event.type);
  }
}

void Program::disconnect_all() {
  for (Id* id : established) ASSERT_EQ(host_.cm().disconnect(*id, network_.now()), 0);
}

void Program::destroy(Id* id) {
  if (ids_.erase(id) == 0) return;
  for (Id* child : host_.forget_events_of(id)) host_.cm().destroy_id(child, network_.now());
  host_.cm().destroy_id(id, network_.now());
}

void Program::destroy_all() {
  while (!ids_.empty()) destroy(*ids_.begin());
  established.clear();
}

}  // namespace uroce::cm::test
