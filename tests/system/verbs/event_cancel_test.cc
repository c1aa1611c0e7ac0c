// A thread that is cancelled while it waits for an event takes no event with it, at whatever moment.
#include <pthread.h>

#include <atomic>
#include <memory>
#include <thread>

#include "event_sources.h"

namespace {

using namespace verbs_test;

constexpr int kRounds = 150;

class Taker {
 public:
  explicit Taker(EventSource& source)
      : thread_([this, &source] {
          began_ = true;
          if (source.take() == 0) taken_ = true;
        }) {}
  bool began() const { return began_; }
  bool taken() const { return taken_; }
  void cancel() { pthread_cancel(thread_.native_handle()); }
  void join() { thread_.join(); }

 private:
  std::atomic<bool> began_{false};
  std::atomic<bool> taken_{false};
  std::thread thread_;
};

template <typename Source>
class EventCancelTest : public testing::Test {
 protected:
  Source source_;
};
using Sources = testing::Types<CompletionEvents, AsyncEvents, ConnectionEvents>;
TYPED_TEST_SUITE(EventCancelTest, Sources);

/// The event comes at about the time of the cancellation: either the thread has taken it, or it is still there.
TYPED_TEST(EventCancelTest, TakesNoEventAlong) {
  for (int i = 0; i < kRounds; i++) {
    Taker taker(this->source_);
    while (i % 2 != 0 && !taker.began()) {
    }
    this->source_.raise();
    taker.cancel();
    taker.join();
    if (taker.taken()) continue;
    ASSERT_TRUE(readable(this->source_.fd(), kPatienceMs)) << "lost in round " << i;
    ASSERT_EQ(this->source_.take(), 0);
  }
  EXPECT_FALSE(readable(this->source_.fd(), 0));
}

/// Two threads wait, and the one that may have been woken for the event is cancelled: the other is woken instead.
TYPED_TEST(EventCancelTest, WakesTheNextInItsPlace) {
  for (int i = 0; i < kRounds; i++) {
    Taker first(this->source_);
    Taker second(this->source_);
    this->source_.raise();
    first.cancel();
    first.join();
    if (first.taken()) this->source_.raise();
    second.join();
    ASSERT_TRUE(second.taken());
  }
  EXPECT_FALSE(readable(this->source_.fd(), 0));
}

}  // namespace
