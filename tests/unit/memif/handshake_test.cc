#include "memif/handshake.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "support.h"

namespace uroce::memif {
namespace {

using namespace test;
using Step = Handshake::Step;

constexpr uint64_t kRegion = 1 << 20;

class HandshakeTest : public testing::Test {
 protected:
  Step say(const std::vector<uint8_t>& bytes, unsigned descriptors = 0) {
    outcome_ = handshake_.on_message(bytes, descriptors);
    return outcome_.step;
  }
  void set_up(uint32_t to_server = 0, uint32_t to_client = 4096, unsigned log2 = 3) {
    ASSERT_EQ(say(init()), Step::kAnswer);
    ASSERT_EQ(say(add_region(0, kRegion), 1), Step::kMapRegion);
    ASSERT_EQ(say(add_ring(true, to_server, log2), 1), Step::kAnswer);
    ASSERT_EQ(say(add_ring(false, to_client, log2), 1), Step::kAnswer);
  }
  Handshake handshake_{"port 7"};
  Handshake::Outcome outcome_;
};

TEST_F(HandshakeTest, HelloIsWhatClientsExpect) {
  const MessageBytes hello = handshake_.hello();
  EXPECT_EQ(hello[0], 2);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&hello[2])), "uroce");
  const std::vector<uint8_t> behind(hello.begin() + 34, hello.begin() + 45);
  // Lowest and highest version, highest region, highest ring each way, log2 of the most slots.
  EXPECT_EQ(behind, (std::vector<uint8_t>{0x00, 0x02, 0x00, 0x02, 3, 0, 0, 0, 0, 0, 8}));
}

TEST_F(HandshakeTest, AllOfItInOrder) {
  ASSERT_NO_FATAL_FAILURE(set_up(0, 4096, 3));
  EXPECT_EQ(outcome_.reply[0], 1) << "an ACK";
  EXPECT_FALSE(handshake_.connected());
  ASSERT_EQ(say(connect()), Step::kConnect);
  EXPECT_EQ(outcome_.reply[0], 7) << "CONNECTED";
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&outcome_.reply[2])), "port 7");
  EXPECT_TRUE(handshake_.connected());
  EXPECT_EQ(handshake_.ring_to_server().offset, 0u);
  EXPECT_EQ(handshake_.ring_to_client().offset, 4096u);
  EXPECT_EQ(handshake_.ring_to_client().log2_slots, 3);
  EXPECT_EQ(say(disconnect()), Step::kLeave);
}

TEST_F(HandshakeTest, ARegionIsMappedAsLongAsItIsSaid) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  ASSERT_EQ(say(add_region(0, 0x123456), 1), Step::kMapRegion);
  EXPECT_EQ(outcome_.bytes, 0x123456u);
}

TEST_F(HandshakeTest, ARefusalSaysWhy) {
  ASSERT_EQ(say(message({3, 0, 0x00, 0x03})), Step::kRefuse);
  EXPECT_EQ(outcome_.reply[0], 8);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&outcome_.reply[6])), "incompatible memif version");
  EXPECT_EQ(outcome_.why, "incompatible memif version");
}

TEST_F(HandshakeTest, WhatMayNotComeFirst) {
  for (const auto& bytes : {message({0, 0}), message({1, 0}), message({2, 0}), connect(), message({7, 0}),
                            message({9, 0}), message({0xff, 0xff})}) {
    EXPECT_EQ(say(bytes), Step::kRefuse) << unsigned{bytes[0]};
  }
  EXPECT_EQ(say(add_region(0, kRegion), 1), Step::kRefuse);
  EXPECT_EQ(say(add_ring(true, 0, 3), 1), Step::kRefuse);
}

TEST_F(HandshakeTest, WhatMayNotComeLater) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  for (const auto& bytes : {init(), message({1, 0}), message({2, 0}), message({7, 0})}) {
    EXPECT_EQ(say(bytes), Step::kRefuse) << unsigned{bytes[0]};
  }
}

TEST_F(HandshakeTest, ConnectedClientsSayGoodbyeAndNothingElse) {
  ASSERT_NO_FATAL_FAILURE(set_up());
  ASSERT_EQ(say(connect()), Step::kConnect);
  for (const auto& bytes : {init(), connect(), message({1, 0})}) EXPECT_EQ(say(bytes), Step::kRefuse);
  EXPECT_EQ(say(add_region(1, kRegion), 1), Step::kRefuse);
}

TEST_F(HandshakeTest, InterfaceAndModeOfInit) {
  EXPECT_EQ(say(message({3, 0, 0, 2, 1, 0, 0, 0, 0})), Step::kRefuse) << "interface 1";
  EXPECT_EQ(say(message({3, 0, 0, 2, 0, 0, 0, 0, 1})), Step::kRefuse) << "IP mode";
  EXPECT_EQ(say(message({3, 0, 0, 2, 0, 0, 0, 0, 0})), Step::kAnswer);
}

TEST_F(HandshakeTest, MessagesOfAnotherSize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{129}}) {
    std::vector<uint8_t> bytes = init();
    bytes.resize(size);
    EXPECT_EQ(say(bytes), Step::kRefuse) << size;
  }
}

TEST_F(HandshakeTest, DescriptorsBelongToRegionsAndRings) {
  EXPECT_EQ(say(init(), 1), Step::kRefuse);
  ASSERT_EQ(say(init()), Step::kAnswer);
  for (const unsigned count : {0u, 2u, 9u}) {
    EXPECT_EQ(say(add_region(0, kRegion), count), Step::kRefuse) << count;
    EXPECT_EQ(say(add_ring(true, 0, 3), count), Step::kRefuse) << count;
  }
  EXPECT_EQ(say(connect(), 1), Step::kRefuse);
}

TEST_F(HandshakeTest, RegionsComeInOrderAndAreNotTooMany) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  EXPECT_EQ(say(add_region(1, kRegion), 1), Step::kRefuse);
  EXPECT_EQ(say(add_region(0xffff, kRegion), 1), Step::kRefuse);
  for (unsigned i = 0; i < 4; i++) EXPECT_EQ(say(add_region(i, 4096), 1), Step::kMapRegion) << i;
  EXPECT_EQ(say(add_region(3, 4096), 1), Step::kRefuse) << "twice";
  EXPECT_EQ(say(add_region(4, 4096), 1), Step::kRefuse) << "one too many";
}

TEST_F(HandshakeTest, RegionsAreNotTooLargeTogether) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  for (const uint64_t bytes : {uint64_t{0}, (uint64_t{64} << 20) + 1, UINT64_MAX}) {
    EXPECT_EQ(say(add_region(0, bytes), 1), Step::kRefuse) << bytes;
  }
  ASSERT_EQ(say(add_region(0, uint64_t{60} << 20), 1), Step::kMapRegion);
  EXPECT_EQ(say(add_region(1, (uint64_t{4} << 20) + 1), 1), Step::kRefuse);
  EXPECT_EQ(say(add_region(1, UINT64_MAX), 1), Step::kRefuse);
  EXPECT_EQ(say(add_region(1, uint64_t{4} << 20), 1), Step::kMapRegion);
}

TEST_F(HandshakeTest, OneRingEachWayOfAtMost256Slots) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  for (const unsigned log2 : {9u, 16u, 32u, 255u}) EXPECT_EQ(say(add_ring(true, 0, log2), 1), Step::kRefuse) << log2;
  EXPECT_EQ(say(message({5, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0}), 1), Step::kRefuse) << "index 1";
  EXPECT_EQ(say(message({5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 8, 0}), 1), Step::kRefuse) << "private header";
  EXPECT_EQ(say(add_ring(true, 0, 8), 1), Step::kAnswer);
  EXPECT_EQ(say(add_ring(true, 0, 8), 1), Step::kRefuse) << "twice";
  EXPECT_EQ(say(add_ring(false, 8192, 0), 1), Step::kAnswer) << "a single slot";
}

TEST_F(HandshakeTest, BothRingsAreNeeded) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  ASSERT_EQ(say(add_region(0, kRegion), 1), Step::kMapRegion);
  EXPECT_EQ(say(connect()), Step::kRefuse);
  ASSERT_EQ(say(add_ring(true, 0, 3), 1), Step::kAnswer);
  EXPECT_EQ(say(connect()), Step::kRefuse);
}

/// 2^3 slots take 256 bytes.
TEST_F(HandshakeTest, RingsLieInsideTheirRegion) {
  struct Case {
    uint32_t to_server, to_client;
    bool good;
  };
  for (const Case& c :
       {Case{0, 256, true}, Case{256, 0, true}, Case{0, kRegion - 256, true}, Case{0, kRegion - 240, false},
        Case{kRegion, 0, false}, Case{0, 0xfffffff0, false}, Case{0xffffff00, 0, false}, Case{8, 4096, false},
        Case{0, 0, false}, Case{0, 240, false}, Case{240, 0, false}}) {
    handshake_ = Handshake("port");
    ASSERT_NO_FATAL_FAILURE(set_up(c.to_server, c.to_client, 3));
    EXPECT_EQ(say(connect()), c.good ? Step::kConnect : Step::kRefuse) << c.to_server << ", " << c.to_client;
  }
}

TEST_F(HandshakeTest, RingsLieInARegionThatIsThere) {
  ASSERT_EQ(say(init()), Step::kAnswer);
  ASSERT_EQ(say(add_region(0, kRegion), 1), Step::kMapRegion);
  ASSERT_EQ(say(add_ring(true, 0, 3), 1), Step::kAnswer);
  ASSERT_EQ(say(add_ring(false, 4096, 3, 1), 1), Step::kAnswer);
  EXPECT_EQ(say(connect()), Step::kRefuse);
  ASSERT_EQ(say(add_region(1, 4096 + 256), 1), Step::kMapRegion) << "it may come later";
  EXPECT_EQ(say(connect()), Step::kConnect);
}

/// Any messages, most of them nearly right: who gets through has rings that lie where they can be.
TEST_F(HandshakeTest, AnyMessages) {
  SeededRandom random(3);
  const auto one_of = [&random](std::initializer_list<uint32_t> values) {
    return values.begin()[random.below(static_cast<uint32_t>(values.size()))];
  };
  unsigned connected = 0;
  unsigned refused = 0;
  for (int round = 0; round < 20'000; round++) {
    handshake_ = Handshake("port");
    std::array<uint64_t, kMaxRegions> regions{};
    size_t mapped = 0;
    const auto say_changed = [&](std::vector<uint8_t> bytes, unsigned descriptors) {
      if (random.below(60) == 0) bytes[random.below(20)] ^= static_cast<uint8_t>(1u << random.below(8));
      const Step step = say(bytes, random.below(100) == 0 ? random.below(3) : descriptors);
      if (step == Step::kMapRegion) regions.at(mapped++) = outcome_.bytes;
      if (step == Step::kRefuse) refused++;
      return step;
    };
    say_changed(init(), 0);
    for (uint32_t i = 0; i < 1 + random.below(2); i++) say_changed(add_region(i, one_of({512, 4096, kRegion})), 1);
    for (const bool to_server : {true, false}) {
      say_changed(add_ring(to_server, one_of({0, 128, 256, 4096, 8192}), random.below(10), random.below(2)), 1);
    }
    if (say_changed(connect(), 0) != Step::kConnect) continue;
    connected++;
    for (const RingPlace* ring : {&handshake_.ring_to_server(), &handshake_.ring_to_client()}) {
      ASSERT_LT(ring->region, mapped);
      ASSERT_LE(ring->log2_slots, kMaxLog2Slots);
      ASSERT_LE(ring->offset + 128 + (16u << ring->log2_slots), regions[ring->region]);
    }
  }
  EXPECT_GT(connected, 1000u);
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace uroce::memif
