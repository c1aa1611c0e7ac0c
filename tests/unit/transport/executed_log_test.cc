// Which READs and atomics are answered again: those that were carried out last, to the last bit, and no more often than
// retries explain.
#include "transport/executed_log.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

class ExecutedLogTest : public testing::Test {
 protected:
  static constexpr uint32_t kMtu = 256;
  static constexpr uint32_t kFirst = 0xFFFFFE;  // the numbers wrap
  static constexpr uint64_t kVa = 0x10000;
  static constexpr uint32_t kKey = 7;
  static constexpr uint32_t kRepeats = 32;

  ExecutedLogTest() {
    log_.make_room(3);
    log_.start(kMtu);
  }
  static Psn psn(uint32_t at) { return Psn(kFirst) + at; }
  /// The entry for `bytes` of the READ of kVa at the first number, from packet `from` on.
  ExecutedLog::Entry* find(uint32_t from, uint32_t bytes, uint32_t rkey = kKey, uint64_t off = 0) {
    return log_.find_read(psn(from), {kVa + uint64_t{from} * kMtu + off, rkey, bytes});
  }
  void read(uint32_t at, uint32_t bytes) { log_.add_read(psn(at), {kVa, kKey, bytes}); }
  /// Repeats the READ's packets from `from` on until that is refused; returns how often it was not.
  uint32_t times_repeated(uint32_t from, uint32_t packets) {
    uint32_t times = 0;
    for (ExecutedLog::Entry* found = find(from, packets * kMtu); found != nullptr && times < 1000; times++) {
      log_.on_repeated(*found, psn(from), packets);
      found = find(from, packets * kMtu);
    }
    return times;
  }

  ExecutedLog log_;
};

TEST_F(ExecutedLogTest, NothingAtFirst) {
  EXPECT_EQ(find(0, 0), nullptr);
  EXPECT_EQ(log_.find_atomic(Operation::kFetchAdd, psn(0), {}), nullptr);
}

TEST_F(ExecutedLogTest, AReadOrAnyPartOfIt) {
  read(0, 3 * kMtu - 6);
  ExecutedLog::Entry* all = find(0, 3 * kMtu - 6);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->psn, psn(0));
  EXPECT_EQ(find(0, 1), all);
  EXPECT_EQ(find(1, 2 * kMtu - 6), all);
  EXPECT_EQ(find(1, kMtu), all);
  EXPECT_EQ(find(2, kMtu - 6), all);
}

TEST_F(ExecutedLogTest, NotMoreThanWasRead) {
  read(0, 3 * kMtu - 6);
  EXPECT_EQ(find(0, 3 * kMtu - 5), nullptr);
  EXPECT_EQ(find(1, 2 * kMtu - 5), nullptr);
  EXPECT_EQ(find(2, kMtu), nullptr);
  EXPECT_EQ(find(3, 1), nullptr);
  EXPECT_EQ(log_.find_read(psn(0) - 1, {kVa, kKey, 1}), nullptr);
  EXPECT_EQ(find(0, 0), nullptr) << "nothing was not asked for";
}

TEST_F(ExecutedLogTest, NoOtherMemoryAndNoOtherKey) {
  read(0, 3 * kMtu);
  EXPECT_EQ(find(0, kMtu, kKey + 1), nullptr);
  EXPECT_EQ(find(0, kMtu, kKey, 1), nullptr);
  EXPECT_EQ(log_.find_read(psn(1), {kVa, kKey, kMtu}), nullptr) << "each byte at the number that it had";
}

TEST_F(ExecutedLogTest, AnEmptyRead) {
  read(0, 0);
  EXPECT_NE(find(0, 0), nullptr);
  EXPECT_EQ(find(0, 1), nullptr);
  EXPECT_EQ(find(1, 0), nullptr);
}

TEST_F(ExecutedLogTest, AnAtomicToTheLastBit) {
  const AtomicEth eth{kVa, kKey, 5, 6};
  log_.add_atomic(Operation::kCompareSwap, psn(1), eth, 42);
  ASSERT_NE(log_.find_atomic(Operation::kCompareSwap, psn(1), eth), nullptr);
  EXPECT_EQ(log_.find_atomic(Operation::kCompareSwap, psn(1), eth)->original, 42u);
  EXPECT_EQ(log_.find_atomic(Operation::kFetchAdd, psn(1), eth), nullptr);
  EXPECT_EQ(log_.find_atomic(Operation::kCompareSwap, psn(2), eth), nullptr);
  for (const AtomicEth& other : {AtomicEth{kVa + 8, kKey, 5, 6}, AtomicEth{kVa, kKey + 1, 5, 6},
                                 AtomicEth{kVa, kKey, 4, 6}, AtomicEth{kVa, kKey, 5, 7}}) {
    EXPECT_EQ(log_.find_atomic(Operation::kCompareSwap, psn(1), other), nullptr);
  }
  EXPECT_EQ(find(1, 8), nullptr) << "no READ";
}

TEST_F(ExecutedLogTest, TheOldestIsForgotten) {
  for (uint32_t i = 0; i < 4; i++) log_.add_atomic(Operation::kFetchAdd, psn(i), {}, i);
  EXPECT_EQ(log_.find_atomic(Operation::kFetchAdd, psn(0), {}), nullptr);
  for (uint32_t i = 1; i < 4; i++) EXPECT_NE(log_.find_atomic(Operation::kFetchAdd, psn(i), {}), nullptr) << i;
}

TEST_F(ExecutedLogTest, GrowingKeepsTheOrder) {
  for (uint32_t i = 0; i < 4; i++) log_.add_atomic(Operation::kFetchAdd, psn(i), {}, i);
  log_.grow(2);  // never fewer
  log_.grow(5);
  for (uint32_t i = 4; i < 6; i++) log_.add_atomic(Operation::kFetchAdd, psn(i), {}, i);
  for (uint32_t i = 1; i < 6; i++) EXPECT_NE(log_.find_atomic(Operation::kFetchAdd, psn(i), {}), nullptr) << i;
  log_.add_atomic(Operation::kFetchAdd, psn(6), {}, 6);
  EXPECT_EQ(log_.find_atomic(Operation::kFetchAdd, psn(1), {}), nullptr);
  EXPECT_NE(log_.find_atomic(Operation::kFetchAdd, psn(2), {}), nullptr);
}

TEST_F(ExecutedLogTest, StartForgetsAll) {
  read(0, kMtu);
  log_.add_atomic(Operation::kFetchAdd, psn(1), {}, 1);
  log_.start(kMtu);
  EXPECT_EQ(find(0, kMtu), nullptr);
  EXPECT_EQ(log_.find_atomic(Operation::kFetchAdd, psn(1), {}), nullptr);
}

TEST_F(ExecutedLogTest, ARepeatCountsItsPackets) {
  read(0, 4 * kMtu);
  EXPECT_EQ(times_repeated(0, 4), kRepeats);
  read(0, 4 * kMtu);
  EXPECT_EQ(times_repeated(0, 2), 2 * kRepeats);
  read(0, 0);
  uint32_t times = 0;
  for (ExecutedLog::Entry* e = find(0, 0); e != nullptr; e = find(0, 0), times++) log_.on_repeated(*e, psn(0), 1);
  EXPECT_EQ(times, kRepeats);
}

TEST_F(ExecutedLogTest, GettingFurtherAllowsMore) {
  read(0, 4 * kMtu);
  EXPECT_EQ(times_repeated(0, 4), kRepeats);
  EXPECT_EQ(times_repeated(1, 1), 4 * kRepeats) << "from further on than ever";
  EXPECT_EQ(times_repeated(0, 1), 0u);
  EXPECT_EQ(times_repeated(1, 1), 0u);
  EXPECT_EQ(times_repeated(3, 1), 4 * kRepeats);
  EXPECT_EQ(times_repeated(2, 1), 0u);
}

TEST_F(ExecutedLogTest, GettingFurtherInOneAllowsMoreOfAllBehindIt) {
  const auto spend = [this](uint32_t at) {
    uint32_t times = 0;
    const Reth reth{kVa, kKey, kMtu};
    for (auto* e = log_.find_read(psn(at), reth); e != nullptr; e = log_.find_read(psn(at), reth), times++) {
      log_.on_repeated(*e, psn(at), 1);
    }
    return times;
  };
  read(0, kMtu);
  read(1, 3 * kMtu);
  read(4, kMtu);
  EXPECT_EQ(spend(0), kRepeats);
  EXPECT_EQ(spend(4), 1 + kRepeats) << "the first one follows another, the second one begins";
  EXPECT_EQ(spend(4), 0u);
  const Reth rest{kVa + kMtu, kKey, kMtu};
  ExecutedLog::Entry* further = log_.find_read(psn(2), rest);
  ASSERT_NE(further, nullptr);
  log_.on_repeated(*further, psn(2), 1);
  EXPECT_EQ(spend(4), kRepeats);
  EXPECT_EQ(spend(0), 0u) << "not of what stands before it";
}

TEST_F(ExecutedLogTest, BeginningWithALaterOneAllowsMore) {
  const auto ask = [this](uint32_t at) {
    ExecutedLog::Entry* const e = log_.find_read(psn(at), {kVa, kKey, kMtu});
    if (e != nullptr) log_.on_repeated(*e, psn(at), 1);
    return e != nullptr;
  };
  for (uint32_t at = 0; at < 3; at++) read(at, kMtu);
  const auto rounds = [&](uint32_t from) {
    uint32_t count = 0;
    for (bool served = true; served && count < 1000; count += served ? 1 : 0) {
      for (uint32_t at = from; at < 3; at++) served = ask(at);
    }
    return count;
  };
  EXPECT_EQ(rounds(0), kRepeats);
  EXPECT_EQ(rounds(0), 0u) << "those that follow one that is refused do not begin";
  EXPECT_EQ(rounds(1), kRepeats) << "the first was answered meanwhile";
  EXPECT_EQ(rounds(0), 0u);
  EXPECT_EQ(rounds(1), 0u);
  EXPECT_EQ(rounds(2), kRepeats);
  EXPECT_EQ(rounds(1), 0u) << "back again is no progress";
  EXPECT_EQ(rounds(2), 0u);
}

}  // namespace
}  // namespace uroce::test
