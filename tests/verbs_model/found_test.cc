// Programs that were found, in the form in which they were printed. Each failed once, on the engine of that time.
#include <gtest/gtest.h>

#include "verbs_model/run.h"

namespace uroce::model {
namespace {

/// A WRITE behind a request that failed locally was sent, and succeeded.
TEST(Found, NothingIsSentBehindALocalError) {
  const Program program{
      .seed = 25025,
      .steps = {
          {.what = Do::kPost, .opcode = WrOpcode::kRdmaWriteWithImm, .sges = {{.length = 1, .wrong_key = true}}},
          {.what = Do::kPost, .qp = 1, .region = Region::kReadOnly, .opcode = WrOpcode::kRdmaRead},
          {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .sges = {{.length = 1}}},
      }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// Two errors in one queue: the second request was checked before the queue pair was in ERR.
TEST(Found, OneErrorAndThenOnlyFlushes) {
  const Program program{.seed = 5499,
                        .endpoints = {{}},
                        .qps = {{.endpoint = 0}, {.endpoint = 0}},
                        .steps = {
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite},
                            {.what = Do::kSettle},
                            {.what = Do::kDeregister, .region = Region::kSource},
                            {.what = Do::kReceive, .qp = 1},
                            {.what = Do::kPost, .qp = 1, .opcode = WrOpcode::kRdmaWrite, .sges = {{.length = 1}}},
                            {.what = Do::kPost, .qp = 1, .opcode = WrOpcode::kRdmaWrite, .sges = {{.length = 1}}},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// A long WRITE fails in the middle, behind one that is acknowledged meanwhile: acknowledging went on in an empty
/// queue.
TEST(Found, ALocalErrorBehindAnAcknowledgement) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const Program program{
        .seed = seed,
        .steps = {
            {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .flags = kSendSignaled, .sges = {{.length = 100}}},
            {.what = Do::kPost,
             .opcode = WrOpcode::kRdmaWrite,
             .sges = {{.length = 10'240}, {.length = 6000, .wrong_key = true}}},
            {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .flags = kSendSignaled, .sges = {{.length = 100}}},
            {.what = Do::kPost,
             .opcode = WrOpcode::kRdmaRead,
             .flags = kSendSignaled,
             .sges = {{.region = Region::kLanding, .length = 8}}},
        }};
    EXPECT_EQ(run_on_engines(program, Rules{}), "");
  }
}

TEST(Found, SlotsAreFreeWhenTheirCompletionsArePolled) {
  const Program program{.qps = {{.endpoint = 1, .send_wrs = 2}, {.endpoint = 0}},
                        .steps = {
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaRead},
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaRead},
                            {.what = Do::kSettle},
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

TEST(Found, ResetAndDestructionTakeCompletionsAway) {
  for (const Step& end : {Step{.what = Do::kModify, .state = QpState::kReset}, Step{.what = Do::kDestroy}}) {
    const Program program{.steps = {
                              {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .flags = kSendSignaled},
                              {.what = Do::kSettle},
                              end,
                          }};
    EXPECT_EQ(run_on_engines(program, Rules{}), "");
  }
}

TEST(Found, FlushedPostsHaveATime) {
  const Program program{.steps = {
                            {.what = Do::kModify, .state = QpState::kErr},
                            {.what = Do::kPost},
                            {.what = Do::kReceive},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// UC: the WRITE behind a refused bind was executed.
TEST(Found, AFailedBindStopsAnUnreliableQueue) {
  const Program program{
      .qps = {{.endpoint = 0, .type = QpType::kUc}, {.endpoint = 1, .type = QpType::kUc}},
      .steps = {
          {.what = Do::kPost, .opcode = WrOpcode::kBindMw, .wrong_rkey = true, .length = 10'000, .access = kRemoteRead},
          {.what = Do::kPost, .opcode = WrOpcode::kRdmaWrite, .flags = kSendSignaled},
      }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// The RNR NAK was about the WRITE; the READ, whose response was lost, failed for it.
TEST(Found, ANakBehindALostReadResponseIsNotTheReads) {
  const Program program{
      .seed = 1142,
      .qps = {{.endpoint = 1, .mtu = 256, .rnr_retries = 0}, {.endpoint = 0, .mtu = 256}},
      .faults = {{1, "corrupt 19 any"}},
      .steps = {
          {.what = Do::kPost, .opcode = WrOpcode::kRdmaRead, .sges = {{.region = Region::kLanding, .length = 5549}}},
          {.what = Do::kPost, .opcode = WrOpcode::kRdmaWriteWithImm},
      }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// The credit ended in the middle of a message, and no packet in flight had asked for an ACK: only a timeout helped,
/// and here there is none left.
TEST(Found, CreditThatEndsInAMessage) {
  const Program program{.seed = 8766,
                        .endpoints = {{}, {}, {}, {}},
                        .qps = {{.endpoint = 0, .mtu = 256, .retries = 0}, {.endpoint = 1, .mtu = 256}},
                        .steps = {
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaRead},
                            {.what = Do::kPost},
                            {.what = Do::kPost, .opcode = WrOpcode::kRdmaWriteWithImm, .sges = {{.length = 7936}}},
                            {.what = Do::kReceive, .qp = 1},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// A fault of the model: it expected the bind to be refused. But the other queue pair is served first, and its
/// invalidation, posted later, frees the window.
TEST(Found, AnInvalidationThatWasPostedLaterAndComesFirst) {
  const Program program{.seed = 2170045,
                        .endpoints = {{}},
                        .qps = {{.endpoint = 0, .type = QpType::kUc}, {.endpoint = 0, .type = QpType::kUc}},
                        .steps = {
                            {.what = Do::kPost,
                             .qp = 1,
                             .opcode = WrOpcode::kBindMw,
                             .flags = kSendSignaled,
                             .window = Region::kWindow2,
                             .length = 2828,
                             .access = kRemoteWrite | kRemoteRead},
                            {.what = Do::kSettle},
                            {.what = Do::kPost, .qp = 1, .region = Region::kWindow2, .opcode = WrOpcode::kRdmaWrite},
                            {.what = Do::kPoll, .count = 64},
                            {.what = Do::kPost,
                             .opcode = WrOpcode::kBindMw,
                             .window = Region::kWindow2,
                             .length = 6621,
                             .access = kRemoteWrite | kRemoteRead},
                            {.what = Do::kPost, .qp = 1, .opcode = WrOpcode::kLocalInv, .window = Region::kWindow2},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// A fault of the model: after a RESET there is no path whose MTU could make a READ too long.
TEST(Found, ALongReadInErrorBehindAReset) {
  const Program program{
      .seed = 2188284,
      .endpoints = {{}, {}},
      .qps = {{.endpoint = 1}, {.endpoint = 0}, {.endpoint = 0, .mtu = 256}, {.endpoint = 1, .mtu = 256}},
      .steps = {
          {.what = Do::kModify, .qp = 2, .state = QpState::kReset},
          {.what = Do::kModify, .qp = 2},
          {.what = Do::kPost,
           .qp = 2,
           .opcode = WrOpcode::kRdmaRead,
           .sges = {{.region = Region::kLanding, .offset = 4387, .length = 0x80000000}}},
      }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

/// The memory of a READ was deregistered while its response waited to be sent. The receive of the SEND behind it, which
/// had begun, failed for it.
TEST(Found, AReadThatIsRefusedLateIsNotTheReceives) {
  const Program program{.seed = 6578787,
                        .endpoints = {{}, {}},
                        .qps = {{.endpoint = 1, .mtu = 256}, {.endpoint = 0, .mtu = 256}},
                        .faults = {{1, "drop 6 any"}, {1, "corrupt 1 any"}},
                        .steps = {
                            {.what = Do::kPost,
                             .qp = 1,
                             .region = Region::kReadOnly,
                             .opcode = WrOpcode::kRdmaRead,
                             .sges = {{.region = Region::kLanding, .offset = 12041, .length = 300}}},
                            {.what = Do::kPost, .qp = 1, .sges = {{.length = 257}}},
                            {.what = Do::kReceive, .sges = {{.region = Region::kLanding, .length = 300}}},
                            {.what = Do::kRun, .count = 7471},
                            {.what = Do::kDeregister, .endpoint = 1, .region = Region::kReadOnly},
                        }};
  EXPECT_EQ(run_on_engines(program, Rules{}), "");
}

}  // namespace
}  // namespace uroce::model
