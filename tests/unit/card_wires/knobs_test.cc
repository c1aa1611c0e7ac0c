#include "pmd/card/wires/knobs.h"

#include "wire_support.h"

namespace mqnic::card {
namespace {

std::string set(WireKnobs& knobs, const std::string& name, const std::string& value) {
  std::string error;
  const bool good = set_wire_knob(knobs, name, value, error);
  EXPECT_EQ(good, error.empty()) << name << "=" << value;
  return error;
}

TEST(Knobs, AreReadWithTheirUnits) {
  WireKnobs knobs;
  EXPECT_FALSE(knobs.any());
  EXPECT_EQ(set(knobs, "bandwidth", "10G"), "");
  EXPECT_EQ(set(knobs, "delay", "20us"), "");
  EXPECT_EQ(set(knobs, "loss", "0.01"), "");
  EXPECT_EQ(set(knobs, "corrupt", "1e-6"), "");
  EXPECT_EQ(set(knobs, "duplicate", "0.5%"), "");
  EXPECT_EQ(set(knobs, "reorder", "1"), "");
  EXPECT_EQ(set(knobs, "pause", "65535@1.5ms"), "");
  EXPECT_EQ(set(knobs, "seed", "18446744073709551615"), "");
  EXPECT_EQ(knobs.bandwidth_bps, 10'000'000'000u);
  EXPECT_EQ(knobs.delay_ns, 20'000u);
  EXPECT_DOUBLE_EQ(knobs.loss, 0.01);
  EXPECT_DOUBLE_EQ(knobs.corrupt, 1e-6);
  EXPECT_DOUBLE_EQ(knobs.duplicate, 0.005);
  EXPECT_DOUBLE_EQ(knobs.reorder, 1);
  EXPECT_EQ(knobs.pause_quanta, 65535);
  EXPECT_EQ(knobs.pause_interval_ns, 1'500'000u);
  EXPECT_EQ(knobs.seed, UINT64_MAX);
  EXPECT_TRUE(knobs.any());
}

TEST(Knobs, AreRefusedInOneLineThatShowsHow) {
  WireKnobs knobs;
  const std::pair<const char*, const char*> wrong[] = {
      {"bandwidth", "fast"}, {"bandwidth", "10X"}, {"bandwidth", "-1G"}, {"bandwidth", "1"},    {"bandwidth", "nan"},
      {"bandwidth", "1e30"}, {"delay", "20"},      {"delay", "1h"},      {"delay", "11s"},      {"loss", "1.1"},
      {"loss", "101%"},      {"loss", ""},         {"corrupt", "inf"},   {"duplicate", "0.1x"}, {"reorder", "-0.1"},
      {"pause", "65536@1s"}, {"pause", "1"},       {"pause", "1@0us"},   {"pause", "1@"},       {"seed", "1.5"},
      {"seed", "-1"}};
  for (const auto& [name, value] : wrong) {
    const std::string error = set(knobs, name, value);
    EXPECT_NE(error.find(std::string(name) + "=" + value + ": give "), std::string::npos) << error;
  }
  EXPECT_FALSE(knobs.any());
  EXPECT_NE(set(knobs, "jitter", "1us").find("bandwidth delay loss"), std::string::npos);
}

TEST(MakeWire, RefusalsSayWhatToWrite) {
  EXPECT_NE(refusal("cable").find("none, loop, shm:NAME, tap:IFNAME, pcap:IN[:OUT]"), std::string::npos);
  EXPECT_NE(refusal("").find("none, loop"), std::string::npos);
  EXPECT_NE(refusal("shm").find("shm:NAME"), std::string::npos);
  EXPECT_NE(refusal("shm:").find("shm:NAME"), std::string::npos);
  EXPECT_NE(refusal("shm:a/b").find("letters, digits"), std::string::npos);
  EXPECT_NE(refusal("shm:..").find("letters, digits"), std::string::npos);
  EXPECT_NE(refusal("loop:x").find("takes nothing"), std::string::npos);
  EXPECT_NE(refusal("tap:averyveryverylongname").find("15 characters"), std::string::npos);
}

TEST(MakeWire, OthersMayAddKinds) {
  register_wire_kind("test", [](const std::string& argument, std::string& error) -> std::unique_ptr<Wire> {
    error = "asked for " + argument;
    return nullptr;
  });
  EXPECT_EQ(refusal("test:a:b"), "asked for a:b");
  EXPECT_NE(refusal("nonsense").find("test:..."), std::string::npos);
}

TEST(PlainWires, NothingPluggedInLosesFrames) {
  const auto wire = must_make("none");
  EXPECT_FALSE(wire->connected());
  EXPECT_TRUE(put(*wire, numbered_frame(1, 9214)));
  wire->flush(1);
  EXPECT_TRUE(take(*wire).empty());
}

TEST(PlainWires, LoopGivesBackInOrderAfterTheFlush) {
  const auto wire = must_make("loop");
  EXPECT_TRUE(wire->connected());
  uint32_t sent = 0;
  uint32_t received = 0;
  for (int round = 0; round < 2000; round++) {
    const size_t bytes = 60 + static_cast<size_t>(round) * 37 % 9155;
    while (sent - received < 40 && put(*wire, numbered_frame(sent, bytes))) sent++;
    EXPECT_EQ(round == 0 ? take(*wire) : Frame(), Frame()) << "nothing before the flush";
    wire->flush(static_cast<uint64_t>(round));
    for (Frame frame = take(*wire); !frame.empty(); frame = take(*wire), received++) {
      ASSERT_EQ(frame, numbered_frame(received, frame.size()));
    }
    wire->flush(static_cast<uint64_t>(round));
    ASSERT_EQ(received, sent);
  }
  EXPECT_GT(sent, 50'000u);
}

TEST(PlainWires, FullLoopTakesNoMore) {
  const auto wire = must_make("loop");
  uint32_t sent = 0;
  while (put(*wire, numbered_frame(sent, 9214))) ASSERT_LT(sent++, 1000u);
  EXPECT_GT(sent, 100u);
  wire->flush(1);
  EXPECT_FALSE(put(*wire, numbered_frame(sent, 9214)));
  ASSERT_FALSE(take(*wire).empty());
  ASSERT_FALSE(take(*wire).empty());
  EXPECT_FALSE(put(*wire, numbered_frame(sent, 9214))) << "what was read becomes free at the flush";
  wire->flush(2);
  EXPECT_TRUE(put(*wire, numbered_frame(sent, 9214)));
  EXPECT_TRUE(wire->reserve(kFrameBytesMax + 1).empty());
}

}  // namespace
}  // namespace mqnic::card
