// Connections where there is no memory for a part of them. A program of its own: it replaces operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "two_endpoints.h"

namespace {

// Of this thread.
thread_local long left = -1;           // allocations until one fails; -1: all succeed
thread_local std::size_t largest = 0;  // bytes
thread_local std::size_t refused = 0;  // allocations of exactly this many bytes fail
thread_local unsigned refusals = 0;

void* allocate(std::size_t bytes) {
  if (left == 0) throw std::bad_alloc();
  if (left > 0) left--;
  largest = std::max(largest, bytes);
  if (bytes == refused) {
    refusals++;
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

/// Runs `f` with memory for `fails` allocations. True when it ended, false when one failed.
template <typename F>
bool with_memory_for(long fails, F&& f) try {
  left = fails;
  f();
  left = -1;
  return true;
} catch (const std::bad_alloc&) {
  left = -1;
  return false;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
// For temporary buffers of the standard library, which does with smaller ones or none.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace uroce::rdma {
namespace {

constexpr long kMost = 200;  // more than any of the calls needs

class LibraryMemory : public TwoEndpoints {
 protected:
  static QueuePair another_qp(Side& side) {
    return side.endpoint->device().create_qp({.pd = side.pd, .send_cq = &side.cq, .recv_cq = &side.cq});
  }
  /// The largest allocation of a queue pair on its way to RTR; little else is as large.
  size_t bytes_to_rtr() {
    const QueuePairAddress a = owning(a_, [&] { return a_.qp.address(); });
    return owning(b_, [&] {
      QueuePair another = another_qp(b_);
      largest = 0;
      EXPECT_EQ(another.connect(a), ModifyResult::kOk);
      return largest;
    });
  }
};

TEST_F(LibraryMemory, AListenerThatWasNotMadeLeavesItsPort) {
  std::string error;
  error.reserve(256);
  long fails = 0;
  for (; fails < kMost; fails++) {
    const bool made = owning(a_, [&] {
      Connections& connections = a_.endpoint->connections();
      return with_memory_for(fails, [&] { a_.listener = connections.listen(kPort, error); });
    });
    if (made) break;
    ASSERT_FALSE(a_.listener);
  }
  EXPECT_GT(fails, 2) << "nothing failed";
  EXPECT_TRUE(a_.listener) << error;
  b_.connection = begin(error);
  EXPECT_TRUE(asked());
}

TEST_F(LibraryMemory, AConnectionThatWasNotBegunLeavesItsQueuePair) {
  a_.listen();
  std::string error;
  error.reserve(256);
  long fails = 0;
  for (; fails < kMost; fails++) {
    const bool made = owning(b_, [&] {
      Connections& connections = b_.endpoint->connections();
      return with_memory_for(fails,
                             [&] { b_.connection = connections.begin_connect(b_.qp, "198.18.0.1", kPort, error); });
    });
    if (made) break;
    until([n = 0]() mutable { return ++n > 20; });  // events of the failed attempt have no connection
  }
  EXPECT_GT(fails, 2) << "nothing failed";
  ASSERT_TRUE(asked());
  owning(a_, [&] { a_.connection = a_.listener.begin_accept(a_.qp, error); });
  EXPECT_TRUE(both(ConnectionState::kEstablished)) << error;
}

TEST_F(LibraryMemory, AnAnswerThatThereIsNoMemoryForIsTakenLater) {
  const size_t to_rtr = bytes_to_rtr();
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  a_.connection = owning(a_, [&] { return a_.listener.begin_accept(a_.qp, error); });
  // The answer is kept, and the queue pair tries to allocate again in each turn.
  refusals = 0;
  refused = to_rtr;
  const bool repeated = until([] { return refusals > 3; });
  refused = 0;
  EXPECT_TRUE(repeated) << refusals << " of " << to_rtr << " bytes";
  EXPECT_TRUE(both(ConnectionState::kEstablished)) << owning(b_, [&] { return b_.connection.error(); });
}

TEST_F(LibraryMemory, APeerIsRefusedOrStillWaits) {
  a_.listen();
  std::string error;
  error.reserve(256);
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  owning(a_, [&] {
    ASSERT_EQ(a_.qp.initialize(kRemoteWrite), ModifyResult::kOk);
    for (long fails = 0; a_.listener.waiting() != 0; fails++) {
      ASSERT_EQ(a_.qp.state(), QpState::kInit) << "the peer still waits";
      EXPECT_FALSE(with_memory_for(fails, [&] { a_.connection = a_.listener.begin_accept(a_.qp, error); }));
    }
    EXPECT_EQ(a_.qp.state(), QpState::kErr);
  });
  ASSERT_TRUE(until([&] { return state_of(b_) == ConnectionState::kEnded; }));
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "198.18.0.1 port 7471: refused by the program there");
}

TEST_F(LibraryMemory, AListenerIsDestroyedWhateverWaitsForMemory) {
  a_.listen();
  std::string error;
  b_.connection = begin(error);
  ASSERT_TRUE(asked());
  owning(a_, [&] {
    a_.connection = a_.endpoint->connections().begin_connect(a_.qp, "127.0.0.1", kPort, error);
    // The address is known at once, but nothing has polled since: the next step waits, and needs memory.
    EXPECT_TRUE(with_memory_for(0, [&] { a_.listener = {}; }));
  });
  EXPECT_TRUE(both(ConnectionState::kEnded));
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "198.18.0.1 port 7471: refused by the program there");
  EXPECT_EQ(owning(a_, [&] { return a_.connection.error(); }), "127.0.0.1 port 7471: nobody listens there");
}

TEST_F(LibraryMemory, AListenerThatIsDestroyedRefusesWhoWasNotHeardOfYet) {
  const size_t to_rtr = bytes_to_rtr();
  for (Side* side : {&a_, &b_}) side->listen();
  std::string error;
  a_.connection =
      owning(a_, [&] { return a_.endpoint->connections().begin_connect(a_.qp, "198.18.0.2", kPort, error); });
  EXPECT_TRUE(until([&] { return owning(b_, [&] { return b_.listener.waiting() != 0; }); }));
  QueuePair another = owning(b_, [&] { return another_qp(b_); });
  Connection accepted = owning(b_, [&] { return b_.listener.begin_accept(another, error); });
  refusals = 0;
  refused = to_rtr;
  b_.connection = begin(error);
  // The request of b waits behind the answer that there is no memory for.
  const Instant enough = a_.endpoint->now() + milliseconds(300);
  EXPECT_TRUE(until([&] { return refusals > 3 && a_.endpoint->now() > enough; })) << refusals;
  owning(a_, [&] { EXPECT_TRUE(with_memory_for(0, [&] { a_.listener = {}; })); });
  refused = 0;
  EXPECT_TRUE(until([&] { return state_of(b_) == ConnectionState::kEnded; }));
  EXPECT_EQ(owning(b_, [&] { return b_.connection.error(); }), "198.18.0.1 port 7471: refused by the program there");
  EXPECT_EQ(state_of(a_), ConnectionState::kEstablished);
  owning(b_, [&] {
    accepted = {};
    another = {};
  });
}

}  // namespace
}  // namespace uroce::rdma
