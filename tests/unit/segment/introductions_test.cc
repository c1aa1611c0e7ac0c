#include "segment/introductions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "node.h"
#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

/// A member whose letters the test writes.
struct Handmade {
  Handmade(const TempDir& dir, const MemberRecord& record) {
    std::string error;
    good = directory.open(dir.path(), error) && membership.join(directory, record, error) &&
           mailbox.open(directory, membership.id(), error) && base.make("base", sizeof(BaseMemory), error) &&
           lane.make("lane", sizeof(LaneMemory), error);
    EXPECT_TRUE(good) << error;
  }
  void say(const Node& to, Letter::Kind kind, uint32_t answer = 0, uint16_t version = Letter::kVersion) {
    Letter letter;
    letter.version = version;
    letter.kind = kind;
    letter.from = membership.id();
    letter.answer = answer;
    const LetterFds fds = kind == Letter::Kind::kHello ? LetterFds{base.fd(), lane.fd()} : LetterFds{};
    EXPECT_EQ(mailbox.send(to.port->registration().id(), letter, fds), Mailbox::Sent::kYes);
  }
  std::vector<Letter::Kind> mail() {
    std::vector<Letter::Kind> kinds;
    LetterFds fds;
    LostLetters lost;
    while (const auto letter = mailbox.receive(fds, lost)) {
      kinds.push_back(letter->kind);
      if (letter->kind != Letter::Kind::kHello) continue;
      close(fds.base);
      close(fds.lane);
    }
    return kinds;
  }
  bool good = false;
  Directory directory;
  Membership membership;
  Mailbox mailbox;
  OwnMemory base, lane;
};

using Kinds = std::vector<Letter::Kind>;

TEST(Introductions, WhoMissedAnAnswerGetsAnother) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  Handmade b(dir, record_of("host", 1));
  b.say(a, Letter::Kind::kHello, 1);
  a.turn();
  EXPECT_EQ(b.mail(), Kinds(2, Letter::Kind::kHello));
  b.say(a, Letter::Kind::kHello, 0);
  a.turn();
  EXPECT_EQ(b.mail(), Kinds{});
  // The memory that it would pass on is closed by now.
  b.say(a, Letter::Kind::kHello, 1);
  a.turn();
  EXPECT_EQ(b.mail(), Kinds{Letter::Kind::kKnown});
}

/// It writes so into its record, and may not touch the directory.
TEST(Introductions, WhoIsShutOutHasNoServicesForThoseWhoHaveNotMetIt) {
  const TempDir dir;
  constexpr uint64_t kWanted = 0x0000000001061c06;
  constexpr uint16_t kConnectRequest = 0x10;
  Node known(dir, record_of("host", 1));
  Node newcomer(dir, record_of("host", 1));
  MemberRecord record = record_of("host", 1);
  record.listens = {{kWanted, ~uint64_t{0}}};
  Handmade shut(dir, record);
  shut.say(known, Letter::Kind::kHello, 0);
  known.turn();
  newcomer.turn();
  newcomer.send(cm_frame(mac_of(1), kConnectRequest, 0, kWanted));
  newcomer.turn(milliseconds(2));
  for (Node* node : {&known, &newcomer}) EXPECT_NE(node->port->peers().listener(mac_of(1), kWanted), nullptr);
  struct stat before {};
  ASSERT_EQ(fstat(shut.directory.fd(), &before), 0);
  const timespec times[] = {before.st_atim, before.st_mtim};
  std::string error;
  ASSERT_EQ(shut.membership.become([](MemberRecord& own) { own.shut = true; }, error), 0) << error;
  ASSERT_EQ(futimens(shut.directory.fd(), times), 0);
  for (int i = 0; i < 100; i++) newcomer.turn(milliseconds(1));
  Peer* found = nullptr;
  EXPECT_EQ(newcomer.port->peers().listener(mac_of(1), kWanted, &found), nullptr);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(line_of_shut(*found), "") << "it was told already";
  found = nullptr;
  EXPECT_EQ(newcomer.port->peers().listener(mac_of(1), kWanted + 1, &found), nullptr);
  EXPECT_EQ(found, nullptr);
  ASSERT_EQ(newcomer.warnings.size(), 1u);
  EXPECT_NE(newcomer.warnings[0].find("has changed its user"), std::string::npos);
  known.port->peers().refresh(true);
  EXPECT_NE(known.port->peers().listener(mac_of(1), kWanted), nullptr) << "they have met";
  EXPECT_TRUE(known.warnings.empty());
  ASSERT_EQ(shut.membership.become([](MemberRecord& own) { own.shut = false; }, error), 0) << error;
  newcomer.port->peers().refresh(true);
  EXPECT_NE(newcomer.port->peers().listener(mac_of(1), kWanted), nullptr) << "it has its rights back";
}

TEST(Introductions, WhoIsKnownSaysNoMoreHellos) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  Handmade b(dir, record_of("host", 1));
  b.say(a, Letter::Kind::kKnown);  // without a hello before it, this means nothing
  a.turn();
  b.say(a, Letter::Kind::kHello, 0x100);
  a.turn();
  EXPECT_EQ(b.mail(), Kinds(2, Letter::Kind::kHello));
  a.turn();
  EXPECT_EQ(b.mail(), Kinds{Letter::Kind::kHello}) << "nobody has said that it has arrived";
  b.say(a, Letter::Kind::kKnown);
  for (int i = 0; i < 10; i++) a.turn(milliseconds(100));
  EXPECT_EQ(b.mail(), Kinds{});
}

TEST(Introductions, ThatAProgramHasAnotherVersionIsSaidOnce) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  Handmade b(dir, record_of("host", 1));
  for (int i = 0; i < 3; i++) {
    b.say(a, Letter::Kind::kHello, 1, Letter::kVersion + 1);
    a.turn();
  }
  EXPECT_EQ(b.mail(), Kinds{});
  ASSERT_EQ(a.warnings.size(), 1u);
  EXPECT_NE(a.warnings[0].find("another version"), std::string::npos) << a.warnings[0];
}

TEST(Introductions, StrangersDoNotMakeItReadTheDirectoryAgainAndAgain) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  Directory directory;
  Mailbox stranger;
  OwnMemory memory;
  std::string error;
  ASSERT_TRUE(directory.open(dir.path(), error) && stranger.open(directory, 7, error) &&
              memory.make("any", 4096, error))
      << error;
  Letter hello;
  hello.kind = Letter::Kind::kHello;
  hello.from = 7;  // there is no such record
  ASSERT_EQ(stranger.send(a.port->registration().id(), hello, {memory.fd(), memory.fd()}), Mailbox::Sent::kYes);
  a.turn();
  Node b(dir, record_of("host", 1));
  b.turn();
  b.send(roce_frame(mac_of(1), a.qpn(), 90));
  a.turn(microseconds(100));
  EXPECT_EQ(a.port->counters().contacts, 0u) << "it has looked a moment ago";
  settle({&a, &b});
  EXPECT_EQ(a.port->counters().contacts, 1u);
}

/// It meets as many other members as it has memory for, in order of their first frames, and its uplink beside them.
/// Members that leave make room.
TEST(Introductions, AreBoundedByAQuota) {
  const TempDir dir;
  Node a(dir, record_of("host", 1), 2), b(dir, record_of("host", 1)), c(dir, record_of("host", 1));
  auto d = std::make_unique<Node>(dir, record_of("host", 1));
  Node uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  settle({&a, &b, &c, d.get(), &uplink});
  a.send(roce_frame(mac_of(1), b.qpn(), 90));
  d->send(roce_frame(mac_of(1), a.qpn(), 90));
  settle({&a, &b, &c, d.get(), &uplink});
  EXPECT_EQ(b.receive().size(), 1u);
  EXPECT_EQ(a.receive().size(), 1u);
  EXPECT_TRUE(a.warnings.empty());

  const uint32_t third = c.qpn();
  a.send(roce_frame(mac_of(1), third, 90));
  c.send(roce_frame(mac_of(1), a.qpn(), 90));
  a.send(roce_frame(kFarAway, 0x123456, 90));
  settle({&a, &b, &c, d.get(), &uplink});
  EXPECT_TRUE(c.receive().empty());
  EXPECT_TRUE(a.receive().empty());
  EXPECT_EQ(uplink.receive().size(), 1u);
  EXPECT_EQ(a.port->counters().tx_dropped_full, 1u);
  ASSERT_EQ(a.warnings.size(), 1u);
  EXPECT_NE(a.warnings[0].find("no memory for more than 2 other programs"), std::string::npos) << a.warnings[0];

  d.reset();
  for (int i = 0; i < 12; i++) a.turn(milliseconds(100));
  a.send(roce_frame(mac_of(1), third, 90));
  settle({&a, &b, &c, &uplink});
  EXPECT_EQ(c.receive().size(), 1u);
}

/// Waits for `done`, with a moment between two looks: the end of a cable reads a directory seldom when that takes long,
/// which depends on the machine.
template <class Done>
[[nodiscard]] bool before_long(Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A port of a switch, which one program may join as often as it likes.
TEST(Introductions, AsACableItMeetsFewWhateverTheyAre) {
  constexpr size_t kMost = 8;
  const TempDir dir;
  Node own(dir.path(), with_role(record_of("switch", 9), Role::kBridge), 0, true);
  const auto contacts = [&] { return own.port->peers().in_contact().size(); };
  {
    std::vector<std::unique_ptr<Handmade>> crowd;
    for (uint8_t i = 0; i < 3 * kMost; i++) {
      const Role role = i % 3 == 0 ? Role::kBridge : i % 3 == 1 ? Role::kStation : Role::kProgram;
      crowd.push_back(std::make_unique<Handmade>(dir, with_role(record_of("host" + std::to_string(i), 20 + i), role)));
      const auto say_hello = [&] {
        crowd.back()->say(own, Letter::Kind::kHello, 1);
        own.turn();
      };
      EXPECT_TRUE(before_long([&] {
        say_hello();
        return i < kMost ? contacts() == i + 1u : own.port->peers().size() == i + 1u;
      })) << i;
      say_hello();  // to a peer that is certainly known
    }
    EXPECT_EQ(contacts(), kMost);
    own.send(roce_frame(kFarAway, 0x17, 90));  // to every bridge
    EXPECT_EQ(contacts(), kMost);
    ASSERT_EQ(own.warnings.size(), 1u);
    EXPECT_EQ(own.warnings[0], "no more than 8 members are met where one is expected");
  }
  EXPECT_TRUE(before_long([&] {
    own.turn(milliseconds(100));
    return contacts() == 0;
  }));
  Node next(dir, with_role(record_of("port0", 1), Role::kBridge));
  const auto frame = roce_frame(kFarAway, 0x17, 700);
  next.send(frame);
  Frames received;
  EXPECT_TRUE(before_long([&] {
    settle({&own, &next});
    received = own.receive();
    return !received.empty();
  }));
  EXPECT_EQ(received, Frames{frame});
}

}  // namespace
}  // namespace uroce::segment
