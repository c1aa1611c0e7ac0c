#include "pmd/card/wires/pcap_wire.h"

#include <cstring>
#include <fstream>

#include "wire_support.h"

namespace mqnic::card {
namespace {

class PcapWireTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::vector<uint8_t>& bytes) {
    std::string path = directory_.path() + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    return path;
  }
  static std::vector<uint8_t> read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  RuntimeDirectory directory_;
};

// Microseconds, little-endian; two frames of 3 and 2 bytes.
const std::vector<uint8_t> kLittle = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0,   0,   0,   0,   0,  0, 0, 0,
                                      0xff, 0xff, 0,    0,    1, 0, 0, 0, 1,   0,   0,   0,   2,  0, 0, 0,
                                      3,    0,    0,    0,    3, 0, 0, 0, 'a', 'b', 'c', 1,   0,  0, 0, 2,
                                      0,    0,    0,    2,    0, 0, 0, 2, 0,   0,   0,   'd', 'e'};
// Nanoseconds, big-endian; one frame.
const std::vector<uint8_t> kBig = {0xa1, 0xb2, 0x3c, 0x4d, 0,    2, 0, 4, 0, 0, 0,   0,   0,   0,  0,
                                   0,    0,    0,    0xff, 0xff, 0, 0, 0, 1, 0, 0,   0,   1,   0,  0,
                                   0,    2,    0,    0,    0,    4, 0, 0, 0, 4, 'w', 'x', 'y', 'z'};

TEST_F(PcapWireTest, PlaysOnceTheCardReceives) {
  const auto wire = must_make("pcap:" + file("in", kLittle));
  EXPECT_TRUE(take(*wire).empty());
  wire->set_receiving(true);
  EXPECT_EQ(take(*wire), (Frame{'a', 'b', 'c'}));
  EXPECT_EQ(take(*wire), (Frame{'d', 'e'}));
  EXPECT_TRUE(take(*wire).empty());
  EXPECT_TRUE(take(*wire).empty());
  EXPECT_TRUE(put(*wire, numbered_frame(1, 60)));  // accepted and dropped
}

TEST_F(PcapWireTest, ReadsTheOtherByteOrder) {
  const auto wire = must_make("pcap:" + file("in", kBig));
  wire->set_receiving(true);
  EXPECT_EQ(take(*wire), (Frame{'w', 'x', 'y', 'z'}));
  EXPECT_TRUE(take(*wire).empty());
}

TEST_F(PcapWireTest, RecordsWhatIsSentAndPlaysItBack) {
  const std::string path = directory_.path() + "/out";
  const auto wire = must_make("pcap::" + path);
  EXPECT_TRUE(put(*wire, Frame{1, 2, 3}));
  wire->flush(1);
  const std::vector<uint8_t> bytes = read(path);  // the wire is still open
  ASSERT_EQ(bytes.size(), 24u + 16 + 3);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 8),
            (std::vector<uint8_t>{0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0}));
  EXPECT_EQ(bytes[20], 1);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + 32, bytes.end()),
            (std::vector<uint8_t>{3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3}));
  const auto again = must_make("pcap:" + path);
  again->set_receiving(true);
  EXPECT_EQ(take(*again), (Frame{1, 2, 3}));
}

TEST_F(PcapWireTest, DamagedFilesEndAndSayWhy) {
  for (size_t cut = 25; cut < kLittle.size(); cut++) {
    const auto wire = must_make("pcap:" + file("in", {kLittle.begin(), kLittle.begin() + static_cast<long>(cut)}));
    wire->set_receiving(true);
    size_t frames = 0;
    while (!take(*wire).empty()) frames++;
    EXPECT_EQ(frames, cut >= 43 ? 1u : 0u) << cut;
    EXPECT_EQ(wire->take_message().empty(), cut == 43) << cut;
  }
  std::vector<uint8_t> absurd = kLittle;
  absurd[35] = 0xff;  // 4 GiB
  const auto wire = must_make("pcap:" + file("in", absurd));
  wire->set_receiving(true);
  EXPECT_TRUE(take(*wire).empty());
}

TEST_F(PcapWireTest, Refusals) {
  EXPECT_NE(refusal("pcap:/nowhere/x").find("cannot read /nowhere/x"), std::string::npos);
  EXPECT_NE(refusal("pcap::/nowhere/x").find("cannot write /nowhere/x"), std::string::npos);
  EXPECT_NE(refusal("pcap:" + file("in", {1, 2, 3})).find("editcap"), std::string::npos);
  std::vector<uint8_t> raw = kLittle;
  raw[20] = 101;
  EXPECT_NE(refusal("pcap:" + file("in", raw)).find("Ethernet"), std::string::npos);
  EXPECT_NE(refusal("pcap::").find("pcap::OUT"), std::string::npos);
}

}  // namespace
}  // namespace mqnic::card
