// The longest message has 2^31 bytes. The lengths of WRITE and READ are announced; a SEND just goes on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lone_qp.h"
#include "roce_frame.h"

namespace uroce::test {
namespace {

constexpr Instant kArrival{1'000'000'000};
constexpr uint32_t kLongMtu = 4096;
constexpr uint32_t kMostPackets = (1u << 31) / kLongMtu;  // packets

/// Three gigabytes of addresses, with the same few pages behind all of them.
class Wide {
 public:
  static constexpr uint64_t kBytes = uint64_t{3} << 30;

  Wide() : at_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    const int pages = memfd_create("wide", 0);
    EXPECT_EQ(ftruncate(pages, kPiece), 0);
    for (uint64_t offset = 0; offset < kBytes; offset += kPiece) {
      void* const piece = static_cast<uint8_t*>(at_) + offset;
      EXPECT_EQ(mmap(piece, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages, 0), piece);
    }
    close(pages);
  }
  ~Wide() { munmap(at_, kBytes); }
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  void* at() const { return at_; }

 private:
  static constexpr uint64_t kPiece = 1 << 22;
  void* const at_;
};

class LongMessage : public testing::TestWithParam<QpType> {
 protected:
  LongMessage() {
    QpAttributes attributes = attributes_towards(0x22);
    attributes.path_mtu_bytes = kLongMtu;
    bring_up(end_.qp, attributes, route_between(0x0A000001, 0x0A000002), QpState::kRts, kArrival);
    const Sge sge{reinterpret_cast<uint64_t>(wide_.at()), static_cast<uint32_t>(Wide::kBytes),
                  end_.register_memory(wide_.at(), Wide::kBytes)};
    EXPECT_EQ(end_.qp.post_recv({7, &sge, 1}, kArrival), PostResult::kOk);
  }
  /// The packets `from` to `to` of a SEND, without the latter.
  void arrive(uint8_t opcode, uint32_t from, uint32_t to) {
    Bth bth;
    bth.opcode = make_opcode(GetParam() == QpType::kRc ? Service::kRc : Service::kUc, opcode);
    bth.pkey = kDefaultPkey;
    bth.dest_qp = 0x11;
    const Bytes frame = frame_of(ipv4_path(), bth, {}, Bytes(kLongMtu, 0x5A));
    PacketView packet;
    ASSERT_EQ(parse_frame(frame, packet), ParseResult::kOk);
    for (uint32_t i = from; i < to; i++) {
      packet.bth.psn = Psn(0x100) + i;
      end_.qp.on_packet(packet, kArrival);
    }
  }

  const Wide wide_;
  LoneQp end_{0x11, GetParam(), LossRecovery::kGoBackN, 64, kLongMtu};
};

class LongestMessage : public LongMessage {};

TEST_P(LongestMessage, IsReceived) {
  arrive(kOpSendFirst, 0, 1);
  arrive(kOpSendMiddle, 1, kMostPackets - 1);
  arrive(kOpSendLast, kMostPackets - 1, kMostPackets);
  const std::vector<Completion> completions = completions_of(end_.cq);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[0].byte_len, 1u << 31);
}

/// Whatever room the receive has: its length would not fit 32 bits in the end, and its end would be at its beginning.
TEST_P(LongMessage, ALongerOneIsRefused) {
  arrive(kOpSendFirst, 0, 1);
  arrive(kOpSendMiddle, 1, kMostPackets);
  EXPECT_TRUE(completions_of(end_.cq).empty());
  arrive(kOpSendMiddle, kMostPackets, kMostPackets + 1);
  if (GetParam() == QpType::kUc) {
    EXPECT_EQ(end_.counters.rx_drop_receive_too_short, 1u);
    EXPECT_EQ(end_.qp.state(), QpState::kRts);
    return;
  }
  EXPECT_EQ(end_.qp.state(), QpState::kErr);
  const std::vector<Completion> completions = completions_of(end_.cq);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kLocLenErr);
  const Frames answers = end_.frames(kArrival);
  ASSERT_EQ(answers.size(), 1u);
  PacketView answer;
  ASSERT_EQ(parse_frame(answers[0], answer), ParseResult::kOk);
  EXPECT_EQ(answer.aeth().syndrome, make_syndrome(AethKind::kNak, static_cast<uint8_t>(NakCode::kInvalidRequest)));
}

INSTANTIATE_TEST_SUITE_P(OfRc, LongestMessage, testing::Values(QpType::kRc));
INSTANTIATE_TEST_SUITE_P(Of, LongMessage, testing::Values(QpType::kRc, QpType::kUc),
                         [](const auto& type) { return type.param == QpType::kRc ? "Rc" : "Uc"; });

}  // namespace
}  // namespace uroce::test
