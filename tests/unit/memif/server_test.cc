#include "memif/server.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <span>

#include "support.h"

namespace uroce::memif {
namespace {

using namespace test;

size_t open_descriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) count++;
  closedir(folder);
  return count;
}

/// A client's socket.
struct Client {
  explicit Client(const std::string& path) : socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    good = ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  void say(const std::vector<uint8_t>& bytes, const std::vector<int>& fds = {}) const {
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    std::vector<uint8_t> control(CMSG_SPACE(fds.size() * sizeof(int)));
    if (!fds.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* const item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(item), fds.data(), fds.size() * sizeof(int));
    }
    sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  }
  /// Type of the next message, 0 at the end, -1 when there is nothing.
  int hear() {
    const ssize_t got = recv(socket.get(), heard.data(), heard.size(), MSG_DONTWAIT);
    return got == 0 ? 0 : got < 0 ? -1 : heard[0];
  }
  std::string reason() const { return reinterpret_cast<const char*>(&heard[6]); }

  UniqueFd socket;
  bool good = false;
  MessageBytes heard{};
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/uroce-memif-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/port.sock";
    std::string error;
    server_ = Server::listen(path_, "port", error);
    ASSERT_NE(server_, nullptr) << error;
  }
  void TearDown() override {
    server_.reset();
    EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket is removed";
    rmdir(folder_.c_str());
  }

  void look(int times = 1) {
    for (int i = 0; i < times; i++) server_->look(now_ = now_ + milliseconds(1));
  }
  /// Says one thing, and hears what the server makes of it.
  int ask(Client& client, const std::vector<uint8_t>& bytes, const std::vector<int>& fds = {}) {
    client.say(bytes, fds);
    look();
    return client.hear();
  }
  void greet(Client& client) {
    look();
    ASSERT_EQ(client.hear(), 2) << "HELLO";
  }
  void set_up(Client& client, const ClientMemory& memory) {
    const UniqueFd event(eventfd(0, EFD_CLOEXEC));
    ASSERT_NO_FATAL_FAILURE(greet(client));
    ASSERT_EQ(ask(client, init()), 1);
    ASSERT_EQ(ask(client, add_region(0, memory.bytes()), {memory.file.get()}), 1);
    ASSERT_EQ(ask(client, add_ring(true, memory.ring(true), memory.log2), {event.get()}), 1);
    ASSERT_EQ(ask(client, add_ring(false, memory.ring(false), memory.log2), {event.get()}), 1);
  }
  void plug_in(Client& client, const ClientMemory& memory) {
    ASSERT_NO_FATAL_FAILURE(set_up(client, memory));
    ASSERT_EQ(ask(client, connect()), 7) << "CONNECTED";
    ASSERT_TRUE(server_->connected());
  }

  std::string folder_;
  std::string path_;
  std::unique_ptr<Server> server_;
  Instant now_{1'000'000};
};

TEST_F(ServerTest, AClientComesAndGoes) {
  const size_t before = open_descriptors();
  {
    const ClientMemory memory;
    Client client(path_);
    ASSERT_NO_FATAL_FAILURE(plug_in(client, memory));
    // Its memory, twice its socket; nothing else of what it sent is kept.
    EXPECT_EQ(open_descriptors(), before + 3);
    EXPECT_EQ(server_->counters().connected, 1u);
  }
  look();
  EXPECT_FALSE(server_->connected());
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ServerTest, GoodbyeIsTheEndToo) {
  const ClientMemory memory;
  Client client(path_);
  ASSERT_NO_FATAL_FAILURE(plug_in(client, memory));
  client.say(disconnect());
  look();
  EXPECT_FALSE(server_->connected());
  EXPECT_EQ(server_->counters().broken, 0u);
}

TEST_F(ServerTest, TheSocketIsForThisUserOnly) {
  struct stat st {};
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(ServerTest, ASecondClientIsSentAwayAndTheFirstOneStays) {
  const ClientMemory memory;
  const ClientMemory other;
  Client first(path_);
  ASSERT_NO_FATAL_FAILURE(plug_in(first, memory));
  Client second(path_);
  ASSERT_NO_FATAL_FAILURE(set_up(second, other));
  EXPECT_EQ(ask(second, connect()), 8);
  EXPECT_EQ(second.reason(), "somebody is connected already");
  EXPECT_TRUE(server_->connected());
  EXPECT_EQ(first.hear(), -1) << "it hears nothing of that";
}

TEST_F(ServerTest, TheNextClientIsInAsSoonAsTheOneBeforeIsGone) {
  const ClientMemory memory;
  const ClientMemory other;
  auto first = std::make_unique<Client>(path_);
  ASSERT_NO_FATAL_FAILURE(plug_in(*first, memory));
  Client second(path_);
  ASSERT_NO_FATAL_FAILURE(set_up(second, other));
  first.reset();
  EXPECT_EQ(ask(second, connect()), 7);
  EXPECT_TRUE(server_->connected());
}

TEST_F(ServerTest, WhoeverIsRefusedIsToldWhyAndSoAreWe) {
  const ClientMemory unsealed(2, 0);
  Client client(path_);
  ASSERT_NO_FATAL_FAILURE(greet(client));
  ASSERT_EQ(ask(client, init()), 1);
  EXPECT_EQ(ask(client, add_region(0, unsealed.bytes()), {unsealed.file.get()}), 8);
  EXPECT_EQ(client.reason(), "region is not sealed against shrinking");
  EXPECT_EQ(client.hear(), 0) << "and that is the end";
  EXPECT_EQ(server_->counters().refused, 1u);
  EXPECT_EQ(server_->take_news(), "a client was refused: region is not sealed against shrinking");
  EXPECT_EQ(server_->take_news(), "");
}

TEST_F(ServerTest, RingsThatAreNotThere) {
  const ClientMemory memory;
  memory.base[0] ^= 1;  // the cookie
  Client client(path_);
  ASSERT_NO_FATAL_FAILURE(set_up(client, memory));
  EXPECT_EQ(ask(client, connect()), 8);
  EXPECT_FALSE(server_->connected());
}

TEST_F(ServerTest, NoDescriptorIsKeptThatNobodyAskedFor) {
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  const size_t before = open_descriptors();
  for (const size_t count : {size_t{1}, size_t{2}, size_t{8}, size_t{9}, size_t{200}}) {
    Client client(path_);
    ASSERT_NO_FATAL_FAILURE(greet(client));
    EXPECT_EQ(ask(client, init(), std::vector<int>(count, event.get())), 8) << count;
    EXPECT_EQ(open_descriptors(), before + 1) << count;
  }
  for (const size_t count : {size_t{0}, size_t{2}, size_t{9}, size_t{200}}) {
    const ClientMemory memory;
    Client client(path_);
    ASSERT_NO_FATAL_FAILURE(greet(client));
    ASSERT_EQ(ask(client, init()), 1);
    ASSERT_EQ(ask(client, add_region(0, memory.bytes()), {memory.file.get()}), 1);
    const size_t mapped = open_descriptors();
    EXPECT_EQ(ask(client, add_region(1, memory.bytes()), std::vector<int>(count, memory.file.get())), 8) << count;
    EXPECT_EQ(open_descriptors(), mapped - 1) << "its socket is closed, and what it sent is: " << count;
  }
}

TEST_F(ServerTest, HalfDoneHandshakesAreGivenUp) {
  const size_t before = open_descriptors();
  Client client(path_);
  ASSERT_NO_FATAL_FAILURE(greet(client));
  ASSERT_EQ(ask(client, init()), 1);
  now_ = now_ + Server::kHandshakeTime;
  look();
  EXPECT_EQ(client.hear(), 0);
  EXPECT_EQ(open_descriptors(), before + 1);
  EXPECT_EQ(server_->counters().given_up, 1u);
}

TEST_F(ServerTest, ManyHalfDoneHandshakesTakeNoMoreThanAFew) {
  const size_t before = open_descriptors();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 100; i++) {
    clients.push_back(std::make_unique<Client>(path_));
    ASSERT_TRUE(clients.back()->good);
    look();
  }
  EXPECT_EQ(open_descriptors(), before + 100 + Server::kHandshakes);
  const ClientMemory memory;
  Client honest(path_);
  ASSERT_NO_FATAL_FAILURE(plug_in(honest, memory)) << "there is always room for a new one";
  now_ = now_ + Server::kHandshakeTime;
  look();
  clients.clear();
  EXPECT_TRUE(server_->connected());
  EXPECT_EQ(open_descriptors(), before + 3);
}

TEST_F(ServerTest, AClientThatDoesNotReadIsNotWaitedFor) {
  Client client(path_);
  look();
  for (int i = 0; i < 1000; i++) {
    client.say(init());
    look();
  }
  EXPECT_FALSE(server_->handshaking());
}

TEST_F(ServerTest, WhoBreaksTheRingsIsDisconnected) {
  const ClientMemory memory;
  Client client(path_);
  ASSERT_NO_FATAL_FAILURE(plug_in(client, memory));
  server_->on_broken("a lie");
  EXPECT_FALSE(server_->connected());
  EXPECT_EQ(client.hear(), 8);
  EXPECT_EQ(client.reason(), "a lie");
  EXPECT_EQ(server_->counters().broken, 1u);
  EXPECT_EQ(server_->take_news(), "the client was disconnected: a lie");
}

TEST_F(ServerTest, WhoTalksAfterConnectingIsDisconnected) {
  const ClientMemory memory;
  Client client(path_);
  ASSERT_NO_FATAL_FAILURE(plug_in(client, memory));
  EXPECT_EQ(ask(client, init()), 8);
  EXPECT_FALSE(server_->connected());
  EXPECT_EQ(server_->counters().broken, 1u);
}

TEST_F(ServerTest, OneLookDoesALittleOnly) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; i++) clients.push_back(std::make_unique<Client>(path_));
  look();
  int greeted = 0;
  for (const auto& client : clients) greeted += client->hear() == 2 ? 1 : 0;
  EXPECT_EQ(greeted, 2);
  server_->on_turn(now_ + microseconds(400));
  for (const auto& client : clients) EXPECT_NE(client->hear(), 2) << "it is not time to look again";
}

TEST_F(ServerTest, APathThatIsTooLongIsSaid) {
  std::string error;
  EXPECT_EQ(Server::listen(folder_ + "/" + std::string(120, 'x'), "port", error), nullptr);
  EXPECT_NE(error.find("too long"), std::string::npos) << error;
  EXPECT_EQ(Server::listen("/nowhere/port.sock", "port", error), nullptr);
  EXPECT_NE(error.find("/nowhere/port.sock"), std::string::npos) << error;
}

}  // namespace
}  // namespace uroce::memif
