// The directory is removed, as with the last session of its user, or emptied by whoever cleans up by age.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "node.h"

namespace uroce::segment {
namespace {

namespace fs = std::filesystem;
using namespace test;

constexpr Duration kSecond = milliseconds(1000);
constexpr Listening kService{0x0106'4711, ~uint64_t{0}};

/// Two programs that send to each other, one of which has a service.
class ComeBack : public testing::Test {
 protected:
  ComeBack() {
    std::string error;
    EXPECT_TRUE(server_.port->registration().services().take(kService.service_id));
    EXPECT_EQ(server_.port->registration().listen(kService, error), 0) << error;
    EXPECT_TRUE(reaches(client_, server_));
  }
  static bool reaches(Node& from, Node& to) {
    const auto frame = roce_frame(to.port->registration().record().mac, to.qpn(), 90);
    from.send(frame);
    settle({&from, &to});
    return to.receive() == Frames{frame};
  }
  void a_second_later() {
    server_.turn(kSecond);
    client_.turn(kSecond);
    settle({&server_, &client_});
  }
  /// A newcomer finds the server's service and numbers, and can take neither.
  void expect_whole() {
    Node newcomer(dir_, record_of("host", 1));
    settle({&server_, &newcomer});
    EXPECT_NE(newcomer.port->peers().listener(mac_of(1), kService.service_id), nullptr);
    EXPECT_FALSE(newcomer.port->registration().services().take(kService.service_id));
    EXPECT_NE(newcomer.qpn() >> kQpnBlockBits, server_.qpn() >> kQpnBlockBits);
    EXPECT_TRUE(reaches(newcomer, server_));
    EXPECT_TRUE(reaches(server_, newcomer));
    EXPECT_TRUE(reaches(client_, server_));
    EXPECT_TRUE(reaches(server_, client_));
  }
  fs::path file(char kind) const {
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      const bool of_server = name == Directory::file_name(kind, server_.port->registration().id());
      if (name[0] == kind && (of_server || kind == 'q' || kind == 'l')) return entry.path();
    }
    ADD_FAILURE() << "there is no file " << kind;
    return {};
  }

  const TempDir dir_;
  Node server_{dir_, record_of("host", 1)};
  Node client_{dir_, record_of("host", 1)};
};

TEST_F(ComeBack, ToADirectoryThatWasRemoved) {
  fs::remove_all(dir_.path());
  EXPECT_TRUE(reaches(client_, server_)) << "who knows each other needs no directory";
  a_second_later();
  expect_whole();
  ASSERT_EQ(server_.warnings.size(), 1u);
  EXPECT_EQ(server_.warnings[0],
            "the directory where programs meet, " + dir_.path() + ", was removed or emptied, and is made anew");
  EXPECT_EQ(fs::status(dir_.path()).permissions(), fs::perms::owner_all);
}

TEST_F(ComeBack, WithoutWhatWasGivenBack) {
  constexpr uint64_t kGivenBack = 0x0106'4712;
  ServiceClaims& services = server_.port->registration().services();
  EXPECT_TRUE(services.take(kGivenBack));
  services.give_back(kGivenBack);
  fs::remove_all(dir_.path());
  a_second_later();
  expect_whole();
  Node newcomer(dir_, record_of("host", 1));
  EXPECT_TRUE(newcomer.port->registration().services().take(kGivenBack));
}

TEST_F(ComeBack, ToOneThatANewcomerHasMadeAnew) {
  fs::remove_all(dir_.path());
  Node newcomer(dir_, record_of("other", 2));
  a_second_later();
  settle({&newcomer, &server_});
  EXPECT_TRUE(reaches(newcomer, server_));
  expect_whole();
}

TEST_F(ComeBack, ForEachFile) {
  for (const char kind : {'m', 's', 'q', 'l'}) {
    server_.warnings.clear();
    fs::remove(file(kind));
    a_second_later();
    expect_whole();
    EXPECT_EQ(server_.warnings.size(), 1u) << kind;
  }
}

TEST_F(ComeBack, TakesNobodyForGoneMeanwhile) {
  std::vector<LostMember> lost;
  client_.port->on_lost([&](const LostMember& member, Instant) { lost.push_back(member); });
  fs::remove_all(dir_.path());
  // The client notices long before the server does.
  for (int i = 0; i < 9; i++) client_.turn(kSecond);
  EXPECT_TRUE(lost.empty());
  a_second_later();
  for (int i = 0; i < 30; i++) a_second_later();
  EXPECT_TRUE(lost.empty());
  // A member that lives does not stay away so long.
  fs::remove(file('m'));
  for (int i = 0; i < 12; i++) client_.turn(kSecond);
  EXPECT_EQ(lost.size(), 1u);
}

TEST_F(ComeBack, IsTriedAgainUntilItCanBe) {
  fs::remove_all(dir_.path());
  std::ofstream(dir_.path()) << "something else";
  for (int i = 0; i < 5; i++) a_second_later();
  ASSERT_EQ(server_.warnings.size(), 1u);
  EXPECT_EQ(server_.warnings[0], "the directory where programs meet, " + dir_.path() +
                                     ", was removed or emptied; other programs will not find this one: cannot use " +
                                     dir_.path() + ": Not a directory; name another place with UROCE_RUNTIME_DIR");
  fs::remove(dir_.path());
  a_second_later();
  expect_whole();
  EXPECT_EQ(server_.warnings.size(), 2u);
}

TEST_F(ComeBack, SaysEachTimeThatItCannotBe) {
  for (size_t life = 1; life <= 3; life++) {
    fs::remove_all(dir_.path());
    std::ofstream(dir_.path()) << "something else";
    for (int i = 0; i < 5; i++) a_second_later();
    ASSERT_EQ(server_.warnings.size(), 2 * life - 1);
    fs::remove(dir_.path());
    a_second_later();
    ASSERT_EQ(server_.warnings.size(), 2 * life);
  }
  expect_whole();
}

/// An earlier doubt does not count the next time, long after.
TEST_F(ComeBack, EachDoubtBeginsAnew) {
  for (int life = 0; life < 3; life++) {
    fs::remove(file('m'));
    for (int i = 0; i < 6; i++) client_.turn(kSecond);
    for (int i = 0; i < 6; i++) a_second_later();
  }
  EXPECT_EQ(client_.port->counters().peers_lost, 0u);
  expect_whole();
}

TEST_F(ComeBack, SaysWhenAnotherHasItsNumbersMeanwhile) {
  fs::remove_all(dir_.path());
  Node thief(dir_, record_of("host", 1));
  EXPECT_TRUE(thief.port->registration().services().take(kService.service_id));
  a_second_later();
  ASSERT_EQ(server_.warnings.size(), 1u);
  EXPECT_TRUE(server_.warnings[0].ends_with(", but another program has a service of this one")) << server_.warnings[0];
}

}  // namespace
}  // namespace uroce::segment
