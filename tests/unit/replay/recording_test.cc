// What a capture holds, sorted into conversations: what belongs together, and when it ends.
#include "replay/recording.h"

#include <gtest/gtest.h>

#include "cm/mad.h"
#include "roce_frame.h"

namespace uroce::replay {
namespace {

constexpr uint32_t kNearQpn = 0x11;
constexpr uint32_t kFarQpn = 0x12;

/// A capture of two hosts, a frame each millisecond.
class RecordingTest : public ::testing::Test {
 protected:
  /// Returns the time of the frame.
  Instant add(const Bytes& frame) {
    const auto word = [this](uint32_t value) {
      for (int shift = 0; shift < 32; shift += 8) file_.push_back(static_cast<uint8_t>(value >> shift));
    };
    if (file_.empty()) {
      for (const uint32_t value : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, 1u}) word(value);
    }
    frames_++;
    for (const uint32_t value : {0u, frames_ * 1000, uint32_t(frame.size()), uint32_t(frame.size())}) word(value);
    file_.insert(file_.end(), frame.begin(), frame.end());
    return Instant{int64_t{frames_} * 1'000'000};
  }
  static Route path(bool from_near) {
    Route path = test::ipv4_path();
    if (!from_near) std::swap(path.src_ip, path.dst_ip);
    return path;
  }
  Instant request(bool from_near, uint8_t operation, uint32_t psn, size_t bytes = 16) {
    Bth bth;
    bth.opcode = make_opcode(Service::kRc, operation);
    bth.pkey = kDefaultPkey;
    bth.dest_qp = from_near ? kFarQpn : kNearQpn;
    bth.psn = Psn(psn);
    bth.ack_req = true;
    return add(test::frame_of(path(from_near), bth, {}, Bytes(bytes)));
  }
  Instant ack(bool from_near, uint32_t psn, uint32_t msn, uint32_t qpn) {
    Bth bth;
    bth.opcode = make_opcode(Service::kRc, kOpAcknowledge);
    bth.pkey = kDefaultPkey;
    bth.dest_qp = qpn;
    bth.psn = Psn(psn);
    Bytes aeth;
    test::append(aeth, Aeth{make_syndrome(AethKind::kAck, 5), msn});
    return add(test::frame_of(path(from_near), bth, aeth, {}));
  }
  /// Adds the far end's DREQ.
  Instant dreq() {
    Bth bth;
    bth.opcode = make_opcode(Service::kUd, kOpSendOnly);
    bth.pkey = kDefaultPkey;
    bth.dest_qp = 1;
    Bytes deth;
    test::append(deth, Deth{0x80010000, 1});
    const cm::MadBytes mad = cm::encode(7, cm::Dreq{.local_id = 5, .remote_id = 6, .remote_qpn = kFarQpn});
    return add(test::frame_of(path(true), bth, deth, Bytes(mad.begin(), mad.end())));
  }
  Recording read() const { return read_recording(file_); }

  Bytes file_;
  uint32_t frames_ = 0;
};

TEST_F(RecordingTest, BothDirectionsOfAConnectionHaveOneMtu) {
  request(true, kOpSendFirst, 100, 1024);
  request(true, kOpSendLast, 101);
  ack(false, 101, 1, kNearQpn);
  request(false, kOpSendOnly, 500);
  ack(true, 500, 1, kFarQpn);
  const Recording recording = read();
  ASSERT_EQ(recording.conversations.size(), 2u);
  for (size_t i = 0; i < 2; i++) {
    EXPECT_EQ(recording.conversations[i].reverse, 1 - i);
    EXPECT_EQ(recording.conversations[i].path_mtu, 1024u) << "whichever of them shows it";
  }
}

/// An end before the conversation is one of an earlier connection of the same queue pairs; a second one is a
/// repetition.
TEST_F(RecordingTest, TheFirstEndBehindItsBeginningEndsAConversation) {
  dreq();
  request(true, kOpSendOnly, 100);
  ack(false, 100, 1, kNearQpn);
  EXPECT_FALSE(read().conversations.at(0).closed) << "nobody has ended it";
  request(true, kOpSendOnly, 101);
  const Instant end = dreq();
  dreq();
  const Recording recording = read();
  ASSERT_EQ(recording.conversations.size(), 1u);
  EXPECT_EQ(recording.conversations[0].closed, end);
}

/// Answers whose requests the capture lacks belong to the known requester, but those of a second queue pair do not.
TEST_F(RecordingTest, RequestsHaveOneThatAnswers) {
  request(true, kOpSendOnly, 100);
  ack(false, 0x700000, 1, kNearQpn);
  ack(false, 0x700001, 1, kNearQpn + 1);
  const Recording recording = read();
  ASSERT_EQ(recording.conversations.size(), 1u);
  EXPECT_EQ(recording.conversations[0].requester_qpn, kNearQpn);
  EXPECT_EQ(recording.conversations[0].packets.size(), 2u);
  EXPECT_EQ(recording.homeless, 1u);
}

}  // namespace
}  // namespace uroce::replay
