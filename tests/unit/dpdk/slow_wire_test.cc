// A port that connects to a switch whose machine is busy: every message waits for a CPU.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "dpdk/endpoint.h"
#include "memif/server.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

TEST(SlowWire, AConnectionThatTakesLongIsNotBegunAnewForEver) {
  const TemporaryRuntimeDir dir;
  const std::string path = dir.path().string() + "/slow.sock";
  std::string error;
  const auto server = memif::Server::listen(path, "slow", error);
  ASSERT_NE(server, nullptr) << error;
  EndpointConfig config;
  config.port = "net_memif7,role=client,socket-abstract=no,socket=" + path;
  config.addresses = {*parse_local_address("10.0.0.1/24")};
  config.hugepages = Hugepages::kNo;
  Observer nobody;
  const auto endpoint = Endpoint::open(config, nobody, error);
  ASSERT_TRUE(endpoint) << error;
  Instant now{0};
  int looks = 0;
  while (!server->connected() && looks < 100) {
    server->look(now = now + milliseconds(1));
    looks++;
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
  }
  EXPECT_TRUE(server->connected());
  EXPECT_GT(looks, 4) << "it was not slow";
}

}  // namespace
}  // namespace uroce
