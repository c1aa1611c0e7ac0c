// A hop is asked for once for each destination and epoch.
#include "transport/peer_link.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

/// A hop encodes what it was looked up for.
struct Asked final : NextHops {
  NextHop find(const MacAddress& dst, uint32_t dest_qpn) override {
    asked++;
    return {reinterpret_cast<void*>(uintptr_t{dest_qpn} << 8 | dst.bytes[5]), now};
  }
  bool congested(const NextHop&) override { return false; }
  const uint64_t& epoch() const override { return now; }

  uint32_t asked = 0;
  uint64_t now = 1;
};

void* place(uint32_t qpn, uint8_t mac) { return reinterpret_cast<void*>(uintptr_t{qpn} << 8 | mac); }

TEST(PeerLink, IsAskedForOncePerDestinationAndEpoch) {
  Asked hops;
  PeerLink link;
  const MacAddress one{{2, 0, 0, 0, 0, 1}}, other{{2, 0, 0, 0, 0, 2}};
  link.lead_to(one, 7);
  for (int i = 0; i < 3; i++) {
    link.lead_to(one, 7);
    EXPECT_EQ(link.hop(hops, 1).place, place(7, 1));
  }
  EXPECT_EQ(hops.asked, 1u);
  link.lead_to(other, 7);
  EXPECT_EQ(link.hop(hops, 1).place, place(7, 2));
  link.lead_to(other, 8);
  EXPECT_EQ(link.hop(hops, 1).place, place(8, 2));
  EXPECT_EQ(hops.asked, 3u);
  link.lead_to(one, 8);
  link.lead_to(other, 8);
  EXPECT_EQ(link.hop(hops, 1).place, place(8, 2)) << "it had led elsewhere in between";
  EXPECT_EQ(hops.asked, 4u);
  hops.now = 2;
  EXPECT_EQ(link.hop(hops, 2).epoch, 2u);
  EXPECT_EQ(link.hop(hops, 2).epoch, 2u);
  EXPECT_EQ(hops.asked, 5u);
  EXPECT_EQ(link.mac(), other);
  EXPECT_EQ(link.qpn(), 8u);
}

TEST(PeerLink, ThatLeadsNowhereYetIsAskedForToo) {
  Asked hops;
  PeerLink link;
  EXPECT_TRUE(link.mac().is_zero());
  EXPECT_EQ(link.hop(hops, 1).place, nullptr);
  EXPECT_EQ(hops.asked, 1u);
}

}  // namespace
}  // namespace uroce::test
