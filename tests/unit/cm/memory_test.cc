// Memory runs out. Ending a connection needs none, so it ends as a whole and its peer is told. A request for which
// there is no memory is dropped without a trace, and comes again.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "protocol_fixture.h"

namespace {

constexpr unsigned kNever = std::numeric_limits<unsigned>::max();

// For this thread alone: GoogleTest starts no other.
struct Heap {
  bool watched = false;
  unsigned left = kNever;  // allocations that succeed while it is watched
  unsigned refused = 0;
} heap;

void* allocate(std::size_t bytes) {
  if (heap.watched && heap.left-- == 0) {
    heap.left = 0;
    heap.refused++;
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace uroce::cm::test {
namespace {

/// The server has room for one request, so anything left over from an earlier one is noticed.
class MemoryTest : public ProtocolTest {
 protected:
  void SetUp() override {
    ProtocolTest::SetUp();
    server.restart({.pending_requests = 1, .pending_per_listener = 1});
    held_.reserve(kHeldMax);
    network.passes = [this](const Flying& flying) {
      if (heap.watched) held_.push_back(flying);
      return !heap.watched;
    };
    network.keep_sent = false;
  }

  /// Runs `f` with memory for `pieces` allocations; what it sends is sent on afterwards. False when there was too
  /// little.
  template <typename F>
  bool with_memory(unsigned pieces, F&& f) {
    heap = {.watched = true, .left = pieces};
    bool enough = true;
    try {
      f();
    } catch (const std::bad_alloc&) {
      enough = false;
    }
    heap = {};
    for (const Flying& flying : held_) network.send(flying);
    held_.clear();
    return enough;
  }
  template <typename F>
  bool without_memory(F&& f) {
    return with_memory(0, std::forward<F>(f));
  }

  /// Everything in timewait is forgotten in the end, and the server accepts another connection.
  void expect_as_good_as_new(Id* listener, const std::vector<Id*>& clients, const std::vector<Id*>& children) {
    for (Id* id : clients) client.cm().destroy_id(id, network.now());
    for (Id* id : children) server.cm().destroy_id(id, network.now());
    EXPECT_TRUE(network.run_until_quiet(milliseconds(600'000)));
    EXPECT_EQ(client.cm().connection_count(), 0u);
    EXPECT_EQ(server.cm().connection_count(), 0u);
    while (client.next_event()) {
    }
    while (server.next_event()) {
    }
    const Ends ends = connected();
    EXPECT_TRUE(without_memory([&] {
      server.cm().destroy_id(ends.passive, network.now());
      server.cm().destroy_id(listener, network.now());
    }));
  }

 private:
  static constexpr size_t kHeldMax = 16;
  std::vector<Flying> held_;  // sent while memory was short
};

TEST_F(MemoryTest, ARequestIsRejected) {
  Id* listener = listen();
  Id* id = connecting();
  Id* child = requested();
  int error = -1;
  EXPECT_TRUE(without_memory([&] { error = server.cm().reject(*child, {}, 0, network.now()); }));
  EXPECT_EQ(error, 0);
  pass();
  EXPECT_EQ(next(client), "rejected");
  expect_as_good_as_new(listener, {id}, {child});
}

TEST_F(MemoryTest, AGroupIsJoinedAsAWholeOrNotAtAll) {
  Id* id = server.cm().create_id(PortSpace::kUdp, QpType::kUd, nullptr);
  ASSERT_EQ(server.cm().bind(*id, v4("10.0.0.2", 7000)), 0);
  server.groups.reserve(2);
  bool enough = false;
  for (unsigned pieces = 0; !enough && pieces < 20; pieces++) {
    int tag = 0;
    enough = with_memory(
        pieces, [&] { EXPECT_EQ(server.cm().join_multicast(*id, v4("239.1.2.3", 0), false, &tag, network.now()), 0); });
    const bool known = server.cm().leave_multicast(*id, &tag, network.now()) == 0;
    EXPECT_EQ(server.groups.size(), known ? 2u : 0u) << "with " << pieces << " allocations";
    EXPECT_TRUE(known || !enough);
    server.groups.clear();
    EXPECT_TRUE(enough || pieces < 19);
  }
  server.cm().destroy_id(id, network.now());
}

TEST_F(MemoryTest, WhatWasAcceptedIsRejected) {
  Id* listener = listen();
  Id* id = connecting();
  Id* child = requested();
  accept(child);
  EXPECT_TRUE(without_memory([&] { server.cm().reject(*child, {}, 0, network.now()); }));
  pass();
  EXPECT_EQ(next(client), "response");
  EXPECT_EQ(next(client), "rejected");
  expect_as_good_as_new(listener, {id}, {child});
}

TEST_F(MemoryTest, AConnectionStandsAndEnds) {
  Id* listener = listen();
  Id* id = connecting();
  Id* child = requested();
  const ConnParam param = parameters(0x222);
  EXPECT_TRUE(without_memory([&] { server.cm().accept(*child, &param, {}, network.now()); }));
  pass();
  ASSERT_EQ(next(client), "response");
  EXPECT_TRUE(without_memory([&] { client.cm().accept(*id, nullptr, {}, network.now()); }));
  pass();
  EXPECT_EQ(next(server), "established");
  EXPECT_TRUE(without_memory([&] { client.cm().disconnect(*id, network.now()); }));
  pass();
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_TRUE(without_memory([&] { server.cm().disconnect(*child, network.now()); }));
  pass();
  EXPECT_EQ(next(client), "disconnected");
  expect_as_good_as_new(listener, {id}, {child});
}

TEST_F(MemoryTest, AConnectedIdIsDestroyed) {
  Id* listener = listen();
  const Ends ends = connected();
  EXPECT_TRUE(without_memory([&] { client.cm().destroy_id(ends.active, network.now()); }));
  pass();
  EXPECT_EQ(next(server), "disconnected");
  EXPECT_TRUE(without_memory([&] { server.cm().destroy_id(ends.passive, network.now()); }));
  pass();
  expect_as_good_as_new(listener, {}, {});
}

TEST_F(MemoryTest, AnUnansweredIdIsDestroyed) {
  Id* listener = listen();
  Id* id = connecting();
  Id* child = requested();
  EXPECT_TRUE(without_memory([&] { server.cm().destroy_id(child, network.now()); }));
  pass();
  EXPECT_EQ(next(client), "rejected");
  Id* other = connecting(0x112);
  Id* of_other = requested();
  EXPECT_TRUE(without_memory([&] { client.cm().destroy_id(other, network.now()); }));
  pass();
  EXPECT_EQ(next(server), "rejected");
  expect_as_good_as_new(listener, {id}, {of_other});
}

TEST_F(MemoryTest, AConnectThatMetNoneIsTriedAgain) {
  Id* listener = listen();
  Id* id = resolved();
  unsigned pieces = 0;
  int error = -1;
  while (!with_memory(pieces, [&] { error = client.cm().connect(*id, parameters(0x111), {}, network.now()); })) {
    EXPECT_EQ(client.cm().connection_count(), 0u) << pieces;
    pieces++;
  }
  EXPECT_EQ(error, 0);
  EXPECT_GT(pieces, 3u) << "hardly any was needed";
  expect_as_good_as_new(listener, {id}, {requested()});
}

/// The request comes again, and finds the room for one request free.
TEST_F(MemoryTest, ARequestThatMetNoneWasNeverHere) {
  Id* listener = listen();
  std::vector<Id*> clients;
  unsigned pieces = 0;
  for (bool enough = false; !enough; pieces++) {
    network.keep_sent = true;
    clients.push_back(connecting(0x1000 + pieces));
    const Flying req = last(Attribute::kReq);
    network.keep_sent = false;
    enough = with_memory(pieces, [&] { network.deliver(req); });
    EXPECT_EQ(server.has_events(), enough) << pieces;
    pass();  // the same request once more
    ASSERT_EQ(next(server), "request") << pieces;
    Id* child = event.id;
    EXPECT_TRUE(without_memory([&] { server.cm().destroy_id(child, network.now()); })) << pieces;
    pass();
    ASSERT_EQ(next(client), "rejected");
  }
  EXPECT_GT(pieces, 8u) << "hardly any was needed";
  expect_as_good_as_new(listener, clients, {});
}

}  // namespace
}  // namespace uroce::cm::test
