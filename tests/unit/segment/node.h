// A member of a segment in a test's own process, with a clock that the test advances.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "segment/segment_port.h"
#include "support.h"

namespace uroce::segment::test {

using Frames = std::vector<std::vector<uint8_t>>;

inline constexpr MacAddress kFarAway{{0x02, 0x99, 0, 0, 0, 1}};  // no member's

class Node {
 public:
  Node(const TempDir& dir, const MemberRecord& record, uint32_t lanes_max = 0) : Node(dir.path(), record, lanes_max) {}
  Node(const std::string& directory, const MemberRecord& record, uint32_t lanes_max = 0, bool as_cable = false)
      : Node(options_of(directory, record, lanes_max, as_cable)) {}
  explicit Node(SegmentOptions options) {
    options.warn = [this](const std::string& line) { warnings.push_back(line); };
    options.tell = [this](const std::string& line) { told.push_back(line); };
    std::string error;
    port = SegmentPort::join(options, error);
    EXPECT_TRUE(port) << error;
  }
  static SegmentOptions options_of(const std::string& directory, const MemberRecord& record, uint32_t lanes_max = 0,
                                   bool as_cable = false) {
    SegmentOptions options;
    options.lanes_max = lanes_max;
    options.as_cable = as_cable;
    options.directory = directory;
    options.record = record;
    return options;
  }
  /// A queue pair number of its own.
  uint32_t qpn() {
    if (block == 0) block = port->take_block().value_or(0);
    EXPECT_NE(block, 0u);
    return block << kQpnBlockBits | 7;
  }
  void turn(Duration passed = milliseconds(3)) {
    now = now + passed;
    port->on_turn(now);
  }
  bool send(const std::vector<uint8_t>& bytes) {
    TxFrame frame;
    if (port->acquire_tx(&frame, 1) == 0) return false;
    std::memcpy(frame.data, bytes.data(), bytes.size());
    frame.bytes = static_cast<uint32_t>(bytes.size());
    port->send(&frame, 1);
    return true;
  }
  Frames receive() {
    Frames result;
    RxFrame frames[Port::kMaxBurst];
    const uint32_t count = port->receive(frames, Port::kMaxBurst);
    for (uint32_t i = 0; i < count; i++) result.emplace_back(frames[i].data, frames[i].data + frames[i].bytes);
    port->release_rx(frames, count);
    return result;
  }
  bool wake_fd_ready() const {
    pollfd entry{port->sleep().fd(), POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }

  std::unique_ptr<SegmentPort> port;
  std::vector<std::string> warnings;
  std::vector<std::string> told;
  Instant now{1'000'000'000};
  uint32_t block = 0;
};

/// Enough turns for letters and their answers to arrive.
inline void settle(std::initializer_list<Node*> nodes) {
  for (int i = 0; i < 4; i++) {
    for (Node* node : nodes) node->turn();
  }
}

/// Sixteen sleeping programs that `node` has met. From now on its socket has room for few letters, so that it cannot
/// wake all of them at once.
inline std::vector<std::unique_ptr<Node>> sleepers_of(Node& node, const TempDir& dir) {
  std::vector<std::unique_ptr<Node>> sleepers(16);
  node.turn();
  for (auto& sleeper : sleepers) {
    sleeper = std::make_unique<Node>(dir, record_of("host", 1));
    sleeper->qpn();
    node.turn();
    node.send(roce_frame(mac_of(1), sleeper->qpn(), 90));
    settle({&node, sleeper.get()});
    EXPECT_EQ(sleeper->receive().size(), 1u);
    sleeper->turn();
    EXPECT_TRUE(sleeper->port->sleep().arm());
  }
  const int least = 1;
  EXPECT_EQ(setsockopt(node.port->sleep().fd(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
  return sleepers;
}

}  // namespace uroce::segment::test
