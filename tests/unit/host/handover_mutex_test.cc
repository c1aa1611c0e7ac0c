#include "host/handover_mutex.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace uroce {
namespace {

TEST(HandoverMutex, OneOwnerAtATime) {
  HandoverMutex mutex;
  uint64_t counter = 0;  // not atomic: the mutex has to protect it
  constexpr int kThreads = 4;
  constexpr int kRounds = 50000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; i++) {
        mutex.lock();
        counter = counter + 1;
        mutex.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, uint64_t{kThreads} * kRounds);
}

TEST(HandoverMutex, ASleeperIsWoken) {
  HandoverMutex mutex;
  mutex.lock();
  std::atomic<bool> had{false};
  std::thread sleeper([&] {
    mutex.lock();
    had = true;
    mutex.unlock();
  });
  usleep(20000);
  EXPECT_FALSE(had);
  mutex.unlock();
  sleeper.join();
  EXPECT_TRUE(had);
}

/// A call of verbs that has to wait for the engine's thread succeeds like any other.
TEST(HandoverMutex, WaitingLeavesErrnoAlone) {
  HandoverMutex mutex;
  mutex.lock();
  int seen = -1;
  std::thread sleeper([&] {
    errno = 0;
    mutex.lock();
    seen = errno;
    mutex.unlock();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  mutex.unlock();
  sleeper.join();
  EXPECT_EQ(seen, 0);
}

TEST(HandoverMutex, AnOnlookerGivesUp) {
  HandoverMutex mutex;
  EXPECT_TRUE(mutex.try_lock_for(milliseconds(1)));
  bool had = true;
  std::thread([&] { had = mutex.try_lock_for(milliseconds(5)); }).join();
  EXPECT_FALSE(had);
  std::thread patient([&] { had = mutex.try_lock_for(milliseconds(60000)); });
  usleep(5000);
  mutex.unlock();
  patient.join();
  EXPECT_TRUE(had) << "it was free in time";
  mutex.unlock();
  mutex.lock();  // still works
  mutex.unlock();
}

TEST(HandoverMutex, APollingThreadDoesNotStarveOthers) {
  HandoverMutex mutex;
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    while (!stop) {
      mutex.lock();
      // Each turn is long, so that the lock is nearly always held.
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
      while (std::chrono::steady_clock::now() < end) {
      }
      mutex.unlock();
    }
  });
  int had = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (had < 200 && std::chrono::steady_clock::now() < end) {
    mutex.lock();
    had++;
    mutex.unlock();
  }
  stop = true;
  poller.join();
  EXPECT_EQ(had, 200);
}

TEST(HandoverMutex, AfterForkItIsFree) {
  HandoverMutex mutex;
  mutex.lock();
  mutex.reset_after_fork();
  mutex.lock();  // would hang
  mutex.unlock();
}

}  // namespace
}  // namespace uroce
