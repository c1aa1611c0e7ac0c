// Clients that send rubbish: the server answers or closes, never dies, and serves the next client as if nothing had
// been. Reproduces from the seed that a failure names.
#include <fcntl.h>
#include <sys/mman.h>

#include <random>

#include "pmd/hw/registers.h"
#include "pmd/vfio_user/client.h"
#include "test_host.h"
#include "vfio_user_rig.h"

namespace mqnic::card {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(uint32_t seed)
      : random_(seed), file_(memfd_create("fuzz", MFD_CLOEXEC)), event_(eventfd(0, EFD_NONBLOCK)) {
    EXPECT_EQ(ftruncate(file_.get(), 1 << 20), 0);
  }

  uint64_t below(uint64_t limit) { return random_() % limit; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  /// Numbers that are often nearly right.
  uint64_t number() {
    switch (below(6)) {
      case 0:
        return below(16);
      case 1:
        return uint64_t{1} << below(64);
      case 2:
        return (uint64_t{1} << below(64)) - 1;
      case 3:
        return below(4096) * 4096;
      case 4:
        return below(1 << 24) & ~uint64_t{3};
      default:
        return random_() << 32 | random_();
    }
  }

  Bytes body(uint16_t command) {
    switch (command) {
      case 2:
        return pack({{4, one_in(8) ? number() : 32}, {4, below(4)}, {8, number()}, {8, number()}, {8, number()}});
      case 3:
        return pack({{4, 24}, {4, one_in(4) ? number() : 0}, {8, number()}, {8, number()}});
      case 5:
        return pack({{4, 32 + below(64)}, {4, 0}, {4, one_in(8) ? number() : below(11)}, {4, 0}, {8, 0}, {8, 0}});
      case 8:
        return pack({{4, 20}, {4, number() & 0x3f}, {4, one_in(4) ? number() : 2}, {4, below(70)}, {4, below(70)}}) +
               Bytes(one_in(2) ? 0 : below(70), 1);
      case 9:
        return pack({{8, number()}, {4, one_in(4) ? number() : below(10)}, {4, one_in(4) ? number() : below(64)}});
      case 10: {
        const uint64_t count = one_in(8) ? below(4200) : 4 * below(4);
        Bytes data(count);
        for (uint8_t& byte : data) byte = static_cast<uint8_t>(random_());
        return pack({{8, number()},
                     {4, one_in(4)   ? number()
                         : one_in(3) ? 9
                                     : 0},
                     {4, one_in(16) ? number() : count}}) +
               data;
      }
      default:
        return pack({{4, one_in(4) ? number() : 16}, {4, 0}, {4, below(6)}, {4, 0}});
    }
  }

  /// Mostly a message that is nearly right; now and then broken in its length, cut off, or rubbish.
  Bytes next() {
    const auto command = static_cast<uint16_t>(one_in(16) ? number() : 1 + below(18));
    Bytes bytes = message(static_cast<uint16_t>(random_()), command, body(command), one_in(8) ? 0x10 : 0);
    for (uint64_t i = one_in(4) ? below(8) : 0; i > 0; i--)
      bytes[below(bytes.size())] = static_cast<uint8_t>(random_());
    if (one_in(64)) bytes.resize(below(bytes.size() + 1));
    if (one_in(64)) bytes.resize(bytes.size() + below(64));
    return bytes;
  }
  std::vector<int> fds() {
    std::vector<int> all;
    for (uint64_t i = one_in(2) ? below(4) : 0; i > 0; i--)
      all.push_back(one_in(2) ? file_.get() : one_in(4) ? STDERR_FILENO : event_.get());
    return all;
  }

 private:
  std::mt19937 random_;
  vfio_user::UniqueFd file_;
  vfio_user::UniqueFd event_;
};

/// Sends `count` messages, or fewer when the server closes the connection.
void annoy(const std::string& path, Fuzzer& fuzzer, int count) {
  RawClient client(path);
  if (!fuzzer.one_in(8)) client.send(hello());
  for (int i = 0; i < count; i++) {
    const Bytes bytes = fuzzer.next();
    if (!bytes.empty() && !client.send(bytes, fuzzer.fds())) return;
    if (client.pending()) client.drain();
  }
}

TEST(VfioUserFuzz, ServerSurvivesAndServesTheNextClient) {
  const RuntimeDirectory directory;
  const std::string path = directory.path() + "/card.sock";
  ServerThread server(path);
  for (uint32_t seed = 1; seed <= 300; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fuzzer fuzzer(seed);
    annoy(path, fuzzer, 200);
    if (seed % 50 != 0) continue;
    std::string error;
    const auto bus = vfio_user::VfioUserBus::connect(path, error);
    ASSERT_NE(bus, nullptr) << error;
    TestHost host(*bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    ASSERT_TRUE(host.send(numbered_frame(seed, 100)));
    Frame frame;
    for (int i = 0; i < 2000 && frame.empty(); i++, usleep(1000)) frame = host.receive();
    ASSERT_EQ(frame, numbered_frame(seed, 100));
  }
}

TEST(VfioUserFuzz, DoorbellMemoryFullOfRubbishWhileTheCardRuns) {
  const RuntimeDirectory directory;
  const std::string path = directory.path() + "/card.sock";
  ServerThread server(path);
  std::mt19937 random(7);
  for (int round = 0; round < 10; round++) {
    std::string error;
    const auto bus = vfio_user::VfioUserBus::connect(path, error);
    ASSERT_NE(bus, nullptr) << error;
    TestHost host(*bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    for (int i = 0; i < 20'000; i++) {
      const auto kind = static_cast<Bus::QueueKind>(random() % 4);
      const uint32_t command =
          random() % 2 == 0 ? static_cast<uint32_t>(random()) : 0x80800000u | (random() & 0x1fffff);
      *bus->doorbell_word(0, kind, static_cast<unsigned>(random() % 3), 0) = command;
    }
    ASSERT_EQ(bus->read32(4), 0x100u);
  }
}

TEST(VfioUserFuzz, ClientSurvivesAServerThatSendsRubbish) {
  const RuntimeDirectory directory;
  for (uint32_t seed = 1; seed <= 200; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    vfio_user::Channel channel{vfio_user::UniqueFd(ends[0])};
    const vfio_user::UniqueFd other(ends[1]);
    for (int i = 0; i < 100; i++) {
      Bytes bytes = reply(static_cast<uint16_t>(random()), static_cast<uint16_t>(random() % 16), Bytes(random() % 100));
      if (random() % 4 == 0) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      const std::vector<int> fds(random() % 3, STDERR_FILENO);
      ASSERT_TRUE(send_with(other.get(), bytes, fds));
      vfio_user::Message message;
      const auto received = channel.receive(message, 0);
      if (received == vfio_user::Channel::Received::kClosed) break;
      if (received == vfio_user::Channel::Received::kMessage) {
        ASSERT_EQ(message.header.bytes, 16 + message.body.size());
      }
    }
  }
}

}  // namespace
}  // namespace mqnic::card
