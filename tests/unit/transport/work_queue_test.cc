// Slots of work queues, and what a queue pair leaves behind in its completion queues.
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

RigOptions of(QpType type) {
  RigOptions options;
  options.type = type;  // a UC send completes when it is sent
  return options;
}

/// Takes one completion.
std::string poll_one(CompletionQueue& cq) {
  Completion c;
  if (cq.poll(std::span(&c, 1)) == 0) return "none";
  return std::to_string(c.wr_id) + " of " + std::to_string(c.qp_num) + ": " + wc_status_name(c.status);
}

SendWr silent(SendWr wr) {
  wr.flags = 0;
  return wr;
}

// Send queues.

TEST(SendSlots, AreFreeWhenTheCompletionWasPolled) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    Rig rig(of(type));
    for (uint64_t id = 1; id <= 16; id++) EXPECT_EQ(rig.post(rig.send_wr(4, id)), PostResult::kOk);
    EXPECT_EQ(rig.post(rig.send_wr(4, 17)), PostResult::kQueueFull);
    if (type == QpType::kRc) rig.arrive(ack(0x20f, 16));
    EXPECT_EQ(rig.qp().send_queue().ring().size(), 0u);  // all are done, but the program has not been told
    EXPECT_EQ(rig.post(rig.send_wr(4, 17)), PostResult::kQueueFull);
    for (uint64_t id = 17; id <= 100; id++) {
      EXPECT_NE(poll_one(rig.send_cq()), "none");
      EXPECT_EQ(rig.qp().send_queue().slots().free(), 1u);
      EXPECT_EQ(rig.post(rig.send_wr(4, id)), PostResult::kOk);
      EXPECT_EQ(rig.post(rig.send_wr(4, id)), PostResult::kQueueFull);
      if (type == QpType::kRc) rig.arrive(ack(0x200 + static_cast<uint32_t>(id) - 1, static_cast<uint32_t>(id)));
    }
    EXPECT_FALSE(rig.send_cq().overrun());
  }
}

TEST(SendSlots, OfTheSilentAreFreeWithTheNextThatIsPolled) {
  Rig rig(of(QpType::kUc));
  for (uint64_t id = 1; id <= 16; id++) {
    const SendWr wr = rig.send_wr(4, id);
    EXPECT_EQ(rig.post(id == 6 || id == 9 ? wr : silent(wr)), PostResult::kOk);
  }
  EXPECT_EQ(rig.qp().send_queue().slots().free(), 0u);
  rig.completed();
  EXPECT_EQ(rig.qp().send_queue().slots().free(), 9u);
  EXPECT_EQ(rig.post(rig.send_wr(4, 17)), PostResult::kOk);
  rig.completed();
  EXPECT_EQ(rig.qp().send_queue().slots().free(), 16u);
}

TEST(SendSlots, WhoNeverAsksFillsTheQueue) {
  Rig rig(of(QpType::kUc));
  for (uint64_t id = 1; id <= 16; id++) EXPECT_EQ(rig.post(silent(rig.send_wr(4, id))), PostResult::kOk);
  EXPECT_EQ(rig.qp().send_queue().ring().size(), 0u);
  EXPECT_EQ(rig.post(silent(rig.send_wr(4, 17))), PostResult::kQueueFull);
  rig.modify(QpState::kReset);
  EXPECT_EQ(rig.qp().send_queue().slots().free(), 16u);
}

TEST(SendSlots, AreTakenByTheFlushedToo) {
  Rig rig;
  rig.modify(QpState::kErr);
  for (uint64_t id = 1; id <= 16; id++) EXPECT_EQ(rig.post(silent(rig.send_wr(4, id))), PostResult::kOk);
  EXPECT_EQ(rig.post(rig.send_wr(4, 17)), PostResult::kQueueFull);
  EXPECT_THAT(rig.completed(), SizeIs(16));
  EXPECT_EQ(rig.post(rig.send_wr(4, 17)), PostResult::kOk);
}

/// The slots of completions lost in an overrun are freed with the next completion that is polled.
TEST(SendSlots, OfLostCompletions) {
  RigOptions options = of(QpType::kUc);
  options.cq_capacity = 4;
  Rig rig(options);
  for (uint64_t id = 1; id <= 6; id++) rig.post(rig.send_wr(4, id));
  EXPECT_THAT(rig.completed(), SizeIs(4));
  EXPECT_EQ(rig.qp().send_queue().slots().free(), 14u);
  EXPECT_EQ(rig.post(rig.send_wr(4, 7)), PostResult::kOk);
  EXPECT_THAT(rig.completed(), ElementsAre("send 7: work request flushed"));
  EXPECT_EQ(rig.qp().send_queue().slots().free(), 16u);
}

// Receive queues.

TEST(ReceiveSlots, AreFreeWhenTheCompletionWasPolled) {
  for (const bool shared : {false, true}) {
    RigOptions options;
    options.use_srq = shared;
    Rig rig(options);
    for (uint64_t id = 1; id <= 16; id++) EXPECT_EQ(rig.receive(id), PostResult::kOk);
    EXPECT_EQ(rig.receive(17), PostResult::kQueueFull);
    rig.arrive(send(kOpSendOnly, 0x100, 4));
    rig.arrive(send(kOpSendOnly, 0x101, 4));
    EXPECT_EQ(rig.receive(17), PostResult::kQueueFull);
    EXPECT_THAT(rig.completed(), SizeIs(2));
    EXPECT_EQ(rig.receive(17), PostResult::kOk);
    EXPECT_EQ(rig.receive(18), PostResult::kOk);
    EXPECT_EQ(rig.receive(19), PostResult::kQueueFull);
  }
}

/// A queue pair fills a receive of its own queue from where it was posted: until that receive has completed, its slot
/// is not for another one.
TEST(ReceiveSlots, NoPostOverwritesTheReceiveThatIsHalfFull) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const Service service = type == QpType::kRc ? Service::kRc : Service::kUc;
    RigOptions options = of(type);
    options.cap.max_recv_wr = 2;
    options.cap.max_recv_sge = 2;
    Rig rig(options);
    const auto at = [&rig](uint64_t id) { return rig.local() + id * 2048; };
    const auto post = [&](uint64_t id) {
      const auto offset = static_cast<uint32_t>(id * 2048);
      const Sge sges[2] = {rig.local_sge(offset, 100), rig.local_sge(offset + 1024, 500)};
      return rig.engine().post_recv(rig.qp(), {id, sges, 2}, rig.now());
    };
    uint64_t posted = 0;
    const auto post_to_the_brim = [&] {
      while (posted < 20 && post(posted + 1) == PostResult::kOk) posted++;
      return posted;
    };
    ASSERT_EQ(post_to_the_brim(), 2u);
    uint32_t psn = 0x100;
    for (uint64_t id = 1; id <= 6; id++) {  // three times around the ring
      rig.arrive(send(kOpSendFirst, psn, 256, service));
      EXPECT_EQ(post_to_the_brim(), id + 1);
      if (type == QpType::kUc) {  // the rest is lost, and the next message begins in the same receive
        psn += 2;
        rig.arrive(send(kOpSendFirst, psn, 256, service));
        EXPECT_EQ(post_to_the_brim(), id + 1);
      }
      rig.arrive(send(kOpSendLast, psn + 1, 60, service));
      EXPECT_THAT(rig.completed(), ElementsAre("recv " + std::to_string(id) + ": success, 316 bytes"));
      Bytes message = payload_of(psn, 256);
      const Bytes last = payload_of(psn + 1, 60);
      message.insert(message.end(), last.begin(), last.end());
      EXPECT_TRUE(std::equal(message.begin(), message.begin() + 100, at(id))) << id;
      EXPECT_TRUE(std::equal(message.begin() + 100, message.end(), at(id) + 1024)) << id;
      psn += 2;
    }
  }
}

/// A message that has begun and will not end.
TEST(ReceiveSlots, OfABrokenMessageComeBackWithReset) {
  for (const bool shared : {false, true}) {
    for (const bool destroy : {false, true}) {
      RigOptions options;
      options.use_srq = shared;
      Rig rig(options);
      for (uint64_t id = 1; id <= 16; id++) rig.receive(id);
      rig.arrive(send(kOpSendOnly, 0x100, 4));
      rig.arrive(send(kOpSendFirst, 0x101, 256));
      if (destroy && !shared) continue;
      if (destroy) {
        rig.engine().destroy_qp(&rig.qp(), rig.now());
      } else {
        rig.modify(QpState::kReset);
      }
      EXPECT_THAT(rig.completed(), IsEmpty());
      if (!shared) {
        EXPECT_EQ(rig.qp().receives_queued(), 0u);
        continue;
      }
      const RecvWr wr{1, nullptr, 0};
      for (int i = 0; i < 2; i++) EXPECT_EQ(rig.srq()->post(wr), PostResult::kOk);
      EXPECT_EQ(rig.srq()->post(wr), PostResult::kQueueFull);
    }
  }
}

TEST(ReceiveSlots, AFreshQueueAfterReset) {
  Rig rig;
  for (uint64_t id = 1; id <= 16; id++) rig.receive(id);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  rig.arrive(send(kOpSendFirst, 0x101, 256));
  rig.modify(QpState::kReset);
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  ASSERT_EQ(rig.modify(attributes, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags), ModifyResult::kOk);
  for (uint64_t id = 1; id <= 16; id++) EXPECT_EQ(rig.receive(id), PostResult::kOk);
  EXPECT_EQ(rig.receive(17), PostResult::kQueueFull);
}

/// Nothing is raised at the limit, only below it, and an event that was raised resets the limit.
TEST(SharedQueue, LimitBoundary) {
  RigOptions options;
  options.use_srq = true;
  Rig rig(options);
  for (uint64_t id = 1; id <= 4; id++) rig.receive(id);
  rig.srq()->set_limit(3);
  rig.arrive(send(kOpSendOnly, 0x100, 4));  // 3 are left
  EXPECT_THAT(rig.observer().srq_limits, IsEmpty());
  EXPECT_EQ(rig.srq()->limit(), 3u);
  rig.arrive(send(kOpSendOnly, 0x101, 4));  // 2
  EXPECT_THAT(rig.observer().srq_limits, SizeIs(1));
  EXPECT_EQ(rig.srq()->limit(), 0u);
  rig.arrive(send(kOpSendOnly, 0x102, 4));
  EXPECT_THAT(rig.observer().srq_limits, SizeIs(1));
}

// Completions of a QP are removed with its work.

/// Two QPs in error that share their completion queues: posted requests complete at once, alternately.
class SharedCompletions : public testing::Test {
 protected:
  SharedCompletions() : other_(rig_.engine().create_qp(rig_.qp_init(), nullptr)) {
    fail(rig_.qp());
    fail(*other_);
  }
  void fail(Qp& qp) {
    QpAttributes attributes;
    attributes.state = QpState::kErr;
    EXPECT_EQ(rig_.engine().modify_qp(qp, attributes, kAttrState, rig_.now()), ModifyResult::kOk);
  }
  void post(Qp& qp, uint64_t id) {
    EXPECT_EQ(rig_.engine().post_send(qp, rig_.send_wr(4, id), rig_.now()), PostResult::kOk);
    EXPECT_EQ(rig_.engine().post_recv(qp, {id, nullptr, 0}, rig_.now()), PostResult::kOk);
  }
  std::string flushed(Qp& qp, uint64_t id) {
    return std::to_string(id) + " of " + std::to_string(qp.qpn()) + ": work request flushed";
  }

  Rig rig_;
  Qp* other_;
};

TEST_F(SharedCompletions, ResetTakesOutItsOwnAlone) {
  for (uint64_t id = 1; id <= 4; id++) post(id % 2 == 0 ? rig_.qp() : *other_, id);
  QpAttributes attributes;
  attributes.state = QpState::kReset;
  ASSERT_EQ(rig_.engine().modify_qp(rig_.qp(), attributes, kAttrState, rig_.now()), ModifyResult::kOk);
  for (CompletionQueue* cq : {&rig_.send_cq(), &rig_.recv_cq()}) {
    EXPECT_EQ(cq->size(), 2u);
    EXPECT_EQ(poll_one(*cq), flushed(*other_, 1));
    EXPECT_EQ(poll_one(*cq), flushed(*other_, 3));
    EXPECT_EQ(poll_one(*cq), "none");
  }
  EXPECT_EQ(rig_.qp().send_queue().slots().free(), 16u);
  EXPECT_EQ(other_->send_queue().slots().free(), 16u);
}

TEST_F(SharedCompletions, DestructionToo) {
  for (uint64_t id = 1; id <= 5; id++) post(id % 2 == 0 ? rig_.qp() : *other_, id);
  EXPECT_EQ(poll_one(rig_.send_cq()), flushed(*other_, 1));  // the ring does not begin at its start
  rig_.engine().destroy_qp(other_, rig_.now());
  EXPECT_EQ(poll_one(rig_.send_cq()), flushed(rig_.qp(), 2));
  post(rig_.qp(), 6);
  EXPECT_EQ(poll_one(rig_.send_cq()), flushed(rig_.qp(), 4));
  EXPECT_EQ(poll_one(rig_.send_cq()), flushed(rig_.qp(), 6));
  EXPECT_EQ(poll_one(rig_.send_cq()), "none");
  EXPECT_EQ(rig_.recv_cq().size(), 3u);
}

// As programs do: they see a completion and tear its QP down.
TEST_F(SharedCompletions, WhoDrainsMayReset) {
  for (uint64_t id = 1; id <= 6; id++) post(id % 2 == 0 ? rig_.qp() : *other_, id);
  std::vector<uint64_t> seen;
  QpAttributes attributes;
  attributes.state = QpState::kReset;
  const uint32_t count = rig_.send_cq().drain(16, [&](const Completion& completion) {
    const ModifyResult reset = rig_.engine().modify_qp(rig_.qp(), attributes, kAttrState, rig_.now());
    EXPECT_EQ(reset, ModifyResult::kOk);
    seen.push_back(completion.wr_id);
  });
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 3, 5})) << "the others went with their QP";
  EXPECT_EQ(count, 3u);
}

TEST_F(SharedCompletions, AResizedQueueFreesSlotsAsBefore) {
  for (uint64_t id = 1; id <= 16; id++) post(rig_.qp(), id);
  EXPECT_TRUE(rig_.send_cq().resize(20));
  EXPECT_EQ(rig_.completed().size(), 32u);
  EXPECT_EQ(rig_.qp().send_queue().slots().free(), 16u);
}

// Time stamps of requests that complete at once.

TEST(Flushed, CarriesTheTimeOfThePost) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    Rig rig(of(type));
    rig.modify(QpState::kErr);
    rig.advance(milliseconds(3));
    rig.post(rig.send_wr(4, 1));
    rig.receive(2);
    for (CompletionQueue* cq : {&rig.send_cq(), &rig.recv_cq()}) {
      Completion c;
      ASSERT_EQ(cq->poll(std::span(&c, 1)), 1u);
      EXPECT_EQ(c.timestamp_ns, rig.now().ns);
    }
  }
}

// Events.

TEST(Arming, SolicitedDoesNotWeakenAny) {
  Rig rig;
  for (uint64_t id = 1; id <= 4; id++) rig.receive(id);
  rig.recv_cq().arm(CompletionQueue::Wake::kAny);
  rig.recv_cq().arm(CompletionQueue::Wake::kSolicited);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.observer().cq_events, ElementsAre(&rig.recv_cq()));
  rig.completed();
  rig.recv_cq().arm(CompletionQueue::Wake::kSolicited);
  rig.recv_cq().arm(CompletionQueue::Wake::kAny);
  rig.arrive(send(kOpSendOnly, 0x101, 4));
  EXPECT_THAT(rig.observer().cq_events, SizeIs(2));
}

TEST(Arming, AnErrorWakesWhoWaitsForTheSolicited) {
  Rig rig;
  rig.post(rig.send_wr(4, 1));
  rig.send_cq().arm(CompletionQueue::Wake::kSolicited);
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.observer().cq_events, IsEmpty());  // a send of our own is never solicited
  rig.completed();
  rig.post(rig.send_wr(4, 2));
  rig.arrive(nak(0x201, NakCode::kRemoteAccessError, 1));
  EXPECT_THAT(rig.observer().cq_events, ElementsAre(&rig.send_cq()));
}

// Memory of a queue's work requests.

/// Elements and inline data share one piece of memory with the requests: each request must find its own, even after
/// many rounds.
TEST(QueueStorage, EachRequestHasItsOwnElementsAndItsOwnData) {
  constexpr uint32_t kSlots = 6;  // of eight in the ring
  constexpr uint32_t kSges = 3;
  constexpr uint32_t kInline = 37;
  SendQueue queue({kSlots, 0, kSges, 0, kInline});
  for (uint32_t round = 0; round < 5; round++) {
    for (uint32_t i = 0; i < kSlots; i++) {
      const uint8_t filling[kInline] = {static_cast<uint8_t>(round * 16 + i)};
      Sge sges[kSges] = {{i, 1, round}, {i, 2, round}, {i, 3, round}};
      SendWr wr;
      wr.sges = sges;
      wr.num_sge = kSges;
      if (i % 2 != 0) {
        sges[0] = {reinterpret_cast<uint64_t>(filling), kInline, 0};
        wr.num_sge = 1;
        wr.flags = kSendInline;
      }
      ASSERT_EQ(queue.check(wr, QpType::kRc, 1024), PostResult::kOk);
      ASSERT_TRUE(queue.take_inline_data(wr, 0));
      queue.push(wr, QpType::kRc, 1024);
    }
    EXPECT_EQ(queue.room(), 0u);
    for (uint32_t i = 0; i < kSlots; i++, queue.ring().pop()) {
      const SendWqe& wqe = queue.ring().front();
      if (i % 2 != 0) {
        EXPECT_EQ(wqe.inline_data[0], round * 16 + i);
        EXPECT_EQ(std::count(wqe.inline_data + 1, wqe.inline_data + kInline, 0), kInline - 1);
        continue;
      }
      for (uint32_t n = 0; n < kSges; n++) {
        EXPECT_EQ(wqe.sges[n].addr, i);
        EXPECT_EQ(wqe.sges[n].length, n + 1);
        EXPECT_EQ(wqe.sges[n].lkey, round);
      }
    }
    queue.slots().reset();
  }
}

TEST(QueueStorage, EachReceiveHasItsOwnElements) {
  constexpr uint32_t kSlots = 5;
  ReceiveQueue queue(kSlots, 2);
  for (uint32_t round = 0; round < 5; round++) {
    for (uint32_t i = 0; i < kSlots; i++) {
      const Sge sges[2] = {{i, 100, round}, {i, 200, round}};
      RecvWr wr;
      wr.sges = sges;
      wr.num_sge = 2;
      ASSERT_EQ(queue.post(wr), PostResult::kOk);
    }
    for (uint32_t i = 0; i < kSlots; i++, queue.pop()) {
      for (uint32_t n = 0; n < 2; n++) {
        EXPECT_EQ(queue.front().sges[n].addr, i);
        EXPECT_EQ(queue.front().sges[n].length, 100 * (n + 1));
        EXPECT_EQ(queue.front().sges[n].lkey, round);
      }
    }
    queue.slots().reset();
  }
}

// A queue pair of the largest size costs what is used of it.

TEST(LargeQueues, CostNothingUntilTheyAreUsed) {
  Rig rig;
  QpInit init = rig.qp_init();
  init.cap = {32768, 32768, 32, 32, 1024};
  constexpr long kPages = 32768l * (32 * 16 + 32 * 16 + 1024) / 4096;
  mallopt(M_PERTURB, 0);  // Meson's setting would have malloc write to all memory that it returns
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  Qp* qp = rig.engine().create_qp(init, nullptr);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_minflt - before.ru_minflt, kPages / 4);  // a sanitizer's shadow takes an eighth
  rig.engine().destroy_qp(qp, rig.now());
}

// Resizing.

TEST(ReceiveQueueSize, KeepsWhatIsPostedInItsOrder) {
  ReceiveQueue queue(4, 2);
  const Sge sges[2] = {{0x1000, 10, 1}, {0x2000, 20, 2}};
  for (uint64_t id = 1; id <= 4; id++) ASSERT_EQ(queue.post({id, sges, 2}), PostResult::kOk);
  queue.pop();
  queue.slots().end();  // the first is in use: its slot is taken until it is polled
  EXPECT_FALSE(queue.resize(3));
  ASSERT_TRUE(queue.resize(5));
  EXPECT_EQ(queue.max_wr(), 5u);
  EXPECT_EQ(queue.post({5, sges, 2}), PostResult::kOk);
  EXPECT_EQ(queue.post({6, sges, 2}), PostResult::kQueueFull);
  queue.slots().give_back(queue.slots().report());
  EXPECT_EQ(queue.post({6, sges, 1}), PostResult::kOk);
  for (uint64_t id = 2; id <= 6; id++) {
    const RecvWqe front = queue.front();
    EXPECT_EQ(front.wr_id, id);
    ASSERT_EQ(front.num_sge, id == 6 ? 1u : 2u);
    for (uint32_t n = 0; n < front.num_sge; n++) {
      EXPECT_EQ(front.sges[n].addr, 0x1000u * (n + 1));
      EXPECT_EQ(front.sges[n].length, 10u * (n + 1));
      EXPECT_EQ(front.sges[n].lkey, n + 1);
    }
    queue.pop();
  }
}

TEST(ReceiveQueueSize, InMemoryOfSomebodyElse) {
  alignas(64) uint64_t memory[512] = {};
  const size_t taken = ReceiveQueue::bytes_for(4, 1) / sizeof memory[0];
  ASSERT_LE(taken, std::size(memory));
  ReceiveQueue queue(4, 1, memory);
  const Sge sge{0x1000, 10, 1};
  ASSERT_EQ(queue.post({0x7777, &sge, 1}), PostResult::kOk);
  // The request and its element are both there, and nothing is behind.
  EXPECT_EQ(std::count(memory, memory + taken, 0x7777u), 1);
  EXPECT_EQ(std::count(memory, memory + taken, 0x1000u), 1);
  EXPECT_EQ(std::count(memory + taken, std::end(memory), 0u), std::end(memory) - (memory + taken));
  ASSERT_TRUE(queue.resize(8));  // into memory of its own
  std::fill(std::begin(memory), std::end(memory), UINT64_MAX);
  EXPECT_EQ(queue.front().wr_id, 0x7777u);
  EXPECT_EQ(queue.front().num_sge, 1u);
  EXPECT_EQ(queue.front().sges[0].addr, 0x1000u);
  ASSERT_EQ(queue.post({0x8888, &sge, 1}), PostResult::kOk);
  EXPECT_EQ(std::count(std::begin(memory), std::end(memory), UINT64_MAX), std::ssize(memory));
}

}  // namespace
}  // namespace uroce::test
