// Which polls yield: threads know their CPUs, endpoints do not.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "dpdk/yield_backoff.h"
#include "endpoint_on_wire.h"

static thread_local int yields_of_this_thread = 0;
extern "C" __attribute__((visibility("default"))) int sched_yield() noexcept {
  yields_of_this_thread++;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace uroce {
namespace {

/// Together they count as polling for half of what a thread polls on at most, even if it loses its CPU after each.
constexpr int kPolls = static_cast<int>(YieldBackoff::kMostKept.ns / YieldBackoff::kAway.ns / 2);

int yields_of_polling(Endpoint& one, Endpoint& other) {
  const int before = yields_of_this_thread;
  for (int i = 0; i < kPolls; i++) {
    Endpoint& polled = i % 2 == 0 ? one : other;
    const EngineLock owner(polled);
    polled.drive();
  }
  return yields_of_this_thread - before;
}

TEST(PollingThreads, WhatAThreadGaveAwayKeepsItPollingAllItsEndpointsAndNoOtherThread) {
  constexpr unsigned kWire = 90;  // the tests beside this one count from 0
  EndpointOnWire one(kWire, 0);
  EndpointOnWire other(kWire + 1, 0);
  ASSERT_TRUE(one.open()) << one.error;
  ASSERT_TRUE(other.open()) << other.error;
  std::thread([&] {
    YieldBackoff::of_this_thread().on_yielded(one.endpoint->now(), YieldBackoff::kMostKept, false);
    EXPECT_EQ(yields_of_polling(*one.endpoint, *other.endpoint), 0);
    std::thread([&] { EXPECT_GT(yields_of_polling(*one.endpoint, *other.endpoint), 0); }).join();
  }).join();
}

}  // namespace
}  // namespace uroce
