// A pair of hosts whose datagrams are kept and lost by kind, and the times of the protocol.
#pragma once

#include <vector>

#include "pair.h"

namespace uroce::cm::test {

// 4.096 us * 2^20 for the peer, and twice 4.096 us * 2^16 for the way.
inline constexpr Duration kReqTimeout = nanoseconds(4'294'967'296 + 2 * 268'435'456);
inline constexpr Duration kRepTimeout = nanoseconds(4'294'967'296);

class ProtocolTest : public Pair {
 protected:
  void SetUp() override { network.keep_sent = true; }

  Id* connecting(uint32_t qpn = 0x111) {
    Id* id = resolved();
    EXPECT_EQ(client.cm().connect(*id, parameters(qpn), {}, network.now()), 0);
    return id;
  }
  Id* requested() {
    pass();
    EXPECT_EQ(next(server), "request");
    return event.id;
  }
  void accept(Id* passive, uint32_t qpn = 0x222) {
    const ConnParam param = parameters(qpn);
    ASSERT_EQ(server.cm().accept(*passive, &param, {}, network.now()), 0);
  }
  void lose(Attribute victim) {
    network.passes = [victim](const Flying& flying) {
      MadHeader header;
      return decode(flying.mad, header) != HeaderFault::kNone || header.attribute != victim;
    };
  }
  std::vector<Attribute> sent() {
    const auto attributes = attributes_of(network.sent);
    network.sent.clear();
    return attributes;
  }
  /// The last datagram of this kind.
  Flying last(Attribute wanted) {
    for (size_t i = network.sent.size(); i-- > 0;) {
      MadHeader header;
      if (decode(network.sent[i].mad, header) == HeaderFault::kNone && header.attribute == wanted)
        return network.sent[i];
    }
    ADD_FAILURE() << "never sent";
    return {};
  }
};

}  // namespace uroce::cm::test
