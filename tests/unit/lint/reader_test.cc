// Capture files of every kind, made here byte by byte, and what is wrong with damaged ones.
#include <gtest/gtest.h>

#include <cstring>

#include "edited_capture.h"
#include "pcap/pcap_writer.h"
#include "pcap/reader.h"

namespace uroce {
namespace {

using pcap::CaptureReader;
using pcap::Frame;
using pcap::FrameDirection;
using pcap::LinkType;
using test::EditedCapture;

/// Builds a file of words in either byte order.
class FileBytes {
 public:
  explicit FileBytes(bool big_endian) : big_(big_endian) {}
  FileBytes& u8(uint8_t v) { return put(v, 1); }
  FileBytes& u16(uint16_t v) { return put(v, 2); }
  FileBytes& u32(uint32_t v) { return put(v, 4); }
  FileBytes& u64(uint64_t v) { return put(v, 8); }
  FileBytes& raw(const std::vector<uint8_t>& data) {
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    while (bytes_.size() % 4 != 0) bytes_.push_back(0);
    return *this;
  }
  /// A block: type, length, body, length.
  FileBytes& block(uint32_t type, const FileBytes& body) {
    const auto length = static_cast<uint32_t>(body.bytes_.size() + 12);
    return u32(type).u32(length).raw(body.bytes_).u32(length);
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  FileBytes& put(uint64_t v, unsigned count) {
    for (unsigned i = 0; i < count; i++) bytes_.push_back(static_cast<uint8_t>(v >> 8 * (big_ ? count - 1 - i : i)));
    return *this;
  }
  bool big_;
  std::vector<uint8_t> bytes_;
};

FileBytes section(bool big) { return FileBytes(big).u32(0x1A2B3C4D).u16(1).u16(0).u64(~uint64_t{0}); }

FileBytes interface(bool big, LinkType link, uint32_t snap, uint8_t resolution, int64_t offset_seconds = 0) {
  FileBytes body = FileBytes(big).u16(static_cast<uint16_t>(link)).u16(0).u32(snap);
  body.u16(9).u16(1).u8(resolution).u8(0).u16(0);
  if (offset_seconds != 0) body.u16(14).u16(8).u64(static_cast<uint64_t>(offset_seconds));
  return body.u32(0);
}

FileBytes packet(bool big, uint32_t interface, uint64_t ticks, const std::vector<uint8_t>& data, uint32_t flags = 0) {
  const auto bytes = static_cast<uint32_t>(data.size());
  FileBytes body =
      FileBytes(big).u32(interface).u32(static_cast<uint32_t>(ticks >> 32)).u32(static_cast<uint32_t>(ticks));
  body.u32(bytes).u32(bytes).raw(data);
  if (flags != 0) body.u16(2).u16(4).u32(flags).u32(0);
  return body;
}

std::vector<Frame> read_all(const std::vector<uint8_t>& file, std::optional<pcap::CaptureError>* error = nullptr) {
  CaptureReader reader(file);
  std::vector<Frame> frames;
  for (Frame frame; reader.next(frame);) frames.push_back(frame);
  if (error != nullptr) *error = reader.error();
  return frames;
}

const std::vector<uint8_t> kData = {0x45, 1, 2, 3, 4};

class ByteOrder : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Both, ByteOrder, testing::Bool(),
                         [](const auto& test) { return test.param ? "big" : "little"; });

TEST_P(ByteOrder, PcapInMicroAndNanoseconds) {
  for (const bool nanoseconds : {false, true}) {
    pcap::PcapWriter writer({LinkType::kRawIp, nanoseconds, GetParam()});
    writer.add(Instant{1'700'000'000'123'456'789}, kData, 99);
    writer.add(Instant{1'700'000'001'000'000'000}, {});
    CaptureReader reader(writer.bytes());
    EXPECT_EQ(reader.kind(), pcap::FileKind::kPcap);
    Frame frame;
    ASSERT_TRUE(reader.next(frame));
    EXPECT_EQ(frame.number, 1u);
    EXPECT_EQ(frame.time.ns, 1'700'000'000'123'456'000 + (nanoseconds ? 789 : 0));
    EXPECT_TRUE(frame.has_time);
    EXPECT_EQ(frame.link, LinkType::kRawIp);
    EXPECT_EQ(frame.original_bytes, 99u);
    EXPECT_EQ(frame.file_offset, 24u);
    EXPECT_TRUE(std::equal(frame.bytes.begin(), frame.bytes.end(), kData.begin(), kData.end()));
    ASSERT_TRUE(reader.next(frame));
    EXPECT_TRUE(frame.bytes.empty());
    EXPECT_FALSE(reader.next(frame));
    EXPECT_FALSE(reader.error());
  }
}

TEST_P(ByteOrder, PcapngWithSeveralInterfacesAndUnknownBlocks) {
  const bool big = GetParam();
  FileBytes file(big);
  file.block(0x0A0D0D0A, section(big));
  file.block(1, interface(big, LinkType::kEthernet, 0, 6));
  file.block(1, interface(big, LinkType::kLinuxSll2, 0, 9, 100));
  file.block(1, interface(big, LinkType::kRawIp, 0, 0x80 | 10));
  file.block(0x0BAD1DEA, FileBytes(big).u32(1).u32(2));
  file.block(6, packet(big, 0, 1'500'000, kData, 1));
  file.block(6, packet(big, 1, 7, kData, 2));
  file.block(6, packet(big, 2, 1536, kData));
  const std::vector<Frame> frames = read_all(file.bytes());
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].time.ns, 1'500'000'000);
  EXPECT_EQ(frames[0].direction, FrameDirection::kReceived);
  EXPECT_EQ(frames[0].bytes.size(), kData.size());
  EXPECT_EQ(frames[1].time.ns, 100'000'000'007);
  EXPECT_EQ(frames[1].direction, FrameDirection::kSent);
  EXPECT_EQ(frames[1].link, LinkType::kLinuxSll2);
  EXPECT_EQ(frames[2].time.ns, 1'500'000'000);
  EXPECT_EQ(frames[2].interface, 2u);
}

TEST_P(ByteOrder, PcapngSimpleAndObsoletePackets) {
  const bool big = GetParam();
  FileBytes file(big);
  file.block(0x0A0D0D0A, section(big));
  file.block(1, interface(big, LinkType::kRawIp, 3, 6));
  file.block(3, FileBytes(big).u32(5).raw({1, 2, 3}));
  file.block(2, FileBytes(big).u16(0).u16(0).u32(0).u32(8).u32(5).u32(5).raw(kData));
  const std::vector<Frame> frames = read_all(file.bytes());
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_FALSE(frames[0].has_time);
  EXPECT_EQ(frames[0].bytes.size(), 3u);  // the interface's snap length
  EXPECT_EQ(frames[0].original_bytes, 5u);
  EXPECT_EQ(frames[1].time.ns, 8000);
}

TEST_P(ByteOrder, PcapngSectionsChangeOrderAndForgetInterfaces) {
  const bool big = GetParam();
  FileBytes first(big);
  first.block(0x0A0D0D0A, section(big))
      .block(1, interface(big, LinkType::kRawIp, 0, 6))
      .block(6, packet(big, 0, 1, kData));
  FileBytes second(!big);
  second.block(0x0A0D0D0A, section(!big)).block(1, interface(!big, LinkType::kEthernet, 0, 6));
  second.block(6, packet(!big, 0, 2, kData));
  std::vector<uint8_t> file = first.bytes();
  file.insert(file.end(), second.bytes().begin(), second.bytes().end());
  const std::vector<Frame> frames = read_all(file);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].link, LinkType::kRawIp);
  EXPECT_EQ(frames[1].link, LinkType::kEthernet);
  EXPECT_EQ(frames[1].number, 2u);
}

TEST_P(ByteOrder, PcapngSaysWhatTheCaptureLost) {
  const bool big = GetParam();
  FileBytes file(big);
  file.block(0x0A0D0D0A, section(big)).block(1, interface(big, LinkType::kRawIp, 0, 6));
  for (const uint64_t lost : {3u, 9u}) {  // totals: the later one counts
    file.block(5, FileBytes(big).u32(0).u64(0).u16(5).u16(8).u64(lost).u32(0));
  }
  CaptureReader reader(file.bytes());
  Frame frame;
  EXPECT_FALSE(reader.next(frame));
  EXPECT_FALSE(reader.error());
  EXPECT_EQ(reader.lost_frames(), 9u);
}

TEST(Damage, IsNamedWithItsOffset) {
  const auto error_of = [](std::vector<uint8_t> file) {
    std::optional<pcap::CaptureError> error;
    read_all(file, &error);
    return error ? std::to_string(error->offset) + ": " + error->text : "none";
  };
  EXPECT_EQ(error_of({}), "0: the file is empty");
  EXPECT_EQ(error_of({1, 2}), "2: the file ends within its first four bytes");
  EXPECT_EQ(error_of({'h', 'e', 'l', 'l', 'o', '!'}),
            "0: neither pcap nor pcapng: the first bytes are those of no capture file");
  const std::vector<uint8_t> whole = EditedCapture("rc-send").file();
  EXPECT_EQ(error_of({whole.begin(), whole.begin() + 20}), "20: the file ends within the pcap header of 24 bytes");
  EXPECT_EQ(error_of({whole.begin(), whole.begin() + 30}),
            "24: the file ends within a packet record's header (6 of 16 bytes)");
  EXPECT_EQ(error_of({whole.begin(), whole.begin() + 24 + 16 + 100}),
            "24: a packet record of 122 bytes; the file has only 100 more");

  FileBytes ng(false);
  ng.block(0x0A0D0D0A, section(false));
  EXPECT_EQ(error_of(FileBytes(ng).block(6, packet(false, 0, 1, kData)).bytes()),
            "28: a packet of interface 0, which was not described");
  EXPECT_EQ(error_of(FileBytes(ng).u32(6).u32(13).u32(0).bytes()), "32: a block length of 13, which no block has");
  EXPECT_EQ(error_of(FileBytes(ng).u32(6).u32(64).u32(0).bytes()),
            "28: a block of 64 bytes; the file has only 12 more");
  EXPECT_EQ(error_of(FileBytes(ng).u32(99).u32(12).u32(16).bytes()), "36: a block whose two lengths differ");
  EXPECT_EQ(error_of(FileBytes(ng).block(1, FileBytes(false).u32(1)).bytes()),
            "28: an interface description that is too short");
}

TEST(Damage, LeavesTheFramesInFrontOfIt) {
  const std::vector<uint8_t> whole = EditedCapture("rc-send").file();
  std::optional<pcap::CaptureError> error;
  const std::vector<uint8_t> cut(whole.begin(), whole.end() - 1);
  EXPECT_EQ(read_all(cut, &error).size(), 5u);
  ASSERT_TRUE(error);
}

/// The same traffic gives the same findings under every link type.
TEST(LinkTypes, AllLeadToTheSamePackets) {
  EditedCapture capture("rc-ipv6");
  const struct {
    LinkType link;
    std::vector<uint8_t> header;
  } kinds[] = {
      {LinkType::kEthernet, {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0x86, 0xdd}},
      {LinkType::kEthernet, {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 0x86, 0xdd}},
      {LinkType::kEthernet, {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 0x86, 0xdd}},
      {LinkType::kLinuxSll, {0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 2, 0, 0, 0x86, 0xdd}},
      {LinkType::kLinuxSll2, {0x86, 0xdd, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6, 0, 0, 0, 0, 0, 2, 0, 0}},
      {LinkType::kRawIp, {}},
      {LinkType::kIpv6, {}},
  };
  for (const auto& kind : kinds) {
    pcap::PcapWriter writer({kind.link});
    for (size_t i = 1; i <= capture.size(); i++) {
      std::vector<uint8_t> frame = kind.header;
      frame.insert(frame.end(), capture.at(i).bytes.begin() + 14, capture.at(i).bytes.end());
      writer.add(capture.at(i).time, frame);
    }
    const lint::Linter linter = test::lint_file(writer.bytes());
    EXPECT_EQ(linter.totals().packets, capture.size()) << static_cast<unsigned>(kind.link);
    EXPECT_EQ(test::findings_text(linter), "");
  }
}

TEST(LinkTypes, GiveDirectionAndVlan) {
  pcap::PcapWriter writer({LinkType::kLinuxSll});
  writer.add(Instant{}, std::vector<uint8_t>{0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 2, 0, 0, 0x81, 0, 0, 7, 0x08, 0});
  writer.add(Instant{}, std::vector<uint8_t>{0, 0, 0, 1});
  const std::vector<Frame> frames = read_all(writer.bytes());
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].direction, FrameDirection::kSent);
  const auto layer = network_layer(frames[0]);
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->ethertype, 0x0800);
  EXPECT_EQ(layer->vlan_id, 7);
  EXPECT_EQ(frames[1].direction, FrameDirection::kReceived);
  EXPECT_FALSE(network_layer(frames[1]));
}

/// Truncated frames are judged by the bytes that there are.
TEST(Snapped, FramesAreJudgedByTheirHeaders) {
  EditedCapture capture("rc-mix");
  pcap::PcapWriter writer;
  for (size_t i = 1; i <= capture.size(); i++) {
    const std::vector<uint8_t>& bytes = capture.at(i).bytes;
    const size_t kept = std::min<size_t>(bytes.size(), 96);
    writer.add(capture.at(i).time, {bytes.data(), kept}, static_cast<uint32_t>(bytes.size()));
  }
  const lint::Linter linter = test::lint_file(writer.bytes());
  EXPECT_EQ(linter.totals().packets, capture.size());
  EXPECT_EQ(linter.totals().cut, 0u);
  EXPECT_EQ(test::findings_text(linter), "");
}

}  // namespace
}  // namespace uroce
