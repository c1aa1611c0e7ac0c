// How messages of a capture are sorted into exchanges.
#include <gtest/gtest.h>

#include "cm/mad.h"
#include "replay/cm_exchange.h"

namespace uroce::replay {
namespace {

class CmSorterTest : public ::testing::Test {
 protected:
  const IpAddress active_ = IpAddress::v4(0x0a000001);
  const IpAddress passive_ = IpAddress::v4(0x0a000002);

  bool arrives(bool from_active, const cm::MadBytes& bytes) {
    lint::Packet packet;
    packet.frame = ++frame_;
    packet.view.src_ip = from_active ? active_ : passive_;
    packet.view.dst_ip = from_active ? passive_ : active_;
    packet.view.payload = bytes.data();
    packet.view.payload_bytes = cm::kMadBytes;
    return sorter_.add(packet);
  }

  CmSorter sorter_;
  uint64_t frame_ = 0;
};

TEST_F(CmSorterTest, ARepetitionIsWhatTheSameEndSentBefore) {
  ASSERT_TRUE(arrives(true, cm::encode(1, cm::Req{.local_id = 5})));
  const cm::MadBytes ours = cm::encode(1, cm::Dreq{.local_id = 5, .remote_id = 6});
  const cm::MadBytes theirs = cm::encode(1, cm::Dreq{.local_id = 6, .remote_id = 5});
  EXPECT_TRUE(arrives(true, ours));
  EXPECT_TRUE(arrives(false, theirs));
  EXPECT_TRUE(arrives(true, ours));
  EXPECT_TRUE(arrives(true, cm::encode(1, cm::Req{.local_id = 5})));
  const auto exchanges = sorter_.take();
  ASSERT_EQ(exchanges.size(), 1u);
  std::string repeated;
  for (const CmMad& mad : exchanges[0].mads) repeated += mad.repeated ? 'r' : '-';
  EXPECT_EQ(repeated, "---rr");
}

/// Comparing each with each would take 10^10 steps.
TEST_F(CmSorterTest, ALongExchangeCostsNoMoreThanItsLength) {
  constexpr uint32_t kMessages = 150'000;
  ASSERT_TRUE(arrives(true, cm::encode(1, cm::Req{.local_id = 5})));
  for (uint32_t i = 0; i < kMessages; i++) {
    ASSERT_TRUE(arrives(false, cm::encode(1, cm::Dreq{.local_id = 6, .remote_id = 5, .remote_qpn = i})));
  }
  const auto exchanges = sorter_.take();
  ASSERT_EQ(exchanges.size(), 1u);
  EXPECT_EQ(exchanges[0].mads.size(), kMessages + 1);
  EXPECT_FALSE(exchanges[0].mads.back().repeated);
}

}  // namespace
}  // namespace uroce::replay
