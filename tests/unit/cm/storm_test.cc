// Many connections at once over a wire that loses, repeats and reorders. Whatever happens on it, both sides agree in
// the end, and nothing is left over.

#include <gtest/gtest.h>

#include <cstdlib>

#include "program.h"

namespace uroce::cm::test {
namespace {

constexpr uint16_t kPort = 4711;

uint64_t seed_of_run() {
  const char* text = std::getenv("UROCE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20261125;
}

class StormTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed_of_run()));  // NOLINT
    second_program.next_qpn = 0x100000;
  }

  Network network{seed_of_run()};
  Host& first = network.add_host("first", {"10.0.0.1/24"});
  Host& second = network.add_host("second", {"10.0.0.2/24"});
  Program first_program{network, first};
  Program second_program{network, second};

  void run_programs() {
    first_program.run();
    second_program.run();
  }
  bool settle(Duration limit) {
    return network.run_until_quiet(limit, [&] { run_programs(); });
  }
  void worsen(unsigned lost, unsigned repeated, unsigned delayed) {
    network.lost = lost;
    network.repeated = repeated;
    network.delayed = delayed;
  }

  void expect_nothing_left() {
    EXPECT_TRUE(first_program.established.empty());
    EXPECT_TRUE(second_program.established.empty());
    EXPECT_EQ(first.cm().connection_count(), 0u);
    EXPECT_EQ(second.cm().connection_count(), 0u);
    first_program.destroy_all();
    second_program.destroy_all();
    EXPECT_TRUE(first.claimed.empty());
    EXPECT_TRUE(second.claimed.empty());
  }
};

TEST_F(StormTest, TenThousandConnectionsAtOnce) {
  second_program.listen(kPort);
  worsen(10, 10, 10);
  for (int i = 0; i < 10'000; i++) first_program.connect_to(v4("10.0.0.2", kPort));
  ASSERT_TRUE(settle(milliseconds(600'000)));
  EXPECT_EQ(first_program.established.size(), 10'000u);
  EXPECT_EQ(second_program.established.size(), 10'000u);
  EXPECT_EQ(first.cm().connection_count(), 10'000u);

  first_program.disconnect_all();
  ASSERT_TRUE(settle(milliseconds(600'000)));
  EXPECT_EQ(first_program.ended, 10'000u);
  EXPECT_EQ(second_program.ended, 10'000u);
  expect_nothing_left();
}

/// Connections come and go in both directions, some before they are established.
TEST_F(StormTest, NothingIsHalfOpenAfterAStorm) {
  first_program.listen(kPort);
  second_program.listen(kPort);
  worsen(50, 100, 200);
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < 5; i++) {
      first_program.connect_to(v4("10.0.0.2", kPort));
      second_program.connect_to(v4("10.0.0.1", kPort));
    }
    network.run_for(microseconds(network.random().below(3'000'000)), [&] { run_programs(); });
    if (round % 10 == 3) first_program.disconnect_all();
    if (round % 10 == 7) second_program.disconnect_all();
    if (round % 50 == 49) {  // a program ends with all its connections, whatever their state
      first_program.destroy_all();
      first_program.listen(kPort);
    }
  }
  ASSERT_TRUE(settle(milliseconds(600'000)));
  EXPECT_GT(first_program.ever_established, 500u);
  EXPECT_EQ(first_program.established.size(), second_program.established.size());
  first_program.disconnect_all();
  ASSERT_TRUE(settle(milliseconds(600'000)));
  second_program.disconnect_all();
  ASSERT_TRUE(settle(milliseconds(600'000)));
  expect_nothing_left();
}

TEST_F(StormTest, BothSidesConnectAtOnce) {
  first_program.listen(kPort);
  second_program.listen(kPort);
  for (int i = 0; i < 100; i++) {
    first_program.connect_to(v4("10.0.0.2", kPort));
    second_program.connect_to(v4("10.0.0.1", kPort));
  }
  ASSERT_TRUE(settle(milliseconds(60'000)));
  EXPECT_EQ(first_program.established.size(), 200u);
  EXPECT_EQ(second_program.established.size(), 200u);
  first_program.disconnect_all();
  second_program.disconnect_all();  // both hang up at once, too
  ASSERT_TRUE(settle(milliseconds(60'000)));
  expect_nothing_left();
}

/// Each of the five datagrams in a connection's life is lost once, and each comes twice.
TEST_F(StormTest, EveryMessageIsLostOnceAndRepeatedOnce) {
  second_program.listen(kPort);
  for (const Attribute victim :
       {Attribute::kReq, Attribute::kRep, Attribute::kRtu, Attribute::kDreq, Attribute::kDrep}) {
    for (const bool repeat : {false, true}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(victim) << (repeat ? " repeated" : " lost"));
      unsigned met = 0;
      network.passes = [&](const Flying& flying) {
        MadHeader header;
        if (decode(flying.mad, header) != HeaderFault::kNone || header.attribute != victim || met++ != 0) return true;
        if (repeat) network.send(flying);
        return repeat;
      };
      const unsigned before = second_program.ever_established;
      first_program.connect_to(v4("10.0.0.2", kPort));
      ASSERT_TRUE(settle(milliseconds(60'000)));
      EXPECT_EQ(second_program.ever_established, before + 1);
      EXPECT_EQ(first_program.established.size(), 1u);
      first_program.disconnect_all();
      ASSERT_TRUE(settle(milliseconds(60'000)));
      EXPECT_GE(met, 2u);
      EXPECT_EQ(first.cm().connection_count(), 0u);
      EXPECT_EQ(second.cm().connection_count(), 0u);
    }
  }
  expect_nothing_left();
}

}  // namespace
}  // namespace uroce::cm::test
