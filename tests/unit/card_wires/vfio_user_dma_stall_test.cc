// A client's memory by messages: clients that go away in the middle, that answer late or never; and a server that ends.
#include "vfio_user_dma_rig.h"

namespace mqnic::card {
namespace {

TEST_F(VfioUserDmaTest, ClientThatDiesMakesRoomAtOnce) {
  {
    PrivateMemoryBus bus(path_);
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    host.abandon();
  }
  const auto begun = std::chrono::steady_clock::now();
  {
    RawClient next(path_);
    EXPECT_FALSE(next.exchange(hello()).empty());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2000));
  }
  next_client_is_served(path_);
}

/// The client has given the first piece of a frame; the far end must not get made-up bytes in place of the rest.
TEST_F(VfioUserDmaTest, WhatADyingClientHalfSaidStaysOffTheCable) {
  const std::string path = path_ + "joined", cable = "shm:dying" + std::to_string(getpid());
  const ServerThread server(path, cable, without_time());
  const auto far_end = must_make(cable);
  for (const size_t shared_bytes : {size_t{0}, size_t{0x10000}}) {
    PrivateMemoryBus bus(path);
    bus.shared_bytes = shared_bytes;
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    bus.twist = [&](const Bytes& command, const Bytes& answer) {
      uint64_t address = 0;
      std::memcpy(&address, command.data() + 16, sizeof address);
      bus.hold = bus.hold || address == bus.base() + kTxBuffer + 10240;
      return bus.hold ? Bytes() : answer;
    };
    ASSERT_TRUE(host.send(numbered_frame(1, 60)));
    ASSERT_TRUE(host.send(numbered_frame(2, 9214)));
    const auto end = std::chrono::steady_clock::now() + kSoon;
    while (!bus.hold && std::chrono::steady_clock::now() < end) bus.serve();
    EXPECT_TRUE(bus.hold);
    host.abandon();
  }
  {
    RawClient client(path);  // the client before is gone, with all that was asked of it
    ASSERT_FALSE(client.exchange(hello()).empty());
  }
  std::vector<Frame> frames;
  for (uint64_t turn = 0; turn < 100; turn++) {
    far_end->flush(turn);
    for (auto frame = far_end->front(); !frame.empty(); frame = far_end->next())
      frames.emplace_back(frame.begin(), frame.end());
  }
  EXPECT_EQ(frames, (std::vector<Frame>{numbered_frame(1, 60), numbered_frame(1, 60)}));
}

TEST_F(VfioUserDmaTest, DescriptorsThatComeWithAnswersAreClosed) {
  const auto before = open_fds();
  const std::vector<int> many(13, STDERR_FILENO);
  {
    PrivateMemoryBus bus(path_);
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    ASSERT_TRUE(bus.client().send(bus.answer(bus.asked[0]), many));
    host.abandon();
  }
  {
    RawClient client(path_);
    ASSERT_FALSE(client.exchange(hello()).empty());
    ASSERT_TRUE(client.send(reply(1, 11, pack({{8, 0}, {8, 0}})), many));  // not waited for
    EXPECT_TRUE(client.closed());
  }
  const auto end = std::chrono::steady_clock::now() + kSoon;
  while (open_fds() != before && std::chrono::steady_clock::now() < end) usleep(1000);
  EXPECT_EQ(open_fds(), before);
}

TEST_F(VfioUserDmaTest, ServerStopsWhileItWaits) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
  const auto begun = std::chrono::steady_clock::now();
  server_.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(1500));
  EXPECT_TRUE(bus.client().closed());
  host.abandon();
}

enum class Stall : uint8_t { kNoAnswer, kHalfAnAnswer, kSlowAnswers };

class VfioUserDmaStallTest : public VfioUserDmaTest {
 protected:
  static void stall(const std::string& path, Stall way) {
    PrivateMemoryBus bus(path);
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    const auto begun = std::chrono::steady_clock::now();
    if (way == Stall::kHalfAnAnswer) {
      Bytes half = bus.answer(bus.asked[0]);
      half.resize(20);
      ASSERT_TRUE(bus.client().send(half));
    }
    while (way == Stall::kSlowAnswers) {
      usleep(1'200'000);
      if (!bus.client().send(bus.answer(bus.asked.back()))) break;
      const Bytes next = bus.client().receive();
      if (next.empty()) break;
      bus.take(next);
    }
    EXPECT_TRUE(bus.client().closed());
    const auto lasted = std::chrono::steady_clock::now() - begun;
    EXPECT_GT(lasted, std::chrono::milliseconds(2800));
    EXPECT_LT(lasted, std::chrono::milliseconds(8000));
    host.abandon();
    next_client_is_served(path);
  }
};

/// A client that answers every command of many does not stall, even if all its answers together take more than the
/// server's patience.
void is_slow_but_steady(const std::string& path) {
  PrivateMemoryBus bus(path);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  const uint32_t channel = host.card().schedulers.at(0).channels.at(0);
  bus.write32(channel, 0);
  constexpr unsigned kFrames = 12;  // the card sends them all in one turn if it can
  for (unsigned number = 0; number < kFrames; number++) ASSERT_TRUE(host.send(numbered_frame(number, 60)));
  bus.twist = [](const Bytes&, Bytes answer) {
    usleep(95'000);
    return answer;
  };
  const auto begun = std::chrono::steady_clock::now();
  bus.write32(channel, scheduler_round_robin::kChannelEnable | scheduler_round_robin::kChannelGlobalEnable);
  unsigned received = 0;
  while (received < kFrames && std::chrono::steady_clock::now() - begun < std::chrono::seconds(30)) {
    bus.serve();
    const Frame frame = host.receive();
    if (frame.empty()) continue;
    ASSERT_EQ(frame, numbered_frame(received, 60));
    received++;
  }
  EXPECT_EQ(received, kFrames);
  EXPECT_GT(std::chrono::steady_clock::now() - begun, std::chrono::nanoseconds(VfioUserServer::kPatienceNs));
}

TEST_F(VfioUserDmaStallTest, ClientsThatStallMakeRoom) {
  std::vector<std::unique_ptr<ServerThread>> servers;
  std::vector<std::thread> clients;
  const std::string steady = path_ + "steady";
  servers.push_back(std::make_unique<ServerThread>(steady, "loop", without_time()));
  clients.emplace_back(is_slow_but_steady, steady);
  for (const Stall way : {Stall::kNoAnswer, Stall::kHalfAnAnswer, Stall::kSlowAnswers}) {
    const std::string path = path_ + std::to_string(static_cast<int>(way));
    servers.push_back(std::make_unique<ServerThread>(path, "loop", without_time()));
    clients.emplace_back(stall, path, way);
  }
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace mqnic::card
