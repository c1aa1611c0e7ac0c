// ARP and neighbour discovery that never leave the port.
#include "pmd/udp/neighbour_answers.h"

#include <gtest/gtest.h>

#include <vector>

#include "packet/host_frames.h"
#include "pmd/udp/datagram.h"

namespace uroce::udp {
namespace {

using Bytes = std::vector<uint8_t>;

const MacAddress kAsker = *parse_mac("02:00:00:00:00:01");
const IpAddress kAskerIp = *parse_ip("10.77.0.1");
const IpAddress kWanted = *parse_ip("10.77.0.2");

// Who has 10.77.0.2? Tell 10.77.0.1.
const Bytes kQuestion = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0,  0,  0, 0, 1, 8, 6, 0, 1, 8, 0,  6,  4, 0,
                         1,    2,    0,    0,    0,    0,    1, 10, 77, 0, 1, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2};

TEST(UdpNeighbours, AnArpQuestionHasItsAnswer) {
  const auto heard = read_neighbour_frame(kQuestion);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->sender, kAskerIp);
  EXPECT_EQ(heard->wanted, kWanted);
  Bytes out(kAnswerBytes);
  const uint32_t bytes = write_neighbour_answer(out, kQuestion, kWanted);
  ASSERT_GE(bytes, 42u);
  const Bytes answer = {2, 0,    0, 0,  0,  1, 0x5e, 4,  10, 77, 0, 2, 8, 6, 0, 1, 8, 0,  6,  4, 0,
                        2, 0x5e, 4, 10, 77, 0, 2,    10, 77, 0,  2, 2, 0, 0, 0, 0, 1, 10, 77, 0, 1};
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 42), answer);
  EXPECT_EQ(write_neighbour_answer(out, kQuestion, kAskerIp), 0u) << "nobody asked for that one";
}

TEST(UdpNeighbours, AnAnnouncementAsksNothing) {
  Bytes announcement = kQuestion;
  announcement[41] = 1;
  const auto heard = read_neighbour_frame(announcement);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->sender, kAskerIp);
  EXPECT_FALSE(heard->wanted);
}

TEST(UdpNeighbours, ASolicitationHasItsAnswer) {
  const IpAddress src = *parse_ip("fd77::1");
  const IpAddress dst = *parse_ip("fd77::2");
  NeighbourMessage question;
  question.src_ip = src;
  question.dst_ip = solicited_node_multicast(dst);
  question.target = dst;
  question.link_layer = kAsker;
  Bytes frame(128);
  frame.resize(encode_neighbour_message(frame, {multicast_mac(question.dst_ip), kAsker, 0}, question));
  const auto heard = read_neighbour_frame(frame);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->sender, src);
  EXPECT_EQ(heard->wanted, dst);
  Bytes out(kAnswerBytes);
  const uint32_t bytes = write_neighbour_answer(out, frame, dst);
  ASSERT_NE(bytes, 0u);
  const auto link = decode_link({out.data(), bytes});
  ASSERT_TRUE(link);
  const auto icmp = decode_icmp(*link);
  ASSERT_TRUE(icmp);
  const auto answer = decode_neighbour_message(*icmp);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->advertisement);
  EXPECT_TRUE(answer->solicited);
  EXPECT_EQ(answer->target, dst);
  EXPECT_EQ(answer->link_layer, mac_of(dst));
  EXPECT_EQ(link->dst_mac, kAsker);
}

TEST(UdpNeighbours, AnAdvertisementTellsAnAddress) {
  NeighbourMessage message;
  message.advertisement = message.override_cache = true;
  message.src_ip = message.target = *parse_ip("fd77::1");
  message.dst_ip = all_nodes_multicast();
  message.link_layer = kAsker;
  Bytes frame(128);
  frame.resize(encode_neighbour_message(frame, {multicast_mac(message.dst_ip), kAsker, 0}, message));
  const auto heard = read_neighbour_frame(frame);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->sender, message.target);
  EXPECT_FALSE(heard->wanted);
}

TEST(UdpNeighbours, OtherFramesAreNone) {
  EXPECT_FALSE(read_neighbour_frame({}));
  EXPECT_FALSE(read_neighbour_frame(Bytes(60)));
  Bytes pause(60);
  pause[12] = 0x88;
  pause[13] = 0x08;
  EXPECT_FALSE(read_neighbour_frame(pause));
}

}  // namespace
}  // namespace uroce::udp
