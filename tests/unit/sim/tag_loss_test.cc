// Tag matching over a bad cable: every message is matched once, in order, with the right bytes, and every notice of a
// rendezvous comes. Seeded; a failure names the seed.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/object_tables.h"
#include "packet/tag_header.h"
#include "sim/testbed.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/receive_queue.h"
#include "transport/tag_matching.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kMessages = 120;
constexpr uint32_t kRoom = 8192;  // of each message, on both sides
constexpr uint32_t kEach = kMessages / 3;

/// Messages take turns: one that matches, a rendezvous, an unexpected one.
enum class Kind : uint32_t { kEager, kRendezvous, kUnexpected };
Kind kind_of(uint32_t message) { return static_cast<Kind>(message % 3); }
uint32_t bytes_of(uint32_t message) { return 1 + message * 61 % 7000; }

class BadCable {
 public:
  explicit BadCable(uint64_t seed) : bed_(seed) {
    QpOptions options;
    bed_.connect(a_, b_, options);  // for the protection domains: a receive belongs to that of its queue
    CompletionQueue& cq = *bed_.b.engine().objects().create_cq(4096, nullptr);
    SharedReceiveQueue& srq = *bed_.b.engine().objects().create_srq(b_.pd, kMessages, 1, nullptr);
    EXPECT_TRUE(bed_.b.engine().objects().attach_tags(srq, cq, kMessages, 1));
    options.srq_b = &srq;
    options.attributes.retry_cnt = options.attributes.rnr_retry = 7;
    bed_.add_qps(a_, b_, options);
    from_ = a_.buffer(kMessages * kRoom);
    notices_ = a_.buffer(kEach * TagHeader::kBytes);
    to_ = b_.buffer(kMessages * kRoom);
    for (uint32_t i = 0; i < from_.size; i++) from_.data()[i] = static_cast<uint8_t>(i * 7 + i / kRoom);
    for (uint32_t i = 0; i < kMessages; i++) prepare(i, srq);
    const fabric::ImpairmentConfig faults{.loss = 0.02, .duplicate = 0.02, .reorder = 0.02};
    EXPECT_TRUE(bed_.world.run_until_idle());
    bed_.cable.a_to_b->set_impairments(faults);
    bed_.cable.b_to_a->set_impairments(faults);
    for (uint32_t i = 0; i < kMessages; i++) send(i);
    EXPECT_TRUE(bed_.world.run_until_idle());
    received_ = Side::drain(cq);
    EXPECT_EQ(srq.tags()->unexpected(), kEach);
    EXPECT_GT(bed_.a.engine().counters().retransmits, 0u);
  }

  void check() {
    uint32_t arrived = 0;
    uint32_t fetched = 0;
    for (const Completion& completion : received_) {
      const auto message = static_cast<uint32_t>(completion.wr_id);
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      ASSERT_EQ(completion.opcode, WcOpcode::kTmRecv);
      if (completion.flags == kWcTmDataValid) {
        ASSERT_EQ(message, fetched * 3 + 1);
        fetched++;
        expect_bytes(message, completion.byte_len, 32);
        continue;
      }
      ASSERT_EQ(message, arrived++);
      if (kind_of(message) == Kind::kEager) {
        ASSERT_EQ(completion.tag, message);
        expect_bytes(message, completion.byte_len, 16);
      } else if (kind_of(message) == Kind::kUnexpected) {
        ASSERT_EQ(completion.flags, 0);
        expect_bytes(message, completion.byte_len - 16, 0, 16);
      }
    }
    EXPECT_EQ(arrived, kMessages);
    EXPECT_EQ(fetched, kEach);
    const std::vector<Completion> notices = a_.received();
    ASSERT_EQ(notices.size(), kEach);
    for (uint32_t i = 0; i < kEach; i++) {
      TaggedHeaders headers;
      ASSERT_TRUE(parse_tagged(notices_.data() + i * TagHeader::kBytes, TagHeader::kBytes, headers));
      EXPECT_EQ(headers.tag.operation, TagOperation::kFinished);
      EXPECT_EQ(headers.tag.context, i * 3 + 1);
    }
    EXPECT_EQ(a_.sent().size(), kMessages);
    EXPECT_TRUE(b_.sent().empty());
  }

 private:
  uint8_t* message_at(const Buffer& buffer, uint32_t message) { return buffer.data() + size_t{message} * kRoom; }

  void prepare(uint32_t message, SharedReceiveQueue& srq) {
    const Sge into = to_.sge(uint64_t{message} * kRoom, kRoom);
    if (kind_of(message) == Kind::kUnexpected) {
      EXPECT_EQ(srq.post({message, &into, 1}), PostResult::kOk);
      return;
    }
    TagOp op;
    op.kind = TagOp::Kind::kAdd;
    op.receive = {.wr_id = message, .tag = message, .mask = ~uint64_t{0}, .sges = &into, .num_sge = 1};
    EXPECT_EQ(srq.tags()->post(op, bed_.b.now()), PostResult::kOk);
    if (kind_of(message) != Kind::kRendezvous) return;
    EXPECT_EQ(a_.receive(message, notices_.sge(message / 3 * TagHeader::kBytes, TagHeader::kBytes)), PostResult::kOk);
  }

  /// The payload of a rendezvous begins behind the headers.
  void send(uint32_t message) {
    const bool fetched = kind_of(message) == Kind::kRendezvous;
    uint8_t* const head = message_at(from_, message);
    TagHeader{fetched ? TagOperation::kRendezvous : TagOperation::kEager, message, message}.encode(head);
    if (fetched) {
      store_be64(head + 16, from_.addr(uint64_t{message} * kRoom + 32));
      store_be32(head + 24, from_.key);
      store_be32(head + 28, bytes_of(message));
    }
    const Sge sge = from_.sge(uint64_t{message} * kRoom, fetched ? 32 : 16 + bytes_of(message));
    SendWr wr;
    wr.wr_id = message;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    EXPECT_EQ(a_.send(wr), PostResult::kOk);
  }

  /// The data began `headers` bytes into the sender's message, and begins `skip` bytes into the receive.
  void expect_bytes(uint32_t message, uint32_t bytes, uint32_t headers, uint32_t skip = 0) {
    EXPECT_EQ(bytes, bytes_of(message));
    const uint32_t source = headers != 0 ? headers : skip;
    EXPECT_EQ(std::memcmp(message_at(to_, message) + skip, message_at(from_, message) + source, bytes), 0) << message;
  }

  Testbed bed_;
  Side a_;
  Side b_;
  Buffer from_;
  Buffer notices_;
  Buffer to_;
  std::vector<Completion> received_;
};

TEST(TagLossTest, EveryMessageIsMatchedOnce) {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    SCOPED_TRACE(seed);
    BadCable(seed).check();
  }
}

}  // namespace
}  // namespace uroce::sim
