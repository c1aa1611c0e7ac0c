// Which addresses a host has, as the machine's come and go.
#include "segment/host_identity.h"

#include <gtest/gtest.h>

#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

class HostAddressesTest : public testing::Test {
 protected:
  HostAddressesTest() { EXPECT_TRUE(directory_.open(dir_.path(), error_)) << error_; }
  std::vector<LocalAddress> choose(const std::vector<LocalAddress>& of_machine) {
    directory_.scan();
    return choose_addresses(directory_, "a", of_machine);
  }
  static LocalAddress address(const std::string& text) { return *parse_local_address(text); }

  const TempDir dir_;
  std::string error_;
  Directory directory_;
};

TEST_F(HostAddressesTest, AreTheMachinesButThoseOfAnotherHost) {
  const Node other(dir_, record_of("b", 2));
  const std::vector<LocalAddress> two{address("10.0.0.1/24"), address("10.0.0.2/24")};
  EXPECT_EQ(choose(two), std::vector{two[0]});
}

TEST_F(HostAddressesTest, AreAPrivateOneWhereThereAreNoneAndStayReachableThere) {
  const std::vector<LocalAddress> none = choose({});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_TRUE(is_leased(none[0]));
  MemberRecord early = record_of("a", 1);
  early.addresses = none;
  const Node before_the_network(dir_, early);
  EXPECT_EQ(choose({}), none);
  // A later member has the machine's address and that one, so that each of the two finds the other at any of its
  // addresses.
  const LocalAddress real = address("10.0.0.1/24");
  EXPECT_EQ(choose({real}), (std::vector{real, none[0]}));
  EXPECT_EQ(choose({none[0], real}), (std::vector{none[0], real})) << "each once";
}

TEST_F(HostAddressesTest, AreNoMoreThanACardHas) {
  std::vector<LocalAddress> many;
  for (unsigned i = 0; i < 600; i++) many.push_back({IpAddress::v4(0x0a000000 + i), 24, 0});
  EXPECT_EQ(choose(many), std::vector(many.begin(), many.begin() + kAddressesMax));
  MemberRecord early = record_of("a", 1);
  early.addresses = {address("198.19.7.7/16")};
  const Node before_the_network(dir_, early);
  const auto chosen = choose(many);
  ASSERT_EQ(chosen.size(), kAddressesMax);
  EXPECT_EQ(chosen.back(), early.addresses[0]);
}

}  // namespace
}  // namespace uroce::segment
