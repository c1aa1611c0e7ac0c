// Blocks of pcapng as their specification draws them (draft-ietf-opsawg-pcapng), written out.
#include "capture/pcapng_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace uroce::capture {
namespace {

std::vector<uint32_t> words_of(const std::vector<uint8_t>& bytes) {
  EXPECT_EQ(bytes.size() % 4, 0u);
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

/// As written in the file by a little-endian machine.
constexpr uint32_t text(const char (&four)[5]) {
  return static_cast<uint32_t>(four[0]) | static_cast<uint32_t>(four[1]) << 8 | static_cast<uint32_t>(four[2]) << 16 |
         static_cast<uint32_t>(four[3]) << 24;
}
constexpr uint32_t option(uint16_t code, uint16_t bytes) { return uint32_t{bytes} << 16 | code; }

TEST(PcapngBlocks, ASectionAndWhatWroteIt) {
  std::vector<uint8_t> bytes;
  append_section(bytes);
  EXPECT_EQ(words_of(bytes), (std::vector<uint32_t>{0x0A0D0D0A, 44, 0x1A2B3C4D, 1, ~0u, ~0u,  // of unknown length
                                                    option(4, 5), text("uroc"), 'e', 0, 44}));
}

TEST(PcapngBlocks, APacketWithACommentThatWasCut) {
  std::vector<uint8_t> bytes;
  const uint8_t frame[] = {'a', 'b', 'c', 'd', 'e'};
  append_packet(bytes, {.interface = 2,
                        .time = Instant{0x1'0000'0007},
                        .inbound = true,
                        .frame = frame,
                        .original_bytes = 1000,
                        .comment = "whose"});
  EXPECT_EQ(words_of(bytes), (std::vector<uint32_t>{6, 64, 2, 1, 7, 5, 1000, text("abcd"), 'e',  // the frame
                                                    option(2, 4), 1,                             // inbound
                                                    option(1, 5), text("whos"), 'e', 0, 64}));
  EXPECT_EQ(bytes.size(), packet_block_bytes(5, 5));
}

TEST(PcapngBlocks, APacketWithoutAComment) {
  std::vector<uint8_t> bytes;
  const uint8_t frame[] = {'a', 'b', 'c', 'd'};
  append_packet(bytes, {.interface = 0, .time = Instant{9}, .inbound = false, .frame = frame});
  EXPECT_EQ(words_of(bytes), (std::vector<uint32_t>{6, 48, 0, 0, 9, 4, 4, text("abcd"), option(2, 4), 2, 0, 48}));
  EXPECT_EQ(bytes.size(), packet_block_bytes(4));
}

TEST(PcapngBlocks, AnInterfaceWithADescription) {
  std::vector<uint8_t> bytes;
  append_interface(bytes, "ab[1]", "memif");
  EXPECT_EQ(words_of(bytes), (std::vector<uint32_t>{1, 56, 1, 0, option(2, 5), text("ab[1"), ']', option(3, 5),
                                                    text("memi"), 'f', option(9, 1), 9, 0, 56}));
}

TEST(PcapngBlocks, AnInterfaceWithoutADescription) {
  std::vector<uint8_t> bytes;
  append_interface(bytes, "ab[1]", "");
  EXPECT_EQ(words_of(bytes),
            (std::vector<uint32_t>{1, 44, 1, 0, option(2, 5), text("ab[1"), ']', option(9, 1), 9, 0, 44}));
}

TEST(PcapngBlocks, TheStatisticsOfAnInterface) {
  std::vector<uint8_t> bytes;
  append_statistics(bytes, {.interface = 3, .time = Instant{0x2'0000'0001}, .received = 0x5'0000'0006, .dropped = 7});
  EXPECT_EQ(words_of(bytes), (std::vector<uint32_t>{5, 52, 3, 2, 1, option(4, 8), 6, 5, option(5, 8), 7, 0, 0, 52}));
}

}  // namespace
}  // namespace uroce::capture
