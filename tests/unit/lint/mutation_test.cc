// Random damage to captures, file format and packets: nothing crashes, whatever the bytes say. Most of the worth is in
// the sanitizer builds. UROCE_LINT_ROUNDS asks for more than the few thousand that a test run has time for.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/random.h"
#include "edited_capture.h"
#include "pcap/reader.h"

namespace uroce {
namespace {

unsigned rounds() {
  const char* const text = std::getenv("UROCE_LINT_ROUNDS");
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 3000;
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(UROCE_PCAP_DIR)) {
    if (entry.path().extension() == ".pcap" && entry.file_size() < 40000) found.push_back(entry.path().stem());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Often a value at the edge of a range.
uint8_t any_byte(RandomSource& random) {
  constexpr uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe};
  return random.below(3) == 0 ? kEdges[random.below(sizeof kEdges)] : static_cast<uint8_t>(random.next_u32());
}

void damage_bytes(std::vector<uint8_t>& bytes, RandomSource& random) {
  if (bytes.empty()) return;
  for (unsigned n = 1 + random.below(8); n > 0; n--) {
    bytes[random.below(static_cast<uint32_t>(bytes.size()))] = any_byte(random);
  }
  if (random.below(4) == 0) bytes.resize(random.below(static_cast<uint32_t>(bytes.size())));
}

TEST(RandomDamage, ToTheFile) {
  SeededRandom random(1);
  const std::vector<std::string> captures = names();
  for (unsigned round = 0; round < rounds(); round++) {
    const std::string& name = captures[random.below(static_cast<uint32_t>(captures.size()))];
    std::vector<uint8_t> file = test::read_file(std::string(UROCE_PCAP_DIR "/") + name + ".pcap");
    // The headers are a small part of the bytes: half of the damage is in the first ones.
    if (random.below(2) == 0) file.resize(std::min<size_t>(file.size(), 64 + random.below(512)));
    damage_bytes(file, random);
    test::lint_file(file);
  }
}

/// A pcapng file of one interface and some packets; the damage hits block headers and options as often as data.
TEST(RandomDamage, ToPcapng) {
  SeededRandom random(2);
  const std::vector<uint8_t> pcapng = {
      0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1,  0, 0,  0, 255, 255, 255, 255, 255, 255,
      255,  255,  28,   0,    0,  0, 1, 0, 0,    0,    32,   0,    0,  0, 1,  0, 0,   0,   0,   0,   0,   0,
      9,    0,    1,    0,    6,  0, 0, 0, 0,    0,    0,    0,    32, 0, 0,  0, 6,   0,   0,   0,   48,  0,
      0,    0,    0,    0,    0,  0, 1, 0, 0,    0,    2,    0,    0,  0, 4,  0, 0,   0,   4,   0,   0,   0,
      1,    2,    3,    4,    2,  0, 4, 0, 1,    0,    0,    0,    0,  0, 0,  0, 48,  0,   0,   0,   3,   0,
      0,    0,    20,   0,    0,  0, 4, 0, 0,    0,    5,    6,    7,  8, 20, 0, 0,   0,
  };
  {
    pcap::CaptureReader reader(pcapng);
    pcap::Frame frame;
    ASSERT_TRUE(reader.next(frame));
    ASSERT_TRUE(reader.next(frame)) << reader.error()->text;
  }
  for (unsigned round = 0; round < rounds() * 10; round++) {
    std::vector<uint8_t> file = pcapng;
    damage_bytes(file, random);
    test::lint_file(file);
  }
}

/// Fields of packets, with lengths and iCRC corrected: well-formed nonsense that reaches the channels.
TEST(RandomDamage, ToPackets) {
  SeededRandom random(3);
  const std::vector<std::string> captures = names();
  uint64_t findings = 0;
  for (unsigned round = 0; round < rounds(); round++) {
    test::EditedCapture capture(captures[random.below(static_cast<uint32_t>(captures.size()))]);
    for (unsigned n = 1 + random.below(6); n > 0; n--) {
      const size_t number = 1 + random.below(static_cast<uint32_t>(capture.size()));
      switch (random.below(5)) {
        case 0:
          capture.repeat(number, 1 + random.below(static_cast<uint32_t>(capture.size())));
          break;
        case 1:
          if (capture.size() > 2) capture.remove(number);
          break;
        case 2:
          capture.edit(number, [&](test::EditedFrame& f) { f.bytes.resize(f.ext_at() + 4 + random.below(2100)); });
          break;
        default:
          capture.edit(number, [&](test::EditedFrame& f) {
            const auto bytes = static_cast<uint32_t>(f.bytes.size() - f.ext_at() + 12);
            for (unsigned i = 1 + random.below(3); i > 0; i--)
              f.bth()[random.below(std::min(bytes, 40u))] = any_byte(random);
          });
          break;
      }
    }
    const lint::Linter linter = test::lint_file(capture.file());
    findings += linter.findings().kept().size();
    test::findings_text(linter);
  }
  EXPECT_GT(findings, rounds());  // the damage is noticed
}

}  // namespace
}  // namespace uroce
