// The script language itself: what it refuses, and what a failure looks like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "script/lexer.h"
#include "script/runner.h"
#include "script/text.h"

namespace uroce::script {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The error with which `text` is refused; empty when it is accepted.
std::string refused(const std::string& text) {
  try {
    run(parse("x.rdrill", text));
  } catch (const ScriptError& error) {
    return explain("x.rdrill", split_lines(text), error.where(), error.what());
  }
  return "";
}

std::string report_of(const std::string& text) { return run(parse("x.rdrill", text)).report; }

constexpr const char* kPlain = "qp 1 rc\nmr 1 4K\n";

TEST(ScriptNumbers, AreSumsOfIntegersAndRounds) {
  EXPECT_EQ(to_number("7")->base, 7);
  EXPECT_EQ(to_number("-7")->base, -7);
  EXPECT_EQ(to_number("0x10")->base, 16);
  EXPECT_EQ(to_number("4K")->base, 4096);
  EXPECT_EQ(to_number("3+64*i-1")->at(2), 130);
  EXPECT_EQ(to_number("i")->at(5), 5);
  for (const char* wrong : {"", "x", "1+", "1*2", "0x", "1 2", "i2"}) EXPECT_FALSE(to_number(wrong)) << wrong;
}

TEST(ScriptTimes, HaveUnits) {
  EXPECT_EQ(to_duration("0")->ns, 0);
  EXPECT_EQ(to_duration("15ns")->ns, 15);
  EXPECT_EQ(to_duration("4.096us")->ns, 4096);
  EXPECT_EQ(to_duration("1.048576ms")->ns, 1048576);
  EXPECT_EQ(to_duration("2s")->ns, 2'000'000'000);
  for (const char* wrong : {"", "1", "us", "1.2.3us", "5m"}) EXPECT_FALSE(to_duration(wrong)) << wrong;
}

TEST(ScriptTimes, ArePrintedAsTheyAreWritten) {
  EXPECT_EQ(to_text(Duration{0}), "0");
  EXPECT_EQ(to_text(Duration{4096}), "4.096us");
  EXPECT_EQ(to_text(Duration{1048576}), "1.048576ms");
  EXPECT_EQ(to_text(Duration{2'000'000'000}), "2s");
  EXPECT_EQ(to_text(Duration{1'000'000'001}), "1.000000001s");
}

TEST(ScriptErrors, PointAtThePlace) {
  EXPECT_EQ(refused("qp 1 rc mtu 1024 bogus 3").substr(0, 52), "x.rdrill:1:18: `bogus` does not belong to `qp`; it k");
  EXPECT_THAT(refused("qp 1 rc mtu 1024 bogus 3"), HasSubstr("    1 | qp 1 rc mtu 1024 bogus 3\n"
                                                             "      |                  ^~~~~\n"));
}

TEST(ScriptErrors, EveryKind) {
  struct Case {
    const char* text;
    const char* place;
    const char* reason;
  };
  const Case cases[] = {
      {"frobnicate 1", ":1:1:", "is not a statement"},
      {"qp 1 xc", ":1:6:", "a QP is rc, uc or ud"},
      {"qp 1 rc\nqp 1 rc", ":2:4:", "this number is taken"},
      {"qp 1 rc mtu", ":1:13:", "missing: a number"},
      {"qp 1 rc mtu x", ":1:13:", "is not a number"},
      {"qp 1 rc mtu 256 mtu 256", ":1:17:", "stands here twice"},
      {"qp 1 rc mtu 999", ":1:1:", "out of range"},
      {"qp 1 rc access fly", ":1:16:", "rights are"},
      {"+5 qp 1 rc", ":1:1:", "not a time"},
      {"+5us..2us qp 1 rc", ":1:1:", "ends before it begins"},
      {"& qp 1 rc", ":1:1:", "nothing stands before"},
      {"qp 1 rc\n+0..1us < SEND_ONLY psn 0", ":2:9:", "only what is expected"},
      {"qp 1 rc\n< SEND_EVERY psn 0", ":2:3:", "not a packet's name"},
      {"< SEND_ONLY psn 0", ":1:1:", "there is no qp yet"},
      {"qp 1 rc\n< WRITE_ONLY psn 0 at mr1", ":2:23:", "mr1 is not there yet"},
      {"qp 1 rc\n< SEND_ONLY psn 0 qp 2", ":2:19:", "there is no such qp"},
      {"qp 1 rc\npost 1 fly", ":2:8:", "this cannot be posted"},
      {"qp 1 rc\nstate 1 flying", ":2:9:", "not a QP state"},
      {"qp 1 rc\nstate 2 rts", ":2:7:", "there is no qp 2"},
      {"qp 1 rc\ncompletion 1 fine", ":2:14:", "not a completion status"},
      {"qp 1 rc\ncounter rx_drop_moon 1", ":2:9:", "there is no such counter"},
      {"qp 1 rc\nengine credits", ":2:1:", "has to be the first"},
      {"repeat 3", ":1:1:", "has no `end`"},
      {"end", ":1:1:", "no `repeat`"},
      {"repeat 2\nrepeat 2\nend\nend", ":2:1:", "inside"},
      {"engine recovery sometimes", ":1:17:", "go_back_n, auto or selective"},
      {"qp 1 rc\n< SACK psn 0 held 3..", ":2:19:", "not PSNs"},
      {"qp 1 rc\nraw hex 020", ":2:9:", "odd number"},
      {"qp 1 rc\nraw hex zz", ":2:9:", "not bytes"},
      {"qp 1 rc\nmr 1 64\nmemory mr1+60 8 pattern 1", ":3:8:", "not inside the region"},
      {"qp 1 rc\nmr 1 64\nmemory mr1+0 8", ":3:1:", "say what the memory holds"},
      {"engine max_frame 200", ":1:1:", "max_frame is from 369 to 65535"},
      {"engine max_qps 0", ":1:1:", "max_qps is from 1 to 65535"},
      {"qp 1 rc\ndestroy 1\ndestroy 1", ":3:1:", "this QP was destroyed"},
  };
  for (const Case& c : cases) {
    const std::string error = refused(c.text);
    EXPECT_THAT(error, HasSubstr(std::string("x.rdrill") + c.place)) << c.text;
    EXPECT_THAT(error, HasSubstr(c.reason)) << c.text;
  }
}

TEST(ScriptRuns, APassingScriptHasNoReport) {
  const Result result =
      run(parse("x.rdrill", std::string(kPlain) + "< WRITE_ONLY psn 0 ack_req at mr1 payload 8 pattern 1\n"
                                                  "> ACK psn 0 msn 1\nmemory mr1+0 8 pattern 1"),
          true);
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.report, "");
  ASSERT_EQ(result.frames.size(), 2u);
  EXPECT_FALSE(result.frames[0].sent);
  EXPECT_TRUE(result.frames[1].sent);
}

TEST(ScriptRuns, ADifferentPacketIsShownFieldByField) {
  const std::string report =
      report_of(std::string(kPlain) + "< WRITE_ONLY psn 0 ack_req at mr1+4090 payload 8\n> ACK psn 0 msn 1");
  EXPECT_THAT(report, HasSubstr("x.rdrill:4:1: this packet differs\n    4 | > ACK psn 0 msn 1\n      | ^\n"));
  EXPECT_THAT(report, HasSubstr("  * packet       ACK       NAK\n"));
  EXPECT_THAT(report, HasSubstr("    psn          0         0\n"));
  EXPECT_THAT(report, HasSubstr("  < WRITE_ONLY psn 0 ack_req at mr1+4090 len 8 payload 8\n"));
  EXPECT_THAT(report, HasSubstr("resp_remote_access_errors 1"));
  EXPECT_THAT(report, HasSubstr("refused a request: the peer's rkey is unknown"));
}

TEST(ScriptRuns, AnUnexpectedPacketFails) {
  const std::string text = std::string(kPlain) + "< WRITE_ONLY psn 0 ack_req at mr1 payload 8\n";
  EXPECT_THAT(report_of(text), HasSubstr("sent although the script does not expect it, at 0:\n    > ACK psn 0 msn 1"));
  EXPECT_THAT(report_of(text + "+1us nothing"), HasSubstr("sent although the script does not expect it"));
}

TEST(ScriptRuns, AMissingPacketFails) {
  EXPECT_THAT(report_of(std::string(kPlain) + "+5us > ACK psn 0"), HasSubstr("nothing was sent until 5us"));
}

TEST(ScriptRuns, TheTimeIsExact) {
  const std::string text = std::string(kPlain) + "post 1 write mr1+0 8\n";
  EXPECT_THAT(report_of(text + "+1us > WRITE_ONLY psn 0 ack_req payload 8"),
              HasSubstr("  * time         1us         0\n"));
  EXPECT_EQ(report_of(text + "+0..1us > WRITE_ONLY psn 0 ack_req payload 8"), "");
  EXPECT_EQ(report_of(text + "@0 > WRITE_ONLY psn 0 ack_req payload 8"), "");
}

TEST(ScriptRuns, FieldsThatAreNotMentionedHaveTheirUsualValues) {
  EXPECT_THAT(report_of(std::string(kPlain) + "post 1 write mr1+0 8\n> WRITE_ONLY psn 0 payload 8"),
              HasSubstr("  * ack_req      no          yes\n"));
  EXPECT_THAT(report_of(std::string(kPlain) + "post 1 write mr1+0 8\n> WRITE_ONLY psn 0 ack_req"),
              HasSubstr("  * payload      0           8\n"));
}

TEST(ScriptRuns, PayloadIsCompared) {
  const std::string text = std::string(kPlain) + "post 1 write mr1+0 8\n> WRITE_ONLY psn 0 ack_req payload 8 ";
  EXPECT_EQ(report_of(text + "data mr1+0"), "");
  EXPECT_THAT(report_of(text + "data mr1+1"), HasSubstr("* data"));
}

TEST(ScriptRuns, CompletionsMustBeExpected) {
  const std::string text =
      std::string(kPlain) + "post 1 write mr1+0 8 wrid 7\n> WRITE_ONLY psn 0 ack_req payload 8\n< ACK psn 0\n";
  EXPECT_THAT(report_of(text), HasSubstr("completed although the script does not expect it"));
  EXPECT_EQ(report_of(text + "completion 1 write success wrid 7"), "");
  EXPECT_THAT(report_of(text + "completion 1 write success wrid 8"), HasSubstr("* wrid         8         7\n"));
}

TEST(ScriptRuns, CountersAndStatesMustBeMentioned) {
  const std::string text = std::string(kPlain) + "< SEND_ONLY psn 0 tver 1\n";
  EXPECT_THAT(report_of(text), HasSubstr("* rx_drop_bad_tver 0         1\n"));
  EXPECT_EQ(report_of(text + "counter rx_drop_bad_tver 1"), "");
  EXPECT_THAT(report_of(std::string(kPlain) + "< SEND_LAST psn 0\n> NAK psn 0 code invalid"),
              HasSubstr("changed its state although the script does not expect it"));
}

TEST(ScriptRuns, SelectiveAcksAreShownAndCompared) {
  const std::string text =
      "engine recovery selective\nqp 1 rc\nmr 1 4K\n"
      "< WRITE_ONLY psn 3 at mr1 payload 8\n";
  const std::string counters = "\ncounter rx_out_of_order_held 1\ncounter out_of_sequence 1";
  EXPECT_EQ(report_of(text + "> SACK psn -1 held 3" + counters), "");
  EXPECT_THAT(report_of(text + "> SACK psn -1 held 3..4" + counters), HasSubstr("  * held         3..4      3\n"));
  EXPECT_THAT(report_of(text), HasSubstr("    > SACK psn -1 msn 0 held 3"));
  EXPECT_THAT(report_of(text + "> ACK psn -1" + counters), HasSubstr("  * packet       ACK       SACK\n"));
}

TEST(ScriptRuns, SignedPacketsMakeAPeer) {
  const std::string first = "engine recovery auto\nqp 1 rc\nmr 1 4K\nrepeat 3\n< WRITE_ONLY psn i at mr1 payload 8 ";
  const std::string then = "\nend\n< WRITE_ONLY psn 4 at mr1 payload 8 signed\n";
  EXPECT_THAT(report_of(first + "signed" + then), HasSubstr("> SACK psn 2"));
  EXPECT_THAT(report_of(first + then), HasSubstr("> NAK psn 3"));
}

constexpr const char* kRequest = "cm 1 listen\n<mad REQ\ncm_event 2 request\n";

TEST(ScriptErrors, OfConnectionManagement) {
  EXPECT_THAT(refused("<mad RQE"), HasSubstr(":1:6: not a message of connection management"));
  EXPECT_THAT(refused("<mad RTU qpn 5"), HasSubstr(":1:10: a RTU has no such field"));
  EXPECT_THAT(refused("<mad REQ data 123"), HasSubstr("are not bytes in hexadecimal"));
  EXPECT_THAT(refused("<mad REP ari 00"), HasSubstr("a REJ has 72 bytes of it"));
  EXPECT_THAT(refused("cm 1 fly"), HasSubstr(":1:6: an id cannot do this"));
  EXPECT_THAT(refused("cm 1 accept"), HasSubstr(":1:4: there is no such id"));
  EXPECT_THAT(refused("cm 1 listen\ncm 1 listen port 7"), HasSubstr(":2:4: this number is taken"));
  EXPECT_THAT(refused("cm 1 connect qp 3"), HasSubstr("there is no such qp"));
  EXPECT_THAT(refused("cm_event 1 fly"), HasSubstr("not an event of an id"));
}

/// No value is silently cut to the width of its field.
TEST(ScriptErrors, WhatDoesNotFit) {
  EXPECT_THAT(refused("<mad REQ qpn 0x1000000"), HasSubstr(":1:10: `qpn` does not fit: it has 24 bits"));
  EXPECT_THAT(refused("<mad REQ retry_cnt 8"), HasSubstr("it has 3 bits"));
  EXPECT_THAT(refused("<mad REQ id -1"), HasSubstr("it has 32 bits"));
  EXPECT_THAT(refused("repeat 3\n<mad DREP id 0xffffffff+i\nend"), HasSubstr(":2:11: `id` does not fit"));
  EXPECT_THAT(refused("<mad REQ port 65536"), HasSubstr("`port` does not fit"));
  EXPECT_THAT(refused("<mad REQ class 256"), HasSubstr("`class` does not fit"));
  EXPECT_THAT(refused("<mad REQ attribute 0x10010"), HasSubstr("`attribute` does not fit"));
  EXPECT_THAT(refused("<mad REQ src_qp 0x1000001"), HasSubstr("`src_qp` does not fit"));
  EXPECT_THAT(refused("cm 1 listen port 65536"), HasSubstr(":1:13: `port` does not fit"));
  EXPECT_THAT(refused("cm 1 listen\n<mad REQ\ncm_event 2 request\ncm 2 accept depth 256"),
              HasSubstr(":4:13: `depth` does not fit"));
}

/// All of it, not only as many bytes as the script gives.
TEST(ScriptRuns, AllPrivateDataOfAnEventIsCompared) {
  const std::string arrives = "cm 1 listen\n<mad REQ data 0102\ncm_event 2 request data ";
  EXPECT_THAT(report_of(arrives + "01"), HasSubstr("* data"));
  EXPECT_EQ(report_of(arrives + "0102"), "");
  EXPECT_EQ(report_of(arrives + "010200"), "") << "how many zeros follow, no message says";
}

TEST(ScriptRuns, MessagesAreShownAndComparedFieldByField) {
  const std::string accepted = std::string(kRequest) + "cm 2 accept qpn 0x600 data 0102\n";
  EXPECT_EQ(report_of(accepted + ">mad REP qpn 0x600 data 0102"), "");
  EXPECT_THAT(report_of(accepted + ">mad REP qpn 0x601 data 0102"),
              HasSubstr("* qpn          0x601             0x600\n"));
  EXPECT_THAT(report_of(accepted + ">mad REP"), HasSubstr("* data         none              0102\n"));
  EXPECT_THAT(report_of(accepted + ">mad REP peer 0x78 data 0102"), HasSubstr("* peer         0x78"));
  EXPECT_THAT(report_of(accepted + ">mad REP tid 5 data 0102"), HasSubstr("* tid          0x5               0x1077\n"));
  EXPECT_THAT(report_of(accepted + ">mad REJ"), HasSubstr("* message      REJ       REP\n"));
  EXPECT_THAT(report_of(accepted), HasSubstr("> mad REP id 0x1 peer 0x77 qpn 0x600 tid 0x1077"));
}

TEST(ScriptRuns, EventsOfIdsMustBeExpected) {
  EXPECT_EQ(report_of(kRequest), "");
  EXPECT_THAT(report_of("cm 1 listen\n<mad REQ"), HasSubstr("happened although the script does not expect it, at 0"));
  EXPECT_THAT(report_of("cm 1 listen\ncm_event 2 request"), HasSubstr("nothing happened until 0"));
  EXPECT_THAT(report_of("cm 1 listen\n<mad REQ data 01\ncm_event 2 request data 02"), HasSubstr("* data"));
  EXPECT_THAT(report_of("cm 1 listen\n<mad REQ qpn 7\ncm_event 2 request qpn 8"), HasSubstr("* qpn"));
  EXPECT_THAT(report_of("cm 1 listen\ncm 1 accept"), HasSubstr("this call is EINVAL, and not accepted"));
}

TEST(ScriptRuns, CountersOfConnectionManagementMustBeMentioned) {
  const std::string unknown = "cm 1 listen\n<mad DREP peer 9\n";
  EXPECT_THAT(report_of(unknown), HasSubstr("* cm_drop_unknown_id 0         1\n"));
  EXPECT_EQ(report_of(unknown + "counter cm_drop_unknown_id 1"), "");
}

TEST(ScriptRuns, RoundsAreCounted) {
  const std::string report = report_of(std::string(kPlain) +
                                       "repeat 3\n< WRITE_ONLY psn i ack_req at mr1+8*i payload 8\n"
                                       "> ACK psn i msn 1+i\nend");
  EXPECT_EQ(report, "");
}

}  // namespace
}  // namespace uroce::script
