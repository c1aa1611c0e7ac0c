// What we say to neighbours, as they read it.
#include "engine/neighbour_frames.h"
#include "transport/counters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::test {
namespace {

const MacAddress kSpeaker = *parse_mac("52:54:00:00:00:01");
const MacAddress kListener = *parse_mac("52:54:00:00:00:02");
const LocalAddress kOwnV4 = *parse_local_address("10.0.0.1/24");
const LocalAddress kOwnV6 = *parse_local_address("fd00::1/64@100");

class NeighbourFramesTest : public testing::Test {
 protected:
  std::span<uint8_t> out() { return bytes_; }
  /// A frame of `bytes` bytes, in words.
  std::string said(uint32_t bytes) {
    const auto link = decode_link({bytes_.data(), bytes});
    if (!link) return "nothing";
    std::string text = "to " + to_string(link->dst_mac) + (link->vlan_id != 0 ? " on a VLAN: " : ": ");
    if (const auto arp = decode_arp(*link)) {
      return text + (arp->operation == Arp::kRequest ? "who has " : "to ") + to_string(arp->target_ip) + " at " +
             to_string(arp->target_mac) + ", I am " + to_string(arp->sender_ip);
    }
    const auto icmp = decode_icmp(*link);
    const auto message = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
    if (!message) return text + "?";
    return text + to_string(message->src_ip) + " to " + to_string(message->dst_ip) +
           (message->advertisement ? (message->solicited ? " answers " : " announces ") : " asks for ") +
           to_string(message->target) + (message->link_layer == kSpeaker ? " with our MAC" : "");
  }

  Counters counters_;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(200);
  NeighbourFrames frames_{kSpeaker, counters_};
};

TEST_F(NeighbourFramesTest, Announcements) {
  EXPECT_EQ(said(frames_.write_announcement(out(), kOwnV4)),
            "to ff:ff:ff:ff:ff:ff: who has 10.0.0.1 at 00:00:00:00:00:00, I am 10.0.0.1");
  EXPECT_EQ(said(frames_.write_announcement(out(), kOwnV6)),
            "to 33:33:00:00:00:01 on a VLAN: fd00::1 to ff02::1 announces fd00::1 with our MAC");
  EXPECT_EQ(counters_.arp_tx, 1u);
  EXPECT_EQ(counters_.nd_tx, 1u);
}

TEST_F(NeighbourFramesTest, QuestionsToEverybody) {
  EXPECT_EQ(said(frames_.write_question(out(), {*parse_ip("10.0.0.2"), 0, kOwnV4, std::nullopt})),
            "to ff:ff:ff:ff:ff:ff: who has 10.0.0.2 at 00:00:00:00:00:00, I am 10.0.0.1");
  EXPECT_EQ(said(frames_.write_question(out(), {*parse_ip("fd00::12:3456"), 100, kOwnV6, std::nullopt})),
            "to 33:33:ff:12:34:56 on a VLAN: fd00::1 to ff02::1:ff12:3456 asks for fd00::12:3456 with our MAC");
}

TEST_F(NeighbourFramesTest, QuestionsToTheHolder) {
  EXPECT_EQ(said(frames_.write_question(out(), {*parse_ip("10.0.0.2"), 0, kOwnV4, kListener})),
            "to 52:54:00:00:00:02: who has 10.0.0.2 at 52:54:00:00:00:02, I am 10.0.0.1");
  EXPECT_EQ(said(frames_.write_question(out(), {*parse_ip("fd00::2"), 100, kOwnV6, kListener})),
            "to 52:54:00:00:00:02 on a VLAN: fd00::1 to fd00::2 asks for fd00::2 with our MAC");
}

TEST_F(NeighbourFramesTest, Replies) {
  const Arp request{Arp::kRequest, kListener, *parse_ip("10.0.0.2"), {}, kOwnV4.ip};
  EXPECT_EQ(said(frames_.write_reply(out(), request, kOwnV4)),
            "to 52:54:00:00:00:02: to 10.0.0.2 at 52:54:00:00:00:02, I am 10.0.0.1");
  LinkFrame link;
  link.src_mac = kListener;
  NeighbourMessage solicitation;
  solicitation.src_ip = *parse_ip("fd00::2");
  EXPECT_EQ(said(frames_.write_reply(out(), link, solicitation, kOwnV6)),
            "to 52:54:00:00:00:02 on a VLAN: fd00::1 to fd00::2 answers fd00::1 with our MAC");
  solicitation.src_ip = IpAddress{};
  EXPECT_EQ(said(frames_.write_reply(out(), link, solicitation, kOwnV6)),
            "to 33:33:00:00:00:01 on a VLAN: fd00::1 to ff02::1 announces fd00::1 with our MAC")
      << "whoever checks whether an address is free has none";
}

TEST_F(NeighbourFramesTest, WhatDoesNotFitIsNotWritten) {
  EXPECT_EQ(frames_.write_announcement(out().first(20), kOwnV4), 0u);
  EXPECT_EQ(frames_.write_announcement(out().first(20), kOwnV6), 0u);
}

}  // namespace
}  // namespace uroce::test
