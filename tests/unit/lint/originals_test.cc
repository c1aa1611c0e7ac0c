// Every capture of real traffic, unchanged: no errors where none were made on purpose.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "edited_capture.h"

namespace uroce {
namespace {

std::vector<std::string> captures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(UROCE_PCAP_DIR)) {
    if (entry.path().extension() == ".pcap") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Expected = std::map<std::string, std::vector<uint64_t>>;  // rule to frame numbers

Expected expected_of(const std::string& name) {
  // Faulty on purpose: see the captures' README.
  if (name == "host-peer-rc") {
    return {{"icrc", {1}}, {"pkey-changed", {2}}, {"bth-version", {3}}, {"atomic-alignment", {31}}};
  }
  // Where rxe deviates from the specification.
  if (name == "rc-rnr") return {{"nak-after-rnr", {4, 8, 12, 16, 20, 24, 28}}};
  if (name == "rc-rnr-multi") return {{"nak-after-rnr", {8, 16, 24, 32}}};
  return {};
}

class Original : public testing::TestWithParam<std::string> {};

TEST_P(Original, HasWhatWasMadeOnPurposeAndNothingElse) {
  const lint::Linter linter = test::lint_file(test::read_file(std::string(UROCE_PCAP_DIR "/") + GetParam() + ".pcap"));
  EXPECT_GT(linter.totals().packets, 0u);
  Expected found;
  for (const lint::Finding& finding : linter.findings().kept()) {
    found[lint::rule_info(finding.rule).id].push_back(finding.frame);
  }
  EXPECT_EQ(found, expected_of(GetParam())) << test::findings_text(linter);
}

INSTANTIATE_TEST_SUITE_P(Rxe, Original, testing::ValuesIn(captures()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Originals, AreAllThere) { EXPECT_GE(captures().size(), 64u); }

/// A capture that begins or ends anywhere, or shows one side only, gives no findings that the whole one does not give.
class Part : public testing::TestWithParam<std::string> {};

std::vector<std::string> clean_captures() {
  std::vector<std::string> names = captures();
  std::erase_if(names, [](const std::string& name) { return !expected_of(name).empty(); });
  return names;
}

TEST_P(Part, ThatBeginsAnywhere) {
  const test::EditedCapture whole(GetParam());
  for (size_t begin = 1; begin < whole.size(); begin++) {
    test::EditedCapture part = whole;
    for (size_t i = 0; i < begin; i++) part.remove(1);
    const lint::Linter linter = test::lint_file(part.file());
    ASSERT_EQ(test::findings_text(linter), "") << "without the first " << begin << " frames";
  }
}

TEST_P(Part, ThatEndsAnywhere) {
  const test::EditedCapture whole(GetParam());
  test::EditedCapture part = whole;
  while (part.size() > 1) {
    part.remove(part.size());
    const lint::Linter linter = test::lint_file(part.file());
    ASSERT_EQ(test::findings_text(linter), "") << "only the first " << part.size() << " frames";
  }
}

TEST_P(Part, ThatShowsOneSide) {
  for (const bool keep_first : {true, false}) {
    test::EditedCapture part(GetParam());
    const std::vector<uint8_t> first(part.at(1).bytes.begin() + 6, part.at(1).bytes.begin() + 12);
    for (size_t i = part.size(); i > 0; i--) {
      const bool is_first = std::equal(first.begin(), first.end(), part.at(i).bytes.begin() + 6);
      if (is_first != keep_first) part.remove(i);
    }
    ASSERT_EQ(test::findings_text(test::lint_file(part.file())), "") << (keep_first ? "first" : "second") << " side";
  }
}

/// RoCEv2's UDP checksum is mostly zero, and may be the right one. Bytes at even places count 256 times as much.
void set_udp_checksum(test::EditedFrame& frame) {
  const size_t udp_bytes = frame.bytes.size() - static_cast<size_t>(frame.udp() - frame.bytes.data());
  uint64_t sum = 17 + udp_bytes;  // the protocol and the length belong to the pseudo header
  const auto add = [&sum](const uint8_t* p, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) sum += i % 2 == 0 ? uint64_t{p[i]} * 256 : p[i];
  };
  store_be16(frame.udp() + 6, 0);
  add(frame.is_v4() ? frame.ip() + 12 : frame.ip() + 8, frame.is_v4() ? 8 : 32);
  add(frame.udp(), udp_bytes);
  const auto rest = static_cast<uint16_t>(sum % 0xffff);
  store_be16(frame.udp() + 6, static_cast<uint16_t>(~rest));
}

TEST_P(Part, ThatHasUdpChecksums) {
  test::EditedCapture capture(GetParam());
  for (size_t i = 1; i <= capture.size(); i++) {
    test::EditedFrame& frame = capture.at(i);
    const bool is_whole =
        load_be16(frame.udp() + 4) == frame.bytes.size() - static_cast<size_t>(frame.udp() - frame.bytes.data());
    if (is_whole) capture.spoil(i, set_udp_checksum);
  }
  EXPECT_EQ(test::findings_text(test::lint_file(capture.file())), "");
}

INSTANTIATE_TEST_SUITE_P(Rxe, Part, testing::ValuesIn(clean_captures()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// Seen behind a loss: without any one request packet where it was first sent, in captures in which it comes again.
TEST(Originals, BehindLossAreClean) {
  struct Lost {
    const char* capture;
    size_t frame;
  };
  // Frames dropped between the capture and the responder: a tap behind the loss would not have seen them.
  for (const Lost lost :
       {Lost{"rc-loss-send-first", 1}, Lost{"rc-loss-send-middle", 3}, Lost{"rc-loss-write-middle", 4},
        Lost{"rc-loss-read-req", 1}, Lost{"rc-loss-atomic-req", 1}}) {
    test::EditedCapture capture(lost.capture);
    capture.remove(lost.frame);
    const lint::Linter linter = test::lint_file(capture.file());
    EXPECT_EQ(test::findings_text(linter), "") << lost.capture << " without frame " << lost.frame;
  }
}

/// When the capture lost frames itself, findings that this explains are notes.
TEST(Originals, WithFramesThatTheCaptureLost) {
  for (const char* const name : {"rc-send-multi", "rc-read-multi", "rc-mix", "rc-write-multi", "cm-rping"}) {
    const test::EditedCapture whole(name);
    for (size_t lost = 2; lost < whole.size(); lost++) {
      test::EditedCapture capture = whole;
      capture.remove(lost);
      lint::LintOptions options;
      options.lossy_capture = true;
      const lint::Linter linter = test::lint_file(capture.file(), options);
      EXPECT_EQ(test::findings_text(linter, lint::Severity::kWarning), "") << name << " without frame " << lost;
    }
  }
}

}  // namespace
}  // namespace uroce
