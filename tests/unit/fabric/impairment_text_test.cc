// The text form of faults.
#include <gtest/gtest.h>

#include "fabric/impairments.h"

namespace uroce::fabric {
namespace {

ImpairmentConfig parsed(std::string_view text) {
  ImpairmentConfig config;
  EXPECT_EQ(parse_impairments(text, config), "") << text;
  return config;
}

TEST(ImpairmentText, EveryWord) {
  const ImpairmentConfig config = parsed(R"(
    # a bad day
    loss 1%              # one in a hundred
    burst-loss to-bad=0.1% to-good=0.3 bad=90% good=1e-3
    corrupt 1e-4
    duplicate 2% within 7us; reorder 5% within 1.5ms
    jitter 300ns
    active from 1ms for 10ms every 1s
    down from 10ms for 2ms every 100ms
    down
    pause-storm prio=3 quanta=77 from 1ms for 5ms every 100us
    drop 2nd psn=77 qp=0x12
    delay 3-5 read-response by 50us
    duplicate 1 request by 5us
    corrupt opcode=0x04
    mark 2- data
    drop every 100 cnp
  )");
  EXPECT_DOUBLE_EQ(config.loss, 0.01);
  EXPECT_DOUBLE_EQ(config.burst.to_bad, 0.001);
  EXPECT_DOUBLE_EQ(config.burst.to_good, 0.3);
  EXPECT_DOUBLE_EQ(config.burst.loss_when_bad, 0.9);
  EXPECT_DOUBLE_EQ(config.burst.loss_when_good, 0.001);
  EXPECT_DOUBLE_EQ(config.corrupt, 1e-4);
  EXPECT_DOUBLE_EQ(config.duplicate, 0.02);
  EXPECT_EQ(config.duplicate_span.ns, 7'000);
  EXPECT_DOUBLE_EQ(config.reorder, 0.05);
  EXPECT_EQ(config.reorder_span.ns, 1'500'000);
  EXPECT_EQ(config.jitter.ns, 300);
  EXPECT_EQ(config.active.from.ns, 1'000'000);
  EXPECT_EQ(config.active.length.ns, 10'000'000);
  EXPECT_EQ(config.active.period.ns, 1'000'000'000);
  ASSERT_EQ(config.down.size(), 2u);
  EXPECT_EQ(config.down[0].period.ns, 100'000'000);
  EXPECT_TRUE(config.down[1].contains({INT64_MAX - 1}));
  ASSERT_EQ(config.pause_storms.size(), 1u);
  EXPECT_EQ(config.pause_storms[0].priorities, 8);
  EXPECT_EQ(config.pause_storms[0].quanta, 77);
  EXPECT_EQ(config.pause_storms[0].every.ns, 100'000);
  ASSERT_EQ(config.rules.size(), 6u);
  EXPECT_EQ(config.rules[0].action, FaultRule::Action::kDrop);
  EXPECT_EQ(config.rules[0].first, 2u);
  EXPECT_EQ(config.rules[0].last, 2u);
  EXPECT_EQ(config.rules[0].filter.psn, 77u);
  EXPECT_EQ(config.rules[0].filter.qp, 0x12u);
  EXPECT_EQ(config.rules[1].action, FaultRule::Action::kDelay);
  EXPECT_EQ(config.rules[1].last, 5u);
  EXPECT_EQ(config.rules[1].delay.ns, 50'000);
  EXPECT_EQ(config.rules[1].filter.what, FrameClass::kReadResponse);
  EXPECT_EQ(config.rules[2].action, FaultRule::Action::kDuplicate);
  EXPECT_EQ(config.rules[3].action, FaultRule::Action::kCorrupt);
  EXPECT_EQ(config.rules[3].filter.opcode, 4);
  EXPECT_EQ(config.rules[4].action, FaultRule::Action::kMark);
  EXPECT_EQ(config.rules[4].last, UINT64_MAX);
  EXPECT_EQ(config.rules[5].every, 100u);
  // The text, one line, is read back as the same configuration.
  const std::string text = to_text(config);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(to_text(parsed(text)), text);
}

TEST(ImpairmentText, Literally) {
  EXPECT_EQ(to_text(parsed("")), "");
  EXPECT_TRUE(parsed("  \n ; # nothing\n").empty());
  EXPECT_EQ(to_text(parsed("loss 100%; drop 2nd psn=77 qp=0x12; delay all ack by 1us; duplicate 1st")),
            "loss 1.0; drop 2 psn=77 qp=18; delay 1- ack by 1000ns; duplicate 1 by 0ns");
  EXPECT_EQ(to_text(parsed("corrupt 1.0; corrupt 1")), "corrupt 1.0; corrupt 1");  // a chance, and a rule
  EXPECT_EQ(to_text(parsed("down from 1ms for 1us")), "down from 1000000ns for 1000ns");
  ImpairmentConfig config = parsed("drop 1");
  EXPECT_EQ(parse_impairments("drop 2", config), "");  // is added
  EXPECT_EQ(config.rules.size(), 2u);
}

TEST(ImpairmentText, WhatIsWrongAndWhere) {
  const auto error = [](std::string_view text) {
    ImpairmentConfig config;
    std::string why = parse_impairments(text, config);
    EXPECT_TRUE(config.empty()) << text;  // all or nothing
    return why;
  };
  EXPECT_EQ(error("explode"), "line 1: explode: no such fault");
  EXPECT_EQ(error("loss 1%\nloss 200%"), "line 2: loss: '200%' stands where a probability (1%, 0.01) is wanted");
  EXPECT_EQ(error("jitter 5"), "line 1: jitter: '5' stands where a duration (20us, 1.5ms) is wanted");
  EXPECT_EQ(error("loss 1% 2%"), "line 1: loss: '2%' is not understood");
  EXPECT_EQ(error("drop 0"), "line 1: drop: frames are counted from 1 upwards");
  EXPECT_EQ(error("delay 1st"), "line 1: delay: delay by how much?");
  EXPECT_EQ(error("jitter 3601s"), "line 1: jitter: '3601s' stands where a duration (20us, 1.5ms) is wanted");
  EXPECT_EQ(error("drop 1 psn=0x1000000"), "line 1: drop: psn=0x1000000 is not a number up to 16777215");
  for (const char* text : {"loss",
                           "loss x",
                           "loss -1",
                           "loss 1%%",
                           "jitter us",
                           "jitter 1.2.3us",
                           "drop 5-3",
                           "drop 2ndd",
                           "drop 1-x",
                           "drop every",
                           "drop every 0",
                           "drop qp=",
                           "drop qp=12z",
                           "drop banana",
                           "drop 1 by 5us",
                           "down for",
                           "down 5us",
                           "pause-storm every 0ns",
                           "pause-storm prio=8",
                           "pause-storm quanta=65536",
                           "burst-loss to-bad=2",
                           "burst-loss x=1",
                           "mark opcode=256",
                           "drop 99999999999999999999",
                           "jitter 99999999999s"}) {
    EXPECT_NE(error(text), "") << text;
  }
}

TEST(ImpairmentText, AnyTextAtAll) {
  const std::string_view words[] = {"loss", "drop", "1%",          "2nd",    "psn=", "qp=7", "by",    "5us",
                                    ";",    "\n",   "#",           "every",  "down", "from", "all",   "1e",
                                    "-",    "=",    "pause-storm", "prio=3", "\t",   "0x",   "1e999", "%"};
  SeededRandom random(4);
  unsigned good = 0;
  for (unsigned repeat = 0; repeat < 50'000; repeat++) {
    std::string text;
    for (uint32_t n = random.below(8); n > 0; n--) {
      text += words[random.below(static_cast<uint32_t>(std::size(words)))];
      if (random.below(3) != 0) text += ' ';
    }
    ImpairmentConfig config;
    if (!parse_impairments(text, config).empty()) continue;
    good++;
    EXPECT_EQ(to_text(parsed(to_text(config))), to_text(config)) << text;
  }
  EXPECT_GT(good, 1000u);
}

}  // namespace
}  // namespace uroce::fabric
