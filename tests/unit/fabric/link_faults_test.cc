// The text of `uroce run --faults`.
#include "fabric/link_faults.h"

#include <gtest/gtest.h>

namespace uroce::fabric {
namespace {

LinkFaults parsed_link(std::string_view text) {
  LinkFaults faults;
  EXPECT_EQ(parse_link_faults(text, faults), "") << text;
  return faults;
}

TEST(LinkFaults, NothingIsSaid) { EXPECT_TRUE(LinkFaults().empty()); }

TEST(LinkFaults, EveryWord) {
  const LinkFaults faults = parsed_link(R"(
    loss 1%; delay all by 50us   # of what is sent
    rate 100M
    queue 256K; ecn kmin=20K,kmax=100K,pmax=0.1
    frames 100; seed 7
    in: loss 2%; duplicate 3% within 5us
    out: mark every 100 data
  )");
  EXPECT_DOUBLE_EQ(faults.out.loss, 0.01);
  ASSERT_EQ(faults.out.rules.size(), 2u);
  EXPECT_EQ(faults.out.rules[0].action, FaultRule::Action::kDelay);
  EXPECT_EQ(faults.out.rules[1].action, FaultRule::Action::kMark);
  EXPECT_EQ(faults.bits_per_second, 100'000'000u);
  EXPECT_EQ(faults.queue_bytes, 256'000u);
  ASSERT_TRUE(faults.ecn);
  EXPECT_EQ(faults.ecn->kmax_bytes, 100'000u);
  EXPECT_EQ(faults.frames, 100u);
  EXPECT_EQ(faults.seed, 7u);
  EXPECT_DOUBLE_EQ(faults.in.loss, 0.02);
  EXPECT_DOUBLE_EQ(faults.in.duplicate, 0.03);
  EXPECT_FALSE(faults.empty());
}

TEST(LinkFaults, WhatIsWrittenIsReadAsTheSame) {
  EXPECT_EQ(to_text(parsed_link("in: loss 1%; out: rate 1G; ecn on; seed 9")),
            "rate 1000000000; ecn on; seed 9; in: loss 0.01");
  EXPECT_EQ(to_text(parsed_link("drop 2nd")), "drop 2");
  for (const char* text : {"loss 1%", "in: jitter 3us", "rate 1.5M; queue 9K; ecn kmin=1K,kmax=2K,pmax=0.25; frames 8",
                           "rate 1K; loss 1%; in: drop 1st ack; seed 18446744073709551615"}) {
    const std::string written = to_text(parsed_link(text));
    EXPECT_EQ(written.find('\n'), std::string::npos);
    EXPECT_EQ(to_text(parsed_link(written)), written) << text;
  }
}

TEST(LinkFaults, WhatIsWrong) {
  const auto error = [](std::string_view text) {
    LinkFaults faults;
    const std::string why = parse_link_faults(text, faults);
    EXPECT_TRUE(faults.empty()) << text;  // all or nothing
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    return why;
  };
  EXPECT_EQ(error(""), "no fault is named");
  EXPECT_EQ(error("seed 7; # loss 1%"), "no fault is named");
  EXPECT_EQ(error("loss=1%"), "loss=1%: no such fault");
  EXPECT_EQ(error("loss 1%; loss x"), "loss: 'x' stands where a probability (1%, 0.01) is wanted");
  EXPECT_EQ(error("in: rate 1G"), "rate: only for what is sent (out:)");
  EXPECT_EQ(error("in: queue 1K; rate 1G"), "queue: only for what is sent (out:)");
  EXPECT_EQ(error("rate 999"), "rate: '999' stands where bits a second (1G, 500M; at least 1K) are wanted");
  EXPECT_EQ(error("loss 1%; ecn on"), "ecn marks what waits for a rate: name that, too");
  EXPECT_EQ(error("loss 1%; queue 1K"), "a queue is one in front of a rate: name that, too");
  EXPECT_EQ(error("rate 1G; ecn kmin=2K,kmax=1K"), "ecn: kmin is above kmax");
  EXPECT_EQ(error("rate 1G; frames 65537"), "frames: '65537' stands where a number from 1 to 65536 is wanted");
  for (const char* text : {"rate", "rate 1G 2G", "rate 1G; queue", "rate 1G; queue 0", "rate 1G; ecn",
                           "loss 1%; frames", "loss 1%; frames 0", "loss 1%; seed", "loss 1%; seed -1",
                           "loss 1%; seed 1x", "in:", "both: loss 1%", "in: out: loss", "rate 900T; ecn on"}) {
    EXPECT_NE(error(text), "") << text;
  }
}

TEST(LinkFaults, AnyTextAtAll) {
  const std::string_view words[] = {"loss", "1%", "in:", "out:", "rate", "1G",   "queue",  "10K", "ecn", "on",
                                    ";",    "\n", "#",   "seed", "7",    "drop", "frames", "64",  "\t",  "kmin=1K"};
  SeededRandom random(4);
  unsigned good = 0;
  for (unsigned repeat = 0; repeat < 50'000; repeat++) {
    std::string text;
    for (uint32_t n = random.below(8); n > 0; n--) {
      text += words[random.below(static_cast<uint32_t>(std::size(words)))];
      if (random.below(4) != 0) text += ' ';
    }
    LinkFaults faults;
    if (!parse_link_faults(text, faults).empty()) continue;
    good++;
    EXPECT_EQ(to_text(parsed_link(to_text(faults))), to_text(faults)) << text;
  }
  EXPECT_GT(good, 300u);
}

}  // namespace
}  // namespace uroce::fabric
