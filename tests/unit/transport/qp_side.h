// One side of a test in which queue pairs meet without an engine: what is heard of its QP, and how packets get to and
// from it.
#pragma once

#include <array>
#include <cstdlib>
#include <span>
#include <vector>

#include "packet/packet.h"
#include "transport/completion_queue.h"
#include "transport/observer.h"
#include "transport/qp.h"

namespace uroce::test {

using Frames = std::vector<std::vector<uint8_t>>;

inline Route route_between(uint32_t own_address, uint32_t peer_address) {
  Route path;
  path.src_ip = IpAddress::v4(own_address);
  path.dst_ip = IpAddress::v4(peer_address);
  path.src_mac = path.dst_mac = MacAddress{{2, 0, 0, 0, 0, 1}};
  return path;
}

/// Everything is allowed, and both sides begin with PSN 0x100.
inline QpAttributes attributes_towards(uint32_t dest_qpn) {
  QpAttributes a;
  a.access = 15;
  a.dest_qpn = dest_qpn;
  a.rq_psn = a.sq_psn = Psn(0x100);
  a.max_rd_atomic = a.max_dest_rd_atomic = 4;
  a.retry_cnt = 1;
  return a;
}

/// Moves from RESET to `last`.
inline void bring_up(Qp& qp, QpAttributes attributes, const Route& path, QpState last, Instant now) {
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    attributes.state = state;
    const uint32_t mask = required_attributes(qp.type(), qp.state(), state);
    if (qp.modify(attributes, mask, &path, true, now) != ModifyResult::kOk) std::abort();
    if (state == last) return;
  }
}

/// All frames that the QP has to send now.
inline Frames frames_of(Qp& qp, Instant now) {
  Frames all;
  std::array<uint8_t, 2048> buffer{};
  for (TxFrame frame{.data = buffer.data(), .capacity = buffer.size()}; qp.poll_transmit(frame, now);) {
    all.emplace_back(buffer.begin(), buffer.begin() + frame.bytes);
  }
  return all;
}

inline void give_frame(Qp& qp, std::span<const uint8_t> frame, Instant now) {
  PacketView packet;
  if (parse_frame(frame, packet) == ParseResult::kOk) qp.on_packet(packet, now);
}

inline std::vector<Completion> completions_of(CompletionQueue& cq) {
  std::vector<Completion> all(64);
  all.resize(cq.poll(all));
  return all;
}

/// Keeps what it is told.
class QpWitness : public Observer {
 public:
  void on_qp_event(Qp& /*qp*/, AsyncEvent event) override { events.push_back(event); }
  void on_error_completion(const Qp& /*qp*/, const Completion& completion) override {
    causes.push_back(completion.cause);
  }

  std::vector<AsyncEvent> events;
  std::vector<Cause> causes;
};

}  // namespace uroce::test
