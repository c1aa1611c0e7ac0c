// Which answers may be missing on one side.
#include "replay/answer_pairs.h"

#include <gtest/gtest.h>

#include "roce_frame.h"

namespace uroce::replay {
namespace {

class AnswerPairsTest : public ::testing::Test {
 protected:
  static Recorded packet(uint8_t operation, uint32_t psn, const Bytes& extension = {}) {
    Bth bth;
    bth.opcode = make_opcode(Service::kRc, operation);
    bth.pkey = kDefaultPkey;
    bth.psn = Psn(psn);
    Recorded made;
    made.bytes = test::frame_of(test::ipv4_path(), bth, extension, {});
    made.parsed = parse_frame(made.bytes, made.view) == ParseResult::kOk;
    made.icrc_right = true;
    made.response = made.view.info->is_response();
    return made;
  }
  static Recorded ack(uint32_t psn, uint32_t msn) {
    Bytes aeth;
    test::append(aeth, Aeth{make_syndrome(AethKind::kAck, 5), msn});
    return packet(kOpAcknowledge, psn, aeth);
  }
  void ours(uint32_t psn, uint32_t msn, size_t cause) {
    OurAnswer answer;
    answer.bytes = ack(psn, msn).bytes;
    EXPECT_EQ(parse_frame(answer.bytes, answer.view), ParseResult::kOk);
    answer.cause = cause;
    ours_.push_back(std::move(answer));
  }
  /// The PSNs of recorded answers that we lack, and whose absence nothing excuses.
  std::vector<Psn> lacking() {
    RoleResult result;
    const MsnByPsn progress{{3, 1}, {4, 2}, {5, 3}};
    pair_answers(conversation_, ours_, progress, result);
    std::vector<Psn> psns;
    for (const Difference& difference : result.differences) psns.push_back(at(difference.frame));
    return psns;
  }
  Psn at(uint64_t frame) const { return conversation_.packets.at(frame - 1).psn(); }
  void recorded(Recorded made) {
    made.frame = conversation_.packets.size() + 1;
    conversation_.packets.push_back(std::move(made));
    Recorded& there = conversation_.packets.back();
    EXPECT_EQ(parse_frame(there.bytes, there.view), ParseResult::kOk);
  }

  Conversation conversation_;
  std::vector<OurAnswer> ours_;
};

/// A responder may acknowledge more often than we do, but what it has acknowledged stays acknowledged.
TEST_F(AnswerPairsTest, NoneAcknowledgesLessThanBefore) {
  for (const uint32_t psn : {3u, 4u, 5u}) recorded(packet(kOpSendOnly, psn));
  recorded(ack(4, 2));
  recorded(ack(5, 3));
  ours(5, 3, 2);
  EXPECT_TRUE(lacking().empty()) << "one more, on the way";
  recorded(ack(3, 1));
  recorded(ack(4, 2));
  EXPECT_EQ(lacking(), (std::vector<Psn>{Psn(3), Psn(4)})) << "more than the one before it, but less than the newest";
}

}  // namespace
}  // namespace uroce::replay
