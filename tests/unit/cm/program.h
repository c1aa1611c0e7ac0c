// A program on a host: connects, accepts and hangs up as one with librdmacm does, by the events that it gets.
#pragma once

#include <set>

#include "network.h"

namespace uroce::cm::test {

class Program {
 public:
  Program(Network& network, Host& host) : network_(network), host_(host) {}

  void listen(uint16_t port);
  void connect_to(const SocketAddress& to);
  /// Handles every event that there is, and takes the next steps.
  void run();
  void disconnect_all();
  void destroy_all();

  bool hangs_up_when_told = true;  // answers a peer's DREQ
  bool accepts = true;
  std::set<Id*> established;
  unsigned ever_established = 0;
  unsigned rejected = 0;
  unsigned unreachable = 0;
  unsigned ended = 0;  // timewait is over
  uint32_t next_qpn = 0x100;

 private:
  void on_event(const Event& event);
  void stand(Id* id) {
    ever_established++;
    established.insert(id);
  }
  void destroy(Id* id);
  ConnParam parameters();

  Network& network_;
  Host& host_;
  std::set<Id*> ids_;
};

}  // namespace uroce::cm::test
