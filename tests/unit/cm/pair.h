// Two hosts, a listener on the second, and the steps that a program with librdmacm takes.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "network.h"

namespace uroce::cm::test {

class Pair : public ::testing::Test {
 protected:
  static constexpr uint16_t kPort = 7174;

  Network network{1};
  Host& client = network.add_host("client", {"10.0.0.1/24", "fd00::1/64"});
  Host& server = network.add_host("server", {"10.0.0.2/24", "fd00::2/64"});

  Id* listen(SocketAddress address = v4("0.0.0.0", kPort), PortSpace space = PortSpace::kTcp,
             QpType type = QpType::kRc) {
    Id* id = server.cm().create_id(space, type, nullptr);
    EXPECT_EQ(server.cm().bind(*id, address), 0);
    EXPECT_EQ(server.cm().listen(*id, 10), 0);
    return id;
  }

  /// An Id of the client whose route is resolved.
  Id* resolved(SocketAddress to = v4("10.0.0.2", kPort), PortSpace space = PortSpace::kTcp, QpType type = QpType::kRc) {
    Id* id = client.cm().create_id(space, type, nullptr);
    EXPECT_EQ(client.cm().resolve_addr(*id, nullptr, to, milliseconds(2000), network.now()), 0);
    EXPECT_EQ(next(client), "addr-resolved");
    EXPECT_EQ(client.cm().resolve_route(*id, milliseconds(2000), network.now()), 0);
    EXPECT_EQ(next(client), "route-resolved");
    return id;
  }

  static ConnParam parameters(uint32_t qpn, const std::string& private_data = "") {
    ConnParam param;
    param.qpn = qpn;
    param.responder_resources = 3;
    param.initiator_depth = 5;
    param.retry_count = 6;
    param.rnr_retry_count = 7;
    param.private_data =
        PrivateData({reinterpret_cast<const uint8_t*>(private_data.data()), private_data.size()});  // NOLINT
    return param;
  }

  void pass(Duration duration = milliseconds(1)) { network.run_for(duration); }

  /// The name of the next event, which is then in `event`; "" when there is none.
  std::string next(Host& host) {
    const auto got = host.next_event();
    if (!got) return "";
    event = *got;
    return text_of(event.type);
  }

  struct Ends {
    Id* active = nullptr;
    Id* passive = nullptr;
  };
  /// An established connection of the queue pairs 0x111 and 0x222.
  Ends connected(SocketAddress to = v4("10.0.0.2", kPort)) {
    Ends ends;
    ends.active = resolved(to);
    EXPECT_EQ(client.cm().connect(*ends.active, parameters(0x111), {}, network.now()), 0);
    pass();
    EXPECT_EQ(next(server), "request");
    ends.passive = event.id;
    EXPECT_EQ(server.cm().accept(*ends.passive, &accepted_, {}, network.now()), 0);
    pass();
    EXPECT_EQ(next(client), "response");
    EXPECT_EQ(client.cm().accept(*ends.active, nullptr, {}, network.now()), 0);
    pass();
    EXPECT_EQ(next(server), "established");
    return ends;
  }

  Event event;

 private:
  ConnParam accepted_ = parameters(0x222);
};

}  // namespace uroce::cm::test
