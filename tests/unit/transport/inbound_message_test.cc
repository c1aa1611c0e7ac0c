// Which packet may come next, with how many bytes: every operation, in the middle of every message.
#include "transport/inbound_message.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "uroce/types.h"

namespace uroce::test {
namespace {

class InboundMessageTest : public testing::Test {
 protected:
  static constexpr uint32_t kMtu = 256;

  static const OpcodeInfo& info(uint8_t low) { return opcode_info(make_opcode(Service::kRc, low)); }
  /// Padded as its length requires.
  static PacketView packet_of(uint8_t low, uint32_t bytes) {
    PacketView packet;
    packet.info = &info(low);
    packet.payload_bytes = bytes;
    packet.bth.pad_count = static_cast<uint8_t>(-bytes & 3u);
    return packet;
  }
  static bool fits(uint8_t low, uint32_t bytes) { return InboundMessage::length_fits(packet_of(low, bytes), kMtu); }
  /// Whether a WRITE that announces `announced` bytes may have this packet.
  static bool write_fits(uint8_t low, uint32_t announced, uint32_t bytes) {
    std::array<uint8_t, Reth::kBytes> ext;
    Reth{0, 0, announced}.encode(ext.data());
    PacketView packet = packet_of(low, bytes);
    packet.ext = ext.data();
    return InboundMessage::write_length_fits(packet, kMtu);
  }
  /// Accepts a message, packet by packet.
  void accept(std::initializer_list<uint8_t> packets) {
    for (const uint8_t low : packets) message_.on_accepted(info(low));
  }
  bool goes_on(uint8_t low, uint32_t bytes) const { return message_.write_goes_on(packet_of(low, bytes)); }

  InboundMessage message_;
};

constexpr uint8_t kFirstsAndOnlys[] = {kOpSendFirst, kOpSendOnly,    kOpSendOnlyImm, kOpWriteFirst,
                                       kOpWriteOnly, kOpReadRequest, kOpCompareSwap, kOpFetchAdd};
constexpr uint8_t kSendRests[] = {kOpSendMiddle, kOpSendLast, kOpSendLastImm};
constexpr uint8_t kWriteRests[] = {kOpWriteMiddle, kOpWriteLast, kOpWriteLastImm};

TEST_F(InboundMessageTest, BetweenMessagesOneHasToBegin) {
  const std::initializer_list<uint8_t> messages[] = {{kOpSendOnly},
                                                     {kOpWriteOnly},
                                                     {kOpReadRequest},
                                                     {kOpFetchAdd},
                                                     {kOpSendFirst, kOpSendLast},
                                                     {kOpWriteFirst, kOpWriteMiddle, kOpWriteLastImm},
                                                     {}};
  for (const auto& message : messages) {
    for (const uint8_t first : kFirstsAndOnlys) EXPECT_TRUE(message_.takes(info(first))) << int{first};
    for (const uint8_t rest : kSendRests) EXPECT_FALSE(message_.takes(info(rest))) << int{rest};
    for (const uint8_t rest : kWriteRests) EXPECT_FALSE(message_.takes(info(rest))) << int{rest};
    accept(message);
  }
}

TEST_F(InboundMessageTest, InAMessageOnlyItsOwnRestGoesOn) {
  const std::initializer_list<uint8_t> begun[] = {
      {kOpSendFirst}, {kOpSendFirst, kOpSendMiddle}, {kOpWriteFirst}, {kOpWriteFirst, kOpWriteMiddle}};
  for (const auto& packets : begun) {
    message_.abandon();
    accept(packets);
    const bool send = *packets.begin() == kOpSendFirst;
    for (const uint8_t first : kFirstsAndOnlys) EXPECT_FALSE(message_.takes(info(first))) << int{first};
    for (const uint8_t rest : kSendRests) EXPECT_EQ(message_.takes(info(rest)), send) << int{rest};
    for (const uint8_t rest : kWriteRests) EXPECT_EQ(message_.takes(info(rest)), !send) << int{rest};
  }
  message_.abandon();
  EXPECT_TRUE(message_.takes(info(kOpSendFirst)));
  EXPECT_FALSE(message_.takes(info(kOpWriteMiddle)));
}

TEST_F(InboundMessageTest, FirstAndMiddleAreFull) {
  for (const uint8_t low : {kOpSendFirst, kOpSendMiddle, kOpWriteFirst, kOpWriteMiddle}) {
    EXPECT_TRUE(fits(low, kMtu));
    for (const uint32_t bytes : {0u, 1u, kMtu - 1, kMtu + 1, 2 * kMtu}) EXPECT_FALSE(fits(low, bytes)) << bytes;
  }
}

TEST_F(InboundMessageTest, LastIsNotEmptyAndOnlyMayBe) {
  for (const uint8_t low : {kOpSendLast, kOpSendLastImm, kOpWriteLast, kOpWriteLastImm}) {
    EXPECT_FALSE(fits(low, 0));
    for (const uint32_t bytes : {1u, kMtu - 1, kMtu}) EXPECT_TRUE(fits(low, bytes)) << bytes;
    EXPECT_FALSE(fits(low, kMtu + 1));
  }
  for (const uint8_t low : {kOpSendOnly, kOpSendOnlyImm, kOpWriteOnly, kOpWriteOnlyImm}) {
    for (const uint32_t bytes : {0u, 1u, kMtu}) EXPECT_TRUE(fits(low, bytes)) << bytes;
    EXPECT_FALSE(fits(low, kMtu + 1));
  }
  for (const uint8_t low : {kOpReadRequest, kOpFetchAdd}) EXPECT_TRUE(fits(low, 0));
}

TEST_F(InboundMessageTest, PaddingIsWhatTheLengthAsksFor) {
  for (uint32_t bytes = 1; bytes <= 8; bytes++) {
    for (uint8_t pad = 0; pad < 4; pad++) {
      PacketView packet = packet_of(kOpSendOnly, bytes);
      packet.bth.pad_count = pad;
      EXPECT_EQ(InboundMessage::length_fits(packet, kMtu), (bytes + pad) % 4 == 0) << bytes << "+" << int{pad};
    }
  }
}

TEST_F(InboundMessageTest, AWriteAnnouncesWhatItBegins) {
  EXPECT_TRUE(write_fits(kOpWriteOnly, 0, 0));
  EXPECT_TRUE(write_fits(kOpWriteOnly, 100, 100));
  EXPECT_FALSE(write_fits(kOpWriteOnly, 101, 100));
  EXPECT_FALSE(write_fits(kOpWriteOnly, 99, 100));
  EXPECT_TRUE(write_fits(kOpWriteFirst, kMtu + 1, kMtu));
  EXPECT_FALSE(write_fits(kOpWriteFirst, kMtu, kMtu));
  EXPECT_TRUE(write_fits(kOpWriteFirst, kMaxMessageBytes, kMtu));
  EXPECT_FALSE(write_fits(kOpWriteFirst, kMaxMessageBytes + 1, kMtu));
}

TEST_F(InboundMessageTest, AWriteComesToItsLength) {
  message_.begin_write({0x1000, 7, 2 * kMtu + 10});
  EXPECT_EQ(message_.write_va(), 0x1000u);
  EXPECT_EQ(message_.write_rkey(), 7u);
  EXPECT_TRUE(goes_on(kOpWriteFirst, kMtu));
  message_.on_written(kMtu);
  EXPECT_EQ(message_.write_va(), 0x1000u + kMtu);
  EXPECT_TRUE(goes_on(kOpWriteMiddle, kMtu));
  EXPECT_FALSE(goes_on(kOpWriteLast, kMtu)) << "ends early";
  EXPECT_TRUE(goes_on(kOpWriteLast, kMtu + 10)) << "its own length is checked elsewhere";
  message_.on_written(kMtu);
  EXPECT_FALSE(goes_on(kOpWriteMiddle, kMtu));
  EXPECT_FALSE(goes_on(kOpWriteMiddle, 10)) << "has to be the last one";
  EXPECT_FALSE(goes_on(kOpWriteLast, 9));
  EXPECT_TRUE(goes_on(kOpWriteLast, 10));
  EXPECT_FALSE(goes_on(kOpWriteLast, 11));
  message_.on_written(10);
  EXPECT_EQ(message_.write_length(), 2 * kMtu + 10) << "of all of it";
}

}  // namespace
}  // namespace uroce::test
