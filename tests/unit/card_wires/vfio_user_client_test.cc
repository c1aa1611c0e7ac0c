// The client against the server, in one process.
#include "pmd/vfio_user/client.h"

#include <signal.h>

#include <cerrno>
#include <chrono>

#include "test_host.h"
#include "vfio_user_rig.h"

namespace mqnic::card {
namespace {

using vfio_user::VfioUserBus;

class VfioUserClientTest : public testing::Test {
 protected:
  std::unique_ptr<VfioUserBus> connect() {
    std::string error;
    auto bus = VfioUserBus::connect(path_, error);
    EXPECT_NE(bus, nullptr) << error;
    return bus;
  }
  std::string refusal() {
    std::string error;
    EXPECT_EQ(VfioUserBus::connect(path_, error), nullptr);
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  }
  static Frame wait_for_frame(TestHost& host) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    Frame frame = host.receive();
    while (frame.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      frame = host.receive();
    }
    return frame;
  }

  RuntimeDirectory directory_;
  std::string path_ = directory_.path() + "/card.sock";
};

TEST_F(VfioUserClientTest, SeesTheCard) {
  ServerThread server(path_);
  const auto bus = connect();
  EXPECT_EQ(bus->name(), "vfio-user " + path_);
  EXPECT_EQ(bus->bar_bytes(), 16u << 20);
  EXPECT_EQ(bus->vendor_id(), 0x1234);
  EXPECT_EQ(bus->device_id(), 0x1001);
  EXPECT_EQ(bus->interrupt_count(), 64u);
  EXPECT_TRUE(bus->uses_virtual_addresses());
  EXPECT_FALSE(bus->needs_run());
  EXPECT_EQ(bus->read32(0), 0xffffffffu) << "the first block's type: firmware ID";
  EXPECT_EQ(bus->read32(4), 0x100u);
  EXPECT_EQ(bus->read32(static_cast<uint32_t>(bus->bar_bytes())), kAllOnes);
  EXPECT_NE(bus->doorbell_word(0, Bus::QueueKind::kTx, 0, 0), nullptr);
  EXPECT_EQ(bus->doorbell_word(1, Bus::QueueKind::kTx, 0, 0), nullptr);
}

TEST_F(VfioUserClientTest, CarriesFramesOverALoop) {
  ServerThread server(path_);
  const auto bus = connect();
  {
    TestHost host(*bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    EXPECT_TRUE(host.link_up());
    uint32_t sent = 0;
    for (uint32_t received = 0; received < 500; received++) {
      while (sent < 500 && sent - received < 32 && host.send(numbered_frame(sent, 60 + sent * 7919 % 9155))) sent++;
      ASSERT_EQ(wait_for_frame(host), numbered_frame(received, 60 + received * 7919 % 9155));
    }
  }
  const CardReport report = server.stop();
  EXPECT_EQ(report.tx_frames, 500u);
  EXPECT_EQ(report.bad_register_writes, 0u);
  EXPECT_EQ(report.dma_faults, 0u);
}

TEST_F(VfioUserClientTest, InterruptComesThroughAnEventfd) {
  ServerThread server(path_);
  const auto bus = connect();
  const vfio_user::UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_EQ(bus->set_interrupt(64, event.get()), -EINVAL);
  ASSERT_EQ(bus->set_interrupt(5, event.get()), 0);
  TestHost host(*bus);
  ASSERT_NO_FATAL_FAILURE(host.start(5));
  host.arm_receive();
  pollfd entry{event.get(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 20), 0) << "nothing has happened yet";
  ASSERT_TRUE(host.send(numbered_frame(1, 100)));
  ASSERT_EQ(poll(&entry, 1, 10'000), 1);
  EXPECT_EQ(wait_for_frame(host), numbered_frame(1, 100));
  uint64_t count = 0;
  ASSERT_EQ(read(event.get(), &count, sizeof count), 8);
  EXPECT_EQ(count, 1u);

  ASSERT_EQ(bus->set_interrupt(5, -1), 0);
  host.arm_receive();
  ASSERT_TRUE(host.send(numbered_frame(2, 100)));
  EXPECT_EQ(wait_for_frame(host), numbered_frame(2, 100));
  EXPECT_EQ(poll(&entry, 1, 20), 0) << "the vector has no descriptor any more";
}

TEST_F(VfioUserClientTest, MemoryNeedsAFileAndIsMappedOnce) {
  ServerThread server(path_);
  const auto bus = connect();
  const vfio_user::UniqueFd file(memfd_create("x", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 8192), 0);
  auto* const address = reinterpret_cast<uint8_t*>(0x7000000);
  EXPECT_EQ(bus->map_memory(address, 4096, -1, 0), -EOPNOTSUPP);
  EXPECT_EQ(bus->map_memory(address, 4096, file.get(), 4096), 0);
  EXPECT_EQ(bus->map_memory(address, 4096, file.get(), 0), -EEXIST);
  EXPECT_EQ(bus->map_memory(address + 4096, 8192, file.get(), 4096), -EINVAL) << "beyond the file's end";
  EXPECT_EQ(bus->unmap_memory(address, 2048), -EINVAL) << "a part of it";
  EXPECT_EQ(bus->unmap_memory(address, 8192), 0);
  EXPECT_EQ(bus->map_memory(address, 4096, file.get(), 0), 0) << "it is free again";
}

TEST_F(VfioUserClientTest, NobodyThere) {
  EXPECT_NE(refusal().find("is mqnic-card running with --socket " + path_), std::string::npos);
  path_ = std::string(200, 'x');
  EXPECT_NE(refusal().find("107 characters"), std::string::npos);
}

TEST_F(VfioUserClientTest, OneClientAtATime) {
  ServerThread server(path_);
  auto bus = connect();
  EXPECT_NE(refusal().find("another client"), std::string::npos);
  EXPECT_EQ(bus->read32(4), 0x100u) << "the first one does not notice";
  for (int i = 0; i < 50; i++) {
    bus.reset();
    bus = connect();
    ASSERT_EQ(bus->read32(4), 0x100u);
  }
}

TEST_F(VfioUserClientTest, NextClientFindsACardThatWasReset) {
  ServerThread server(path_);
  auto bus = connect();
  const vfio_user::UniqueFd file(memfd_create("x", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  auto* const address = reinterpret_cast<uint8_t*>(0x7000000);
  volatile uint32_t* word = bus->doorbell_word(0, Bus::QueueKind::kTx, 3, 0);
  ASSERT_NE(word, nullptr);
  uint32_t enabled_at = 0;
  {
    TestHost host(*bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    enabled_at = host.card().tx_queues.at(0) + ring_register::kControlStatus;
    ASSERT_EQ(bus->read32(enabled_at) & ring_register::kEnabled, ring_register::kEnabled);
    ASSERT_EQ(bus->map_memory(address, 4096, file.get(), 0), 0);
    *word = command::set_producer(9);
    bus.reset();  // as when a process dies: nothing is unmapped
    bus = connect();
    EXPECT_EQ(*bus->doorbell_word(0, Bus::QueueKind::kTx, 3, 0), 0u);
    EXPECT_EQ(bus->map_memory(address, 4096, file.get(), 0), 0) << "the mappings of the one before are gone";
    TestHost again(*bus);
    ASSERT_NO_FATAL_FAILURE(again.start());
    ASSERT_TRUE(again.send(numbered_frame(1, 60)));
    EXPECT_EQ(wait_for_frame(again), numbered_frame(1, 60));
    EXPECT_EQ(bus->reset(), 0);
    EXPECT_EQ(bus->read32(enabled_at) & ring_register::kEnabled, ring_register::kEnabled) << "rst leaves queues alone";
    // The first host's destructor must not unmap through a bus that no longer exists.
    host.abandon();
  }
}

TEST_F(VfioUserClientTest, ServerThatGoesAwayReadsAllOnes) {
  ServerThread server(path_);
  const auto bus = connect();
  EXPECT_FALSE(bus->gone());
  server.stop();
  EXPECT_EQ(bus->read32(4), kAllOnes);
  EXPECT_TRUE(bus->gone());
  bus->write32(4, 1);
  EXPECT_EQ(bus->map_memory(reinterpret_cast<void*>(0x1000), 4096, 0, 0), -ENODEV);
  EXPECT_EQ(bus->set_interrupt(0, -1), -ENODEV);
  *bus->doorbell_word(0, Bus::QueueKind::kTx, 0, 0) = 1;  // the memory is still mapped
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket is removed";
}

TEST_F(VfioUserClientTest, SocketsAndOtherFilesOnTheWay) {
  {
    // A socket left behind by a server that was killed.
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);
  }
  ServerThread server(path_);
  connect();
  std::string error;
  EXPECT_EQ(VfioUserServer::listen(path_, {}, {}, error), nullptr);
  EXPECT_NE(error.find("another server listens"), std::string::npos) << error;
  connect();
  const std::string other = directory_.path() + "/file";
  close(open(other.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(VfioUserServer::listen(other, {}, {}, error), nullptr);
  EXPECT_NE(error.find("no socket"), std::string::npos) << error;
  EXPECT_EQ(access(other.c_str(), F_OK), 0);
}

/// A server that sends fixed answers, whatever it is asked.
class LyingServer {
 public:
  LyingServer(const std::string& path, std::vector<Bytes> answers)
      : fd_(socket(AF_UNIX, SOCK_STREAM, 0)), answers_(std::move(answers)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~LyingServer() {
    thread_.join();
    close(fd_);
  }
  LyingServer(const LyingServer&) = delete;
  LyingServer& operator=(const LyingServer&) = delete;

 private:
  void serve() {
    const int client = accept(fd_, nullptr, nullptr);
    uint8_t buffer[4096];
    for (const Bytes& answer : answers_) {
      if (recv(client, buffer, sizeof buffer, 0) <= 0) break;
      if (::send(client, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
    }
    close(client);
  }
  int fd_;
  std::vector<Bytes> answers_;
  std::thread thread_;
};

TEST_F(VfioUserClientTest, ServersThatLieAreRefused) {
  const Bytes version = reply(1, 1, pack({{2, 0}, {2, 1}}));
  const Bytes info = reply(2, 4, pack({{4, 16}, {4, 3}, {4, 10}, {4, 5}}));
  const Bytes bar = reply(3, 5, pack({{4, 32}, {4, 3}, {4, 0}, {4, 0}, {8, 16 << 20}, {8, 0}}));
  const struct {
    std::vector<Bytes> answers;
    const char* says;
  } cases[] = {
      {{}, "does not answer"},
      {{text("HTTP/1.1 400 Bad Request\r\n\r\n")}, "does not answer"},
      {{Bytes(16, 0)}, "does not answer"},  // a message shorter than its header
      {{pack({{2, 1}, {2, 1}, {4, 0xffffffff}, {4, 1}, {4, 0}})}, "does not answer"},  // 4 GiB
      {{reply(9, 1, pack({{2, 0}, {2, 1}}))}, "does not answer"},                      // the reply to another message
      {{reply(1, 1, pack({{2, 1}, {2, 0}}))}, "another version"},
      {{reply(1, 1, {})}, "another version"},
      {{error_reply(1, 1, EINVAL)}, "refuses"},
      {{reply(1, 1, pack({{2, 0}, {2, 1}}) + text("{nonsense"))}, "nonsense"},
      {{version, error_reply(2, 4, EIO)}, "no device information"},
      {{version, reply(2, 4, {1, 2, 3})}, "no device information"},
      {{version, reply(2, 4, pack({{4, 16}, {4, 1}, {4, 10}, {4, 5}}))}, "not a PCI device"},
      {{version, info, reply(3, 5, pack({{4, 32}, {4, 3}, {4, 0}, {4, 0}, {8, 0}, {8, 0}}))}, "no BAR0"},
      {{version, info, reply(3, 5, pack({{4, 32}, {4, 3}, {4, 1}, {4, 0}, {8, 4096}, {8, 0}}))}, "no BAR0"},
      {{version, info, bar}, "went away"},
  };
  for (size_t i = 0; i < std::size(cases); i++) {
    path_ = directory_.path() + "/lying" + std::to_string(i);
    LyingServer server(path_, cases[i].answers);
    const std::string error = refusal();
    EXPECT_NE(error.find(cases[i].says), std::string::npos) << i << ": " << error;
  }
}

TEST_F(VfioUserClientTest, ServerWithoutDoorbellMemoryIsWrittenTo) {
  const std::vector<Bytes> answers = {
      reply(1, 1, pack({{2, 0}, {2, 0}})),
      reply(2, 4, pack({{4, 16}, {4, 3}, {4, 9}, {4, 5}})),
      reply(3, 5, pack({{4, 32}, {4, 3}, {4, 0}, {4, 0}, {8, 16 << 20}, {8, 0}})),
      reply(4, 9, pack({{8, 0}, {4, 7}, {4, 4}, {2, 0x1234}, {2, 0x1001}})),
      reply(5, 7, pack({{4, 16}, {4, 1}, {4, 2}, {4, 8}})),
      error_reply(6, 5, EINVAL),
      reply(7, 10, pack({{8, 0x400010}, {4, 0}, {4, 4}})),
  };
  LyingServer server(path_, answers);
  const auto bus = connect();
  EXPECT_EQ(bus->interrupt_count(), 8u);
  EXPECT_EQ(bus->doorbell_word(0, Bus::QueueKind::kTx, 0, 0x400010), nullptr);
  Doorbell(*bus, 0, Bus::QueueKind::kTx, 0, 0x400010).ring(command::set_producer(1));
  EXPECT_FALSE(bus->gone()) << "the write was answered";
}

}  // namespace
}  // namespace mqnic::card
