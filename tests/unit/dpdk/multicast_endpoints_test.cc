// Multicast between programs of a machine, and between machines.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dpdk/endpoint.h"
#include "engine/bring_up.h"
#include "engine/multicast_groups.h"
#include "engine/object_tables.h"
#include "memif_end.h"
#include "temporary_directory.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp_init.h"

namespace uroce {
namespace {

constexpr uint32_t kQkey = 0x01234567;
const IpAddress kGroup = *parse_ip("239.1.2.3");

EndpointConfig settings(const std::string& port, const std::string& host, const std::string& address) {
  EndpointConfig config;
  config.port = port;
  config.host = host;
  config.hugepages = Hugepages::kNo;
  if (!address.empty()) config.addresses = {*parse_local_address(address)};
  return config;
}

/// A program with a UD queue pair.
class Listener {
 public:
  explicit Listener(const EndpointConfig& config) {
    std::string error;
    endpoint_ = Endpoint::open(config, nobody_, error);
    EXPECT_TRUE(endpoint_) << error;
    const EngineLock owner(*endpoint_);
    Engine& engine = endpoint_->engine();
    pd_ = engine.objects().allocate_pd();
    cq_ = engine.objects().create_cq(16, nullptr);
    QpInit init;
    init.type = QpType::kUd;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {8, 8, 1, 1, 0};
    qp_ = engine.create_qp(init, nullptr);
    QpAttributes attributes;
    attributes.qkey = kQkey;
    EXPECT_EQ(bring_up(engine, *qp_, attributes, QpState::kRts, endpoint_->now()), ModifyResult::kOk);
    const auto at = reinterpret_cast<uint64_t>(memory_.data());
    const Sge sge{at, 4096, engine.memory().register_region(pd_, memory_.data(), 4096, at, kLocalWrite)};
    for (int i = 0; i < 8; i++) EXPECT_EQ(engine.post_recv(*qp_, {7, &sge, 1}, endpoint_->now()), PostResult::kOk);
  }
  void join(bool on = true) {
    const EngineLock owner(*endpoint_);
    MulticastGroups& groups = endpoint_->engine().multicast();
    const auto result =
        on ? groups.attach(*qp_, kGroup, endpoint_->now()) : groups.detach(*qp_, kGroup, endpoint_->now());
    EXPECT_EQ(result, MulticastGroups::Result::kOk);
  }
  void send() {
    const EngineLock owner(*endpoint_);
    AddressVector av;
    av.dgid = kGroup;
    av.sgid_index = 1;
    if (!ah_) ah_ = endpoint_->engine().create_ah(pd_, av, endpoint_->now());
    SendWr wr;
    wr.ah = ah_.get();
    wr.remote_qpn = kMulticastQpn;
    wr.remote_qkey = kQkey;
    EXPECT_EQ(endpoint_->engine().post_send(*qp_, wr, endpoint_->now()), PostResult::kOk);
    endpoint_->transmit();
  }
  /// How many came, until none did for a while. Waits for ever for `at_least` of them.
  uint32_t received(uint32_t at_least = 0) {
    uint32_t count = 0;
    for (int idle = 0; idle < 100 || count < at_least; idle++) {
      {
        const EngineLock owner(*endpoint_);
        Completion completions[16];
        const uint32_t found = cq_->poll(completions);
        count += found;
        if (found != 0) idle = 0;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return count;
  }
  ~Listener() {
    if (!ah_) return;
    const EngineLock owner(*endpoint_);
    endpoint_->engine().destroy_ah(ah_.get());
  }

 private:
  Observer nobody_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(4096);
  PdId pd_ = 0;
  CompletionQueue* cq_ = nullptr;
  Qp* qp_ = nullptr;
  std::unique_ptr<AddressHandle> ah_;
};

TEST(MulticastOfEndpoints, ReachesEveryProgramOfTheGroup) {
  const TemporaryRuntimeDir dir;
  const auto host = settings("shmlan", "host", "10.0.0.1/24"), other = settings("shmlan", "other", "10.0.0.2/24");
  Listener sender(host), neighbour(host), idle(host), elsewhere(other);
  for (Listener* listener : {&sender, &neighbour, &elsewhere}) listener->join();
  sender.send();
  EXPECT_EQ(sender.received(1), 1u) << "itself";
  EXPECT_EQ(neighbour.received(1), 1u) << "with the same MAC";
  EXPECT_EQ(elsewhere.received(1), 1u);
  EXPECT_EQ(idle.received(), 0u);
  neighbour.join(false);
  sender.send();
  EXPECT_EQ(elsewhere.received(1), 1u);
  EXPECT_EQ(neighbour.received(), 0u);
}

TEST(MulticastOfEndpoints, ReachesProgramsOfAnotherMachine) {
  const TemporaryRuntimeDir dir;
  Observer nobody;
  std::vector<std::unique_ptr<Endpoint>> uplinks;
  for (const auto& [name, address] : {std::pair{"left", "10.0.0.1/24"}, {"right", "10.0.0.2/24"}}) {
    EndpointConfig config = settings(memif_end(21, name == std::string("left") ? 0 : 1), "", address);
    config.uplink = UplinkConfig{name, "", "", 0, 0};
    std::string error;
    uplinks.push_back(Endpoint::open(config, nobody, error));
    ASSERT_TRUE(uplinks.back()) << error;
  }
  {
    Listener sender(settings("shmlan:left", "", "")), a(settings("shmlan:right", "", "")),
        b(settings("shmlan:right", "", "")), idle(settings("shmlan:right", "", ""));
    a.join();
    b.join();
    // A datagram is not repeated, so the wire must be up, and both must have reported that they listen.
    const auto reports = [&] {
      const EngineLock owner(*uplinks[0]);
      return uplinks[0]->engine().counters().rx_packets;
    };
    while (reports() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sender.send();
    EXPECT_EQ(a.received(1), 1u);
    EXPECT_EQ(b.received(1), 1u);
    EXPECT_EQ(idle.received(), 0u);
    EXPECT_EQ(sender.received(), 0u) << "not in the group";
  }
}

}  // namespace
}  // namespace uroce
