// Copies between the memory of two members, without frames: who is reached, and how what was shown is taken back.
#include "segment/direct_copies.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "base/unique_fd.h"
#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

constexpr uint32_t kKey = 0x1234500;
constexpr size_t kBytes = 256 * 1024;

SegmentOptions direct_options(const TempDir& dir) {
  SegmentOptions options = Node::options_of(dir.path(), record_of("host", 1));
  options.direct = true;
  return options;
}

ShownRegion region_at(const void* memory, uint32_t key = kKey) {
  return {.key = key, .pd = 1, .access = 6, .iova = 0, .length = kBytes, .memory = reinterpret_cast<uint64_t>(memory)};
}

/// A member that shows `memory`, and one that copies.
struct Two {
  Two() : target(direct_options(dir)), copier(direct_options(dir)) {
    qpn = target.qpn();
    copier.turn();
    EXPECT_TRUE(copier.send(roce_frame(mac_of(1), qpn, 90)));
    settle({&copier, &target});
    target.receive();
    target.port->direct()->show(region_at(memory.data()));
    EXPECT_NE(target.port->direct()->show(ShownQueuePair{.qpn = qpn, .dest_qpn = 3}), nullptr);
  }
  DirectPeer* find() { return copier.port->direct()->find(mac_of(1), qpn); }
  /// Whether the target shows region and queue pair now.
  bool begins(uint32_t key = kKey) {
    DirectPeer* const peer = find();
    if (peer == nullptr) return false;
    const bool shown = peer->begin(qpn, key, what, copier.now);
    peer->end();
    return shown;
  }
  bool write(uint8_t value, size_t bytes = kBytes) {
    std::vector<uint8_t> from(bytes, value);
    DirectPeer* const peer = find();
    if (peer == nullptr) return false;
    const DirectPiece piece{from.data(), from.size()};
    const bool written = peer->begin(qpn, kKey, what, copier.now) && peer->write(what.region.memory, {&piece, 1}, true);
    peer->end();
    return written;
  }

  TempDir dir;
  Node target;
  Node copier;
  uint32_t qpn = 0;
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
  ShownTarget what;
};

TEST(DirectCopies, BothWays) {
  Two two;
  ASSERT_TRUE(two.write(7));
  EXPECT_EQ(std::count(two.memory.begin(), two.memory.end(), 7), static_cast<long>(kBytes));
  std::iota(two.memory.begin(), two.memory.end(), uint8_t{0});
  std::vector<uint8_t> one(1000);
  std::vector<uint8_t> two_more(500);
  const DirectPiece pieces[] = {{one.data(), one.size()}, {two_more.data(), two_more.size()}};
  DirectPeer* const peer = two.find();
  ASSERT_TRUE(peer->begin(two.qpn, kKey, two.what, two.copier.now));
  EXPECT_TRUE(peer->read(two.what.region.memory + 10, pieces));
  peer->end();
  EXPECT_TRUE(std::equal(one.begin(), one.end(), two.memory.begin() + 10));
  EXPECT_TRUE(std::equal(two_more.begin(), two_more.end(), two.memory.begin() + 1010));
  ASSERT_EQ(two.copier.told.size(), 1u) << "who is reached is said once";
  EXPECT_NE(two.copier.told[0].find("need no frames"), std::string::npos);
}

TEST(DirectCopies, WhatIsShownArrivesWhole) {
  Two two;
  const ShownQueuePair qp{.qpn = two.qpn,
                          .dest_qpn = 0xabcdef,
                          .pd = 77,
                          .access = 15,
                          .reads = 16,
                          .vlan_id = 4095,
                          .own = *parse_ip("fd00::1"),
                          .peer = *parse_ip("10.0.0.9")};
  std::atomic<uint32_t>* const psn = two.target.port->direct()->show(qp);
  ASSERT_NE(psn, nullptr);
  EXPECT_EQ(two.target.port->direct()->show(qp), psn) << "nothing new";
  ASSERT_TRUE(two.begins());
  EXPECT_GT(two.what.next_psn, 0xffffffu) << "none was stored yet";
  psn->store(0x123456);
  ASSERT_TRUE(two.begins());
  EXPECT_EQ(two.what.qp, qp);
  EXPECT_EQ(two.what.region, region_at(two.memory.data()));
  EXPECT_EQ(two.what.next_psn, 0x123456u);
}

TEST(DirectCopies, WhatIsHiddenIsNotFound) {
  Two two;
  EXPECT_TRUE(two.begins());
  two.target.port->direct()->hide_region(kKey);
  EXPECT_FALSE(two.begins());
  two.target.port->direct()->hide_region(kKey);  // already hidden
  two.target.port->direct()->show(region_at(two.memory.data()));
  EXPECT_TRUE(two.begins());
  two.target.port->direct()->hide_queue_pair(two.qpn);
  EXPECT_FALSE(two.begins());
}

/// As many are shown as there is room for at the places of their keys; none is ever mistaken for another.
TEST(DirectCopies, MoreThanThereIsRoomForAreNotShown) {
  Two two;
  SeededRandom random(3);
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < 4 * kDirectSlots; i++) {
    keys.push_back(random.next_u32() | 1);
    two.target.port->direct()->show(region_at(two.memory.data() + i, keys.back()));
  }
  size_t found = 0;
  for (uint32_t i = 0; i < keys.size(); i++) {
    if (!two.begins(keys[i])) continue;
    found++;
    EXPECT_EQ(two.what.region, region_at(two.memory.data() + i, keys[i]));
  }
  EXPECT_EQ(found, kDirectSlots - 1) << "all slots but that of the first region";
  for (const uint32_t key : keys) two.target.port->direct()->hide_region(key);
  EXPECT_FALSE(two.begins(keys[0]));
}

TEST(DirectCopies, PauseOfEitherSideEndsThem) {
  Two two;
  for (Node* node : {&two.target, &two.copier}) {
    node->port->direct()->pause(true);
    EXPECT_EQ(two.find(), nullptr);
    node->port->direct()->pause(false);
    EXPECT_NE(two.find(), nullptr);
  }
}

TEST(DirectCopies, OnlyBetweenThoseWhoWantThem) {
  const TempDir dir;
  Node wants(direct_options(dir));
  Node plain(dir, record_of("host", 1));
  EXPECT_EQ(plain.port->direct(), nullptr);
  wants.turn();
  ASSERT_TRUE(wants.send(roce_frame(mac_of(1), plain.qpn(), 90)));
  settle({&wants, &plain});
  EXPECT_EQ(wants.port->direct()->find(mac_of(1), plain.qpn()), nullptr);
  EXPECT_EQ(wants.port->direct()->find(mac_of(1), wants.qpn()), nullptr) << "itself";
  EXPECT_EQ(wants.port->direct()->find(kFarAway, plain.qpn()), nullptr);
}

/// Shown memory comes with its keys, which a group must not see.
TEST(DirectCopies, NothingIsShownWhereAGroupMeets) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: a directory of a group is root's";
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(01770));
  Node node(direct_options(dir));
  EXPECT_EQ(node.port->direct(), nullptr);
}

TEST(DirectCopies, MemoryThatIsNotThereIsNotCopied) {
  Two two;
  void* const page = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(munmap(static_cast<uint8_t*>(page) + kPage, kPage), 0);
  two.target.port->direct()->hide_region(kKey);
  two.target.port->direct()->show(region_at(page));
  errno = 5;
  EXPECT_TRUE(two.write(1, kPage));
  EXPECT_FALSE(two.write(1, kPage + 1));
  ASSERT_EQ(mprotect(page, kPage, PROT_READ), 0);
  EXPECT_FALSE(two.write(1, kPage));
  EXPECT_EQ(errno, 5) << "the program's errno is its own";
  munmap(page, kPage);
}

/// Canaries: memory that is hidden is not written any more.
TEST(DirectCopies, NothingIsCopiedAfterAHide) {
  Two two;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> tries{0};
  std::atomic<uint64_t> written{0};
  std::thread copier([&] {
    while (!stop) {
      if (two.write(0xEE)) written++;
      tries++;
    }
  });
  const auto wait_until = [](const std::atomic<uint64_t>& counter, uint64_t least) {
    while (counter < least) std::this_thread::yield();
  };
  DirectCopy& shown = *two.target.port->direct();
  for (int round = 0; round < 60; round++) {
    shown.show(region_at(two.memory.data()));
    wait_until(written, written + 2);
    round % 3 == 0 ? shown.pause(true) : round % 3 == 1 ? shown.hide_region(kKey) : shown.hide_queue_pair(two.qpn);
    std::fill(two.memory.begin(), two.memory.end(), uint8_t{0x55});
    wait_until(tries, tries + 3);
    ASSERT_EQ(std::count(two.memory.begin(), two.memory.end(), 0x55), static_cast<long>(kBytes)) << "round " << round;
    if (round % 3 == 0) shown.pause(false);
    if (round % 3 == 2) shown.show(ShownQueuePair{.qpn = two.qpn, .dest_qpn = 3});
    shown.hide_region(kKey);
  }
  stop = true;
  copier.join();
}

/// The number of peers that the node barred, according to its log.
long barred(const Node& node) {
  return std::count_if(node.told.begin(), node.told.end(), [](const std::string& line) {
    return line.find("in the middle of a copy") != std::string::npos;
  });
}

TEST(DirectCopies, OneThatIsStoppedInTheMiddleIsBarred) {
  Two two;
  DirectPeer* const peer = two.find();
  ASSERT_TRUE(peer->begin(two.qpn, kKey, two.what, two.copier.now));
  two.target.port->direct()->hide_region(kKey);  // returns after a second
  EXPECT_EQ(barred(two.target), 1);
  peer->end();
  EXPECT_EQ(two.find(), nullptr);
  settle({&two.copier, &two.target});
  EXPECT_EQ(two.find(), nullptr) << "it is not let in again";
  two.target.port->direct()->show(region_at(two.memory.data()));
  two.target.port->direct()->hide_region(kKey);
  EXPECT_EQ(barred(two.target), 1) << "and nobody waits for it";
}

/// Runs `f` in a child, which then stops for good; `f` writes to a descriptor when the parent may go on.
pid_t in_stopped_child(const std::function<void()>& f) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  f();
  for (;;) pause();
}

void make_turns_until_readable(Node& node, int fd) {
  pollfd entry{fd, POLLIN, 0};
  while (poll(&entry, 1, 1) == 0) node.turn();
  char byte = 0;
  ASSERT_EQ(read(fd, &byte, 1), 1);
}

void end_child(pid_t pid) {
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

/// The child is killed in the middle of its copy: the target does not wait for it, and bars no peer.
TEST(DirectCopies, OneThatIsKilledInTheMiddleIsNotWaitedFor) {
  const TempDir dir;
  Node target(direct_options(dir));
  std::vector<uint8_t> memory(kBytes);
  const uint32_t qpn = target.qpn();
  target.port->direct()->show(region_at(memory.data()));
  target.port->direct()->show(ShownQueuePair{.qpn = qpn, .dest_qpn = 3});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  const pid_t child = in_stopped_child([&] {
    static_cast<void>(target.port.release());  // belongs to the parent
    Node copier(direct_options(dir));
    copier.turn();
    copier.send(roce_frame(mac_of(1), qpn, 90));
    ShownTarget what;
    for (DirectPeer* peer = nullptr; peer == nullptr; peer = copier.port->direct()->find(mac_of(1), qpn)) copier.turn();
    DirectPeer* const peer = copier.port->direct()->find(mac_of(1), qpn);
    if (!peer->begin(qpn, kKey, what, copier.now) || write(to.get(), "x", 1) != 1) _exit(1);
    for (;;) pause();
  });
  make_turns_until_readable(target, from.get());
  end_child(child);
  target.port->direct()->hide_region(kKey);
  EXPECT_EQ(barred(target), 0);
  target.receive();
  for (int i = 0; i < 10; i++) target.turn(milliseconds(250));
  EXPECT_EQ(target.port->counters().peers_lost, 1u);
}

/// The child is the target, and is killed: copies end, and then it is not found any more.
TEST(DirectCopies, TargetThatIsKilledIsNotReached) {
  const TempDir dir;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  const pid_t child = in_stopped_child([&] {
    Node target(direct_options(dir));
    std::vector<uint8_t> memory(kBytes);
    const uint32_t qpn = target.qpn();
    target.port->direct()->show(region_at(memory.data()));
    target.port->direct()->show(ShownQueuePair{.qpn = qpn, .dest_qpn = 3});
    if (write(to.get(), &qpn, sizeof qpn) != sizeof qpn) _exit(1);
    for (;;) target.turn(microseconds(60));
  });
  uint32_t qpn = 0;
  ASSERT_EQ(read(from.get(), &qpn, sizeof qpn), static_cast<ssize_t>(sizeof qpn));
  Node copier(direct_options(dir));
  copier.turn();
  ASSERT_TRUE(copier.send(roce_frame(mac_of(1), qpn, 90)));
  DirectCopy& direct = *copier.port->direct();
  while (direct.find(mac_of(1), qpn) == nullptr) copier.turn();
  std::vector<uint8_t> bytes(kBytes);
  const DirectPiece piece{bytes.data(), bytes.size()};
  const auto copies = [&] {
    DirectPeer* const peer = direct.find(mac_of(1), qpn);
    ShownTarget what;
    if (peer == nullptr) return false;
    const bool copied = peer->begin(qpn, kKey, what, copier.now) &&
                        peer->write(what.region.memory, {&piece, 1}, true) &&
                        peer->read(what.region.memory, {&piece, 1});
    peer->end();
    return copied;
  };
  EXPECT_TRUE(copies());
  end_child(child);
  EXPECT_FALSE(copies());
  copier.turn();
  EXPECT_FALSE(copies());
  EXPECT_EQ(direct.find(mac_of(1), qpn), nullptr);
}

/// What `body` returns in another process, while `node` makes turns in this one; -1: it did not end by itself.
template <typename F>
int run_beside(Node& node, F&& body) {
  const pid_t child = fork();
  if (child == 0) {
    static_cast<void>(node.port.release());  // belongs to the parent
    _exit(body());
  }
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    node.turn();
    usleep(1000);
  }
  return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A process whose number the kernel does not tell, as that of another container, is not reached. It can reach the
/// others.
TEST(DirectCopies, ProcessWithoutANumberHereIsNotReached) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: a namespace of process numbers needs root";
  const TempDir dir;
  Node outside(direct_options(dir));
  const uint32_t qpn = outside.qpn();
  std::vector<uint8_t> memory(kBytes);
  outside.port->direct()->show(region_at(memory.data()));
  const int code = run_beside(outside, [&] {
    if (unshare(CLONE_NEWPID) != 0) return 1;
    if (const pid_t inside = fork(); inside != 0) {
      int status = 0;
      waitpid(inside, &status, 0);
      return WEXITSTATUS(status);
    }
    Node node(direct_options(dir));
    node.turn();
    node.send(roce_frame(mac_of(1), qpn, 90));
    while (node.told.empty()) {
      node.turn();
      if (node.port->direct()->find(mac_of(1), qpn) != nullptr) return 2;
    }
    return node.told[0].find("no number here") != std::string::npos ? 0 : 4;
  });
  EXPECT_EQ(code, 0);
}

/// A program that changes its user is not of the same user any more, even if root may copy from and to all processes.
TEST(DirectCopies, OfAnotherUserIsNotReached) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: to be another user needs root";
  const TempDir dir;
  Node other(direct_options(dir));
  const uint32_t qpn = other.qpn();
  const int code = run_beside(other, [&] {
    Node node(direct_options(dir));
    node.turn();
    node.send(roce_frame(mac_of(1), qpn, 90));
    if (setresuid(65534, 0, 0) != 0) return 1;
    while (node.told.empty()) node.turn();
    const bool reached = node.port->direct()->find(mac_of(1), qpn) != nullptr;
    const bool said = node.told.size() == 1 && node.told[0].find("another user") != std::string::npos;
    return !reached && said ? 0 : 4;
  });
  EXPECT_EQ(code, 0);
}

/// Whatever a peer writes into its table, an entry that is found has the requested key.
TEST(DirectTable, RubbishIsNoTarget) {
  auto table = std::make_unique<DirectTable>();
  SeededRandom random(9);
  auto* const words = reinterpret_cast<uint32_t*>(static_cast<void*>(table->regions));
  uint32_t found = 0;
  for (uint32_t round = 0; round < 20; round++) {
    for (size_t i = 0; i < kDirectSlots * (sizeof(DirectSlot) / sizeof(uint32_t)); i++)
      words[i] = random.next_u32() % 64;
    for (uint32_t key = 1; key < 64; key++) {
      const DirectSlot* place = nullptr;
      const auto slot = find_slot(table->regions, key, place);
      if (!slot) continue;
      found++;
      EXPECT_EQ(decode_region(*slot).key, key);
      EXPECT_EQ(place->sequence.load() % 2, 0u);
    }
  }
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace uroce::segment
