// What REQ and REP agreed on for the packets to one QP, and whether the packets comply.
#pragma once

#include <cstdint>
#include <vector>

#include "lint/packet.h"

namespace uroce::lint {

class Agreement {
 public:
  struct Terms {
    Psn start{};
    uint32_t path_mtu_bytes = 4096;
    uint8_t rnr_retries = 7;  // of the sender to this QP; 7: no limit
    bool awaits_rtu = false;  // the sender to this QP accepted the connection, and has no answer yet
  };

  Agreement() = default;
  explicit Agreement(const Terms& terms) : terms_(terms), made_(true), holds_(true) {}

  bool made() const { return made_; }
  bool holds() const { return holds_; }
  /// The connection is being ended: its QP may have another one soon.
  void end() { holds_ = false; }
  Psn start() const { return terms_.start; }

  /// The side that accepted the connection may send: the RTU came, or data.
  void confirm() { terms_.awaits_rtu = false; }
  /// A packet to the QP.
  void on_packet(const Packet& packet, std::vector<Issue>& issues);
  /// A response to requests to this QP.
  void on_answer(const Packet& packet);

 private:
  void on_request(const Packet& packet, std::vector<Issue>& issues);

  Terms terms_;
  bool made_ = false;
  bool holds_ = false;
  bool above_mtu_ = false;
  Psn refused_;  // the PSN answered with RNR NAKs
  bool refused_now_ = false;
  uint32_t retries_ = 0;
};

}  // namespace uroce::lint
