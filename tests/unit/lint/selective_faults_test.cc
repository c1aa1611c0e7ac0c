// Planted faults of selective repeat: no other stack speaks it, so the capture is of our own engines over a cable that
// loses. Each fault is put in alone, and must be found under its own rule id; the capture as it was has no findings.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "edited_capture.h"
#include "engine/capture.h"
#include "packet/packet.h"
#include "packet/sack.h"
#include "sim/testbed.h"

namespace uroce {
namespace {

using test::EditedCapture;
using test::EditedFrame;

class Recorder final : public Capture {
 public:
  explicit Recorder(bool with_direction) : with_direction_(with_direction) {}
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> bytes) override {
    PacketView view;
    if (parse_frame(bytes, view) != ParseResult::kOk) return;  // ARP
    const bool sent = direction == Direction::kSent;
    const auto known = sent ? pcap::FrameDirection::kSent : pcap::FrameDirection::kReceived;
    frames_.push_back({now, {bytes.begin(), bytes.end()}, with_direction_ ? known : pcap::FrameDirection::kUnknown});
  }
  const std::vector<EditedFrame>& frames() const { return frames_; }

 private:
  bool with_direction_;
  std::vector<EditedFrame> frames_;
};

/// WRITEs from a to b, captured on both sides of the losses of requests.
struct Captures {
  explicit Captures(bool ipv6) {
    sim::Testbed bed(7);
    bed.cable.set({.loss = 0.03});
    bed.a.engine().set_capture(&at_a);
    bed.b.engine().set_capture(&at_b);
    sim::QpOptions options;
    options.recovery_a = options.recovery_b = LossRecovery::kAuto;
    options.attributes.path_mtu_bytes = 256;
    options.ipv6 = ipv6;
    sim::Side a;
    sim::Side b;
    bed.connect(a, b, options);
    const sim::Buffer from = a.buffer(8192);
    const sim::Buffer to = b.buffer(8192);
    for (unsigned round = 0; round < 12; round++) {
      for (unsigned n = 0; n < 4; n++) {
        const Sge sge = from.sge();
        SendWr wr;
        wr.opcode = WrOpcode::kRdmaWrite;
        wr.sges = &sge;
        wr.num_sge = 1;
        wr.flags = kSendSignaled;
        wr.remote_addr = to.addr();
        wr.rkey = to.key;
        EXPECT_EQ(a.send(wr), PostResult::kOk);
      }
      EXPECT_TRUE(bed.world.run_until_idle());
      EXPECT_EQ(a.sent().size(), 4u);
    }
  }
  Recorder at_a{true};
  Recorder at_b{false};
};

const Captures& captures(bool ipv6 = false) {
  static const Captures v4(false);
  static const Captures v6(true);
  return ipv6 ? v6 : v4;
}

bool is_sack(EditedFrame& frame) { return frame.bth()[0] == kOpcodeSack; }
bool is_request(EditedFrame& frame) { return !opcode_info(frame.bth()[0]).is_response(); }

std::vector<SackRange> ranges_of(EditedFrame& frame) {
  std::vector<SackRange> ranges;
  for (uint8_t* p = frame.ext() + Aeth::kBytes; p + kIcrcBytes < frame.bytes.data() + frame.bytes.size();
       p += SackRange::kBytes) {
    ranges.push_back(SackRange::decode(p));
  }
  return ranges;
}

void set_ranges(EditedFrame& frame, const std::vector<SackRange>& ranges) {
  frame.resize_payload(Aeth::kBytes, ranges.size() * SackRange::kBytes);
  uint8_t* p = frame.ext() + Aeth::kBytes;
  for (const SackRange& range : ranges) {
    range.encode(p);
    p += SackRange::kBytes;
  }
}

/// The first SACK for which `fits(before, now)` holds; `before` is that of the previous SACK.
template <typename Fits>
size_t find_sack(EditedCapture& c, Fits fits) {
  std::vector<SackRange> before;
  for (size_t i = 1; i <= c.size(); i++) {
    if (!is_sack(c.at(i))) continue;
    const std::vector<SackRange> now = ranges_of(c.at(i));
    if (i > 400 && fits(before, now)) return i;
    before = now;
  }
  ADD_FAILURE() << "no such SACK in this capture";
  return 1;
}

size_t any_sack(EditedCapture& c) {
  return find_sack(c, [](const auto&, const auto&) { return true; });
}
size_t two_ranges(EditedCapture& c) {
  return find_sack(c, [](const auto&, const auto& now) { return now.size() >= 2; });
}
/// A SACK whose second range is that of the previous one, and whose first is not.
size_t first_changed(EditedCapture& c) {
  return find_sack(c, [](const std::vector<SackRange>& before, const std::vector<SackRange>& now) {
    const auto known = [&](const SackRange& range) {
      return std::any_of(before.begin(), before.end(),
                         [&](const SackRange& b) { return b.first == range.first && b.end == range.end; });
    };
    return now.size() >= 2 && known(now[1]) && !known(now[0]);
  });
}

template <typename Change>
void edit_ranges(EditedCapture& c, size_t number, Change change) {
  c.edit(number, [&](EditedFrame& f) {
    std::vector<SackRange> ranges = ranges_of(f);
    change(ranges, Psn(f.psn()));
    set_ranges(f, ranges);
  });
}

void unsign(EditedFrame& f) { f.ip()[4] ^= 0x5a; }

/// Gives a SACK another PSN, and the signature for it.
void shift_sack(EditedCapture& c, int32_t by) {
  uint32_t responder = 0;
  for (size_t i = 1; responder == 0; i++) {
    if (is_request(c.at(i))) responder = load_be24(c.at(i).bth() + 5);
  }
  c.edit(any_sack(c), [&](EditedFrame& f) {
    const Psn psn = Psn(f.psn()) + static_cast<uint32_t>(by);
    f.set_psn(psn.value());
    store_be16(f.ip() + 4, Signature(responder, load_be24(f.bth() + 5)).identification(psn));
  });
}

/// Removes the signatures of the requester before frame `end`, but for its newest `keep` packets.
void unsign_requests(EditedCapture& c, size_t end, unsigned keep) {
  for (size_t i = end - 1; i > 0; i--) {
    if (!is_request(c.at(i))) continue;
    if (keep != 0) {
      keep--;
      continue;
    }
    c.edit(i, unsign);
  }
}

/// Repeats, right behind a SACK, a packet that it says is held.
void send_held_again(EditedCapture& c) {
  const size_t sack = any_sack(c);
  const Psn held = ranges_of(c.at(sack))[0].first;
  for (size_t i = 1; i < sack; i++) {
    if (!is_request(c.at(i)) || Psn(c.at(i).psn()) != held) continue;
    c.repeat(i, sack);
    return;
  }
  ADD_FAILURE() << "the original is not in this capture";
}

struct Fault {
  const char* rule;
  const char* what;
  bool behind_losses;
  void (*plant)(EditedCapture&);
};

using Ranges = std::vector<SackRange>;
#define PLANT [](EditedCapture & c)

// clang-format off
const Fault kFaults[] = {
    {"sack-form", "no range", false, PLANT { c.edit(any_sack(c), [](EditedFrame& f) { f.resize_payload(4, 0); }); }},
    {"sack-form", "a range and a half", false, PLANT { c.edit(any_sack(c), [](EditedFrame& f) { f.resize_payload(4, 12); }); }},
    {"sack-form", "17 ranges", false, PLANT { c.edit(any_sack(c), [](EditedFrame& f) { f.resize_payload(4, 17 * 8); }); }},
    {"aeth-syndrome", "the syndrome of a NAK", false, PLANT { c.edit(any_sack(c), [](EditedFrame& f) { f.set_syndrome(0x60); }); }},
    {"sack-range", "the packet that is expected", false, PLANT {
      edit_ranges(c, any_sack(c), [](Ranges& r, Psn psn) { r[0].first = psn + 1; }); }},
    {"sack-range", "an end in front of the beginning", false, PLANT {
      edit_ranges(c, any_sack(c), [](Ranges& r, Psn) { std::swap(r[0].first, r[0].end); }); }},
    {"sack-range", "a range twice", false, PLANT { edit_ranges(c, any_sack(c), [](Ranges& r, Psn) { r.push_back(r[0]); }); }},
    {"sack-range", "two ranges that touch", false, PLANT {
      edit_ranges(c, any_sack(c), [](Ranges& r, Psn) { r.push_back({r[0].end, r[0].end + 1}); }); }},
    {"sack-range", "a byte that is not zero", false, PLANT { c.edit(any_sack(c), [](EditedFrame& f) { f.ext()[4] = 1; }); }},
    {"sack-order", "the range that changed comes second", false, PLANT {
      edit_ranges(c, first_changed(c), [](Ranges& r, Psn) { std::swap(r[0], r[1]); }); }},
    {"sack-order", "seen behind the losses", true, PLANT {
      edit_ranges(c, first_changed(c), [](Ranges& r, Psn) { std::swap(r[0], r[1]); }); }},
    {"sack-unsent", "a range that ends too late", false, PLANT {
      edit_ranges(c, any_sack(c), [](Ranges& r, Psn) { r[0].end = r[0].end + 300; }); }},
    {"sack-unseen", "the gap between two ranges", true, PLANT {
      edit_ranges(c, two_ranges(c), [](Ranges& r, Psn) {
        const bool swapped = r[1].first.before(r[0].first);
        r = {{r[swapped ? 1 : 0].first, r[swapped ? 0 : 1].end}}; }); }},
    {"sack-unsigned", "another identification", false, PLANT { c.edit(any_sack(c), unsign); }},
    {"sack-unsigned", "another identification, behind the losses", true, PLANT { c.edit(any_sack(c), unsign); }},
    {"sack-stranger", "nothing was signed", false, PLANT { unsign_requests(c, any_sack(c), 0); }},
    {"sack-stranger", "two packets were signed", true, PLANT { unsign_requests(c, any_sack(c), 2); }},
    {"ack-back", "a SACK goes back", false, PLANT { shift_sack(c, -100); }},
    {"ack-unsent", "a SACK from the future", false, PLANT { shift_sack(c, 600); }},
    {"msn", "MSN of a SACK", false, PLANT { c.edit(any_sack(c), [](EditedFrame& f) { f.set_msn(5000); }); }},
    {"retransmit-held", "the first packet of a range again", false, send_held_again},
};
// clang-format on

EditedCapture capture_for(bool behind_losses) {
  return EditedCapture((behind_losses ? captures().at_b : captures().at_a).frames());
}

class SelectiveFault : public testing::TestWithParam<size_t> {};

TEST_P(SelectiveFault, IsFoundUnderItsRule) {
  const Fault& fault = kFaults[GetParam()];
  const auto rule = lint::rule_of(fault.rule);
  ASSERT_TRUE(rule) << fault.rule;
  EditedCapture capture = capture_for(fault.behind_losses);
  ASSERT_EQ(test::findings_text(capture.lint()), "");
  fault.plant(capture);
  const lint::Linter linter = capture.lint();
  EXPECT_GE(linter.findings().count(*rule), 1u) << fault.rule << ": " << fault.what << "\n"
                                                << test::findings_text(linter);
}

INSTANTIATE_TEST_SUITE_P(Each, SelectiveFault, testing::Range<size_t>(0, std::size(kFaults)), [](const auto& test) {
  std::string name = std::to_string(test.param) + "_" + kFaults[test.param].rule;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(SelectiveFaults, CoverEveryRule) {
  std::set<std::string> covered;
  for (const Fault& fault : kFaults) covered.insert(fault.rule);
  for (const char* rule : test::kSelectiveRules) EXPECT_TRUE(covered.contains(rule)) << rule;
}

TEST(SelectiveOriginals, HaveNoFindings) {
  for (const bool ipv6 : {false, true}) {
    for (const Recorder* recorder : {&captures(ipv6).at_a, &captures(ipv6).at_b}) {
      const lint::Linter linter = EditedCapture(recorder->frames()).lint();
      EXPECT_EQ(test::findings_text(linter), "");
      EXPECT_GT(linter.totals().opcodes[kOpcodeSack], 100u);
    }
  }
}

TEST(SelectiveOriginals, BeginAnywhere) {
  for (const bool behind_losses : {false, true}) {
    EditedCapture part = capture_for(behind_losses);
    while (part.size() > 50) {
      for (unsigned n = 0; n < 7; n++) part.remove(1);
      const lint::Linter linter = part.lint();
      ASSERT_EQ(test::findings_text(linter), "") << part.size() << " frames are left";
    }
  }
}

/// The same packets from stacks that do not sign are judged by go-back-N's rules.
TEST(SelectiveOriginals, WithoutSignaturesAreStrangers) {
  EditedCapture capture = capture_for(false);
  for (size_t i = 1; i <= capture.size(); i++) capture.edit(i, unsign);
  const lint::Linter linter = capture.lint();
  const auto count = [&](const char* rule) { return linter.findings().count(*lint::rule_of(rule)); };
  EXPECT_EQ(count("sack-unsigned"), linter.totals().opcodes[kOpcodeSack]) << test::findings_text(linter);
  EXPECT_EQ(count("retransmit-held"), 0u);
}

TEST(SelectiveOriginals, SurviveRandomDamage) {
  SeededRandom random(5);
  const std::vector<EditedFrame>& all = captures().at_a.frames();
  const std::vector<EditedFrame> some(all.begin(), all.begin() + 600);
  uint64_t findings = 0;
  for (unsigned round = 0; round < 300; round++) {
    EditedCapture capture(some);
    for (unsigned n = 1 + random.below(8); n > 0; n--) {
      capture.edit(1 + random.below(static_cast<uint32_t>(capture.size())), [&](EditedFrame& f) {
        const auto bytes = static_cast<uint32_t>(f.bytes.size() - f.ext_at() + 12 - kIcrcBytes);
        f.bth()[random.below(std::min(bytes, 40u))] = static_cast<uint8_t>(random.next_u32());
      });
    }
    findings += capture.lint().findings().kept().size();
  }
  EXPECT_GT(findings, 300u);
}

}  // namespace
}  // namespace uroce
