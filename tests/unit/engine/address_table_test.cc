// Rows that keep their numbers, and what is asked of them.
#include "engine/address_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::test {
namespace {

const MacAddress kTableMac = *parse_mac("52:54:00:00:00:01");
LocalAddress row(const char* text) { return *parse_local_address(text); }

std::string rows(const AddressTable& table) {
  std::string text;
  for (const LocalAddress& address : table.gids()) text += (address.ip.is_zero() ? "-" : to_string(address.ip)) + " ";
  return text;
}

TEST(AddressTable, RowsAreInOrderAndEachOnce) {
  const AddressTable table(kTableMac, std::vector{row("10.0.0.1/24"), row("fd00::1/64"), row("10.0.0.1/24")});
  EXPECT_EQ(rows(table), "fe80::5054:ff:fe00:1 10.0.0.1 fd00::1 ");
  EXPECT_EQ(table.mac(), kTableMac);
}

TEST(AddressTable, WhatGoesLeavesAHoleAndWhatComesFillsIt) {
  AddressTable table(kTableMac, std::vector{row("10.0.0.1/24"), row("10.0.0.2/24"), row("10.0.0.3/24")});
  EXPECT_TRUE(table.set(std::vector{row("10.0.0.1/24"), row("10.0.0.3/24")}));
  EXPECT_EQ(rows(table), "fe80::5054:ff:fe00:1 10.0.0.1 - 10.0.0.3 ");
  EXPECT_FALSE(table.set(std::vector{row("10.0.0.3/24"), row("10.0.0.1/24")})) << "the order says nothing";
  EXPECT_TRUE(table.set(std::vector{row("10.0.0.4/24"), row("10.0.0.3/24"), row("10.0.0.1/24"), row("10.0.0.5/24")}));
  EXPECT_EQ(rows(table), "fe80::5054:ff:fe00:1 10.0.0.1 10.0.0.4 10.0.0.3 10.0.0.5 ");
}

TEST(AddressTable, PresentAreTheRowsWithoutHoles) {
  AddressTable table(kTableMac, std::vector{row("10.0.0.1/24"), row("10.0.0.2/24")});
  ASSERT_TRUE(table.set(std::vector{row("10.0.0.2/24")}));
  EXPECT_EQ(table.gids().size(), 3u);
  const std::vector<LocalAddress> present = table.present();
  ASSERT_EQ(present.size(), 2u);
  EXPECT_EQ(to_string(present[1].ip), "10.0.0.2");
}

TEST(AddressTable, AHoleIsNoRowAndNoAddressOfOurs) {
  AddressTable table(kTableMac, std::vector{row("10.0.0.1/24"), row("10.0.0.2/24@100")});
  ASSERT_TRUE(table.set(std::vector{row("10.0.0.2/24@100")}));
  EXPECT_EQ(table.row(1), nullptr);
  ASSERT_NE(table.row(2), nullptr);
  EXPECT_EQ(table.row(2)->vlan_id, 100);
  EXPECT_EQ(table.row(3), nullptr);
  EXPECT_FALSE(table.is_own(IpAddress{}, 0));
  EXPECT_FALSE(table.is_own(*parse_ip("10.0.0.1"), 0));
  EXPECT_TRUE(table.is_own(*parse_ip("10.0.0.2"), 100));
  EXPECT_FALSE(table.is_own(*parse_ip("10.0.0.2"), 0)) << "another VLAN is another network";
}

TEST(AddressTable, TheLidIsTheLowHalfOfTheFirstIpv4Address) {
  AddressTable table(kTableMac, std::vector{row("fd00::1/64"), row("10.1.2.3/16"), row("10.0.0.9/24")});
  EXPECT_EQ(table.lid(), 0x0203);
  EXPECT_EQ(to_string(table.first_v4()->ip), "10.1.2.3");
  ASSERT_TRUE(table.set({}));
  EXPECT_EQ(table.lid(), 0);
  EXPECT_EQ(table.first_v4(), nullptr);
}

TEST(AddressTable, WhatDoesNotFitIsLeftOut) {
  AddressTable table(kTableMac, {});
  std::vector<LocalAddress> many;
  for (uint32_t i = 0; i < 2 * AddressTable::kGidsMax; i++) many.push_back({IpAddress::v4(0x0A010000 + i), 16, 0});
  EXPECT_TRUE(table.set(many));
  EXPECT_EQ(table.gids().size(), AddressTable::kGidsMax);
  EXPECT_FALSE(table.set(many));
}

}  // namespace
}  // namespace uroce::test
