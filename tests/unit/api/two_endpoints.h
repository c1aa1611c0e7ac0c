// Two endpoints of one process, each with a place of its own on a segment, for tests of the library. Time is real.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "temporary_directory.h"
#include "uroce/uroce.h"

namespace uroce::rdma {

inline constexpr uint16_t kPort = 7471;
inline constexpr Duration kPatience = milliseconds(10'000);

struct Side {
  explicit Side(const std::string& address, Drive drive = Drive::kProgram) {
    EndpointOptions options;
    options.drive = drive;
    options.addresses = {*parse_local_address(address)};
    std::string error;
    endpoint = Endpoint::open(options, nullptr, error);
    if (endpoint == nullptr) ADD_FAILURE() << error;
    const Endpoint::Ownership owner(*endpoint);
    pd = endpoint->device().allocate_pd();
    cq = endpoint->device().create_cq(64);
    region = endpoint->device().register_memory(pd, memory.data(), memory.size(),
                                                kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic);
    qp = endpoint->device().create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});
  }
  ~Side() {
    const Endpoint::Ownership owner(*endpoint);
    connection = {};
    listener = {};
    qp = {};
    region = {};
    cq = {};
  }
  void listen() {
    const Endpoint::Ownership owner(*endpoint);
    std::string error;
    listener = endpoint->connections().listen(kPort, error);
    EXPECT_TRUE(listener) << error;
  }

  std::unique_ptr<Endpoint> endpoint;
  alignas(8) std::array<char, 4096> memory{};
  PdId pd = 0;
  CompletionQueue cq;
  MemoryRegion region;
  QueuePair qp;
  Listener listener;
  Connection connection;
};

class TwoEndpoints : public testing::Test {
 protected:
  /// Drives both until `is_so` holds.
  bool until(const std::function<bool()>& is_so) {
    const Instant deadline = a_.endpoint->now() + kPatience;
    while (a_.endpoint->now() < deadline) {
      for (Side* side : {&a_, &b_}) {
        const Endpoint::Ownership owner(*side->endpoint);
        side->endpoint->drive();
      }
      if (is_so()) return true;
    }
    return false;
  }
  template <typename F>
  static auto owning(Side& side, F&& f) {
    const Endpoint::Ownership owner(*side.endpoint);
    return f();
  }
  static ConnectionState state_of(Side& side) {
    return owning(side, [&] { return side.connection.state(); });
  }
  bool both(ConnectionState state) {
    return until([&] { return state_of(a_) == state && state_of(b_) == state; });
  }
  Connection begin(std::string& error, const ConnectionOptions& options = {}) {
    return owning(b_,
                  [&] { return b_.endpoint->connections().begin_connect(b_.qp, "198.18.0.1", kPort, error, options); });
  }
  bool asked() {
    return until([&] { return owning(a_, [&] { return a_.listener.waiting() != 0; }); });
  }
  void establish() {
    a_.listen();
    std::string error;
    b_.connection = begin(error);
    ASSERT_TRUE(b_.connection) << error;
    ASSERT_TRUE(asked());
    a_.connection = owning(a_, [&] { return a_.listener.begin_accept(a_.qp, error); });
    ASSERT_TRUE(a_.connection) << error;
    ASSERT_TRUE(both(ConnectionState::kEstablished));
  }
  std::vector<Completion> completions(Side& side, size_t count) {
    std::vector<Completion> all;
    until([&] {
      std::array<Completion, 8> some;
      const uint32_t n = owning(side, [&] { return side.cq.poll(some); });
      all.insert(all.end(), some.begin(), some.begin() + n);
      return all.size() >= count;
    });
    return all;
  }

  TemporaryRuntimeDir runtime_dir_;
  Side a_{"198.18.0.1/24"};
  Side b_{"198.18.0.2/24"};
};

}  // namespace uroce::rdma
