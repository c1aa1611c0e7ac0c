// A port that connects to a switch whose machine is busy: every message waits for a CPU, some for ever.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include "dpdk/endpoint.h"
#include "memif/server.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

EndpointConfig client_of(const std::string& device, const std::string& path) {
  EndpointConfig config;
  config.port = device + ",role=client,socket-abstract=no,socket=" + path;
  config.addresses = {*parse_local_address("10.0.0.1/24")};
  config.hugepages = Hugepages::kNo;
  return config;
}

TEST(SlowWire, AConnectionThatTakesLongIsNotBegunAnewForEver) {
  const TemporaryRuntimeDir dir;
  const std::string path = dir.path().string() + "/slow.sock";
  std::string error;
  const auto server = memif::Server::listen(path, "slow", error);
  ASSERT_NE(server, nullptr) << error;
  Observer nobody;
  const auto endpoint = Endpoint::open(client_of("net_memif7", path), nobody, error);
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

/// It has room for the connections of two attempts; whoever connects once more waits, if it does wait.
class NeverAccepts {
 public:
  explicit NeverAccepts(const std::string& path) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
  }
  ~NeverAccepts() { close(); }
  NeverAccepts(const NeverAccepts&) = delete;
  NeverAccepts& operator=(const NeverAccepts&) = delete;

  /// Everybody who waits goes on with an error.
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

TEST(SlowWire, WhoNeverAcceptsStopsNobody) {
  const TemporaryRuntimeDir dir;
  const std::string path = dir.path().string() + "/never.sock";
  NeverAccepts server(path);
  std::string error;
  Observer nobody;
  auto endpoint = Endpoint::open(client_of("net_memif8", path), nobody, error);
  ASSERT_TRUE(endpoint) << error;
  std::this_thread::sleep_for(std::chrono::seconds(2));  // attempts follow each other after 80, 160, 320 ms...
  auto closed = std::async(std::launch::async, [&] { endpoint.reset(); });
  EXPECT_EQ(closed.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "its owner waits in connect()";
  server.close();
}

}  // namespace
}  // namespace uroce
