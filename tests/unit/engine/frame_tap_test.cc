// A listener hears every frame, with its direction and its time; there need not be one.
#include "engine/frame_tap.h"
#include "engine/capture.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::test {
namespace {

struct Listener final : Capture {
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override {
    heard += (direction == Direction::kReceived ? "received " : "sent ") + std::to_string(frame.size()) + " at " +
             std::to_string(now.ns) + "; ";
  }
  std::string heard;
};

TEST(FrameTap, TellsWhoIsAttached) {
  const uint8_t bytes[3] = {};
  Listener listener;
  FrameTap tap;
  tap.on_sent(bytes, 0, {1});
  tap.attach(&listener);
  tap.on_received({bytes, 2}, {2});
  tap.on_sent(bytes, 0, {3});
  tap.attach(nullptr);
  tap.on_received({bytes, 3}, {4});
  EXPECT_EQ(listener.heard, "received 2 at 2; sent 3 at 3; ");
}

TEST(FrameTap, TellsThoseWhoAskWhoseAFrameIs) {
  struct Owners final : Capture {
    void on_frame(Direction, Instant, std::span<const uint8_t>) override { received++; }
    void on_sent(uint32_t qpn, Instant, std::span<const uint8_t>) override { senders.push_back(qpn); }
    int received = 0;
    std::vector<uint32_t> senders;
  } listener;
  const uint8_t bytes[3] = {};
  FrameTap tap;
  tap.attach(&listener);
  tap.on_sent(bytes, 17, {1});
  tap.on_sent(bytes, 0, {2});
  tap.on_received({bytes, 3}, {3});
  EXPECT_EQ(listener.senders, (std::vector<uint32_t>{17, 0}));
  EXPECT_EQ(listener.received, 1);
}

TEST(FrameTap, HearsTheHeadersThatTheEngineGoesBy) {
  struct Last final : Capture {
    void on_frame(Direction, Instant, std::span<const uint8_t> frame) override {
      last.assign(frame.begin(), frame.end());
    }
    std::vector<uint8_t> last;
  } listener;
  FrameTap tap;
  tap.attach(&listener);
  std::vector<uint8_t> expected(200, 0xFF);
  const std::vector<uint8_t> data = expected;
  const std::vector<uint8_t> headers(RxFrame::kHeaderBytes, 7);
  std::copy(headers.begin(), headers.end(), expected.begin());
  tap.on_received({data.data(), 200, nullptr, headers.data()}, {1});
  EXPECT_EQ(listener.last, expected);
  tap.on_received({data.data(), 20, nullptr, headers.data()}, {1});
  EXPECT_EQ(listener.last, std::vector<uint8_t>(20, 7));
}

}  // namespace
}  // namespace uroce::test
