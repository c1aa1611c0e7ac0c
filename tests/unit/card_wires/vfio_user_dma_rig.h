// A card that is served, and clients that keep their memory to themselves.
#pragma once

#include <chrono>
#include <filesystem>

#include "pmd/vfio_user/client.h"
#include "private_memory_bus.h"
#include "test_host.h"

namespace mqnic::card {

// Where TestHost has its rings and buffers.
inline constexpr uint64_t kTxRing = 0, kRxRing = 0x1000, kTxDone = 0x2000, kRxDone = 0x3000, kEvents = 0x4000,
                          kTxBuffer = 0x10000, kRxBuffer = 0xb0000;

inline Bytes ask_read(uint16_t id, uint64_t address, uint64_t count) {
  return message(id, 11, pack({{8, address}, {8, count}}));
}
class VfioUserDmaTest : public testing::Test {
 protected:
  static constexpr auto kSoon = std::chrono::seconds(10);

  static CardConfig without_time() {
    CardConfig config;
    config.ptp = false;  // completions have no time stamps
    return config;
  }
  /// The next frame; meanwhile the client answers the server's commands.
  static Frame receive(PrivateMemoryBus& bus, TestHost& host) {
    Frame frame;
    const auto end = std::chrono::steady_clock::now() + kSoon;
    while (frame.empty() && std::chrono::steady_clock::now() < end && !testing::Test::HasFatalFailure()) {
      bus.serve();
      frame = host.receive();
      usleep(100);
    }
    return frame;
  }
  /// Waits until a queue's consumer pointer has this value.
  static void wait_for_consumer(PrivateMemoryBus& bus, uint32_t queue, uint16_t value) {
    const auto end = std::chrono::steady_clock::now() + kSoon;
    while (bus.read32(queue + ring_register::kCommand) >> 16 != value) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
    }
  }
  /// Returns when the server has asked for the first descriptor; the answer is held back.
  static void get_asked(PrivateMemoryBus& bus, TestHost& host) {
    ASSERT_NO_FATAL_FAILURE(host.start());
    bus.asked.clear();
    bus.hold = true;
    ASSERT_TRUE(host.send(numbered_frame(1, 60)));
    if (bus.asked.empty()) bus.take(bus.client().receive());
    ASSERT_EQ(bus.asked, (std::vector<Bytes>{ask_read(1, bus.base() + kTxRing, 16)}));
  }
  /// At once, and not only when the server's patience with a silent client ends.
  static void expect_sent_away(PrivateMemoryBus& bus) {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(bus.client().closed());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2000));
  }
  static auto open_fds() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  }
  /// The next client, which shares its memory, is served as usual.
  static void next_client_is_served(const std::string& path) {
    std::string error;
    const auto bus = vfio_user::VfioUserBus::connect(path, error);
    ASSERT_NE(bus, nullptr) << error;
    TestHost host(*bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    ASSERT_TRUE(host.send(numbered_frame(9, 100)));
    Frame frame;
    // A frame of the previous client may still be on the wire.
    for (int i = 0; i < 5000 && frame.size() != 100; i++, usleep(1000)) frame = host.receive();
    EXPECT_EQ(frame, numbered_frame(9, 100));
  }

  RuntimeDirectory directory_;
  std::string path_ = directory_.path() + "/card.sock";
  ServerThread server_{path_, "loop", without_time()};
};

}  // namespace mqnic::card
