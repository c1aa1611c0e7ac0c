// A net_memif port that connects to a peer whose machine is busy: an answer waits for a CPU, or never comes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "dpdk/endpoint.h"
#include "temporary_directory.h"
#include "transport/observer.h"

namespace uroce {
namespace {

EndpointConfig client_of(const std::string& device, const std::string& path) {
  EndpointConfig config;
  config.port = device + ",role=client,socket-abstract=no,socket=" + path;
  config.addresses = {*parse_local_address("10.0.0.1/24")};
  config.hugepages = Hugepages::kNo;
  return config;
}

/// A silent server. It has room for the connections of two attempts that it has not accepted; a further attempt waits,
/// if it waits at all.
class Silent {
 public:
  explicit Silent(const std::string& path) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
  }
  ~Silent() { close(); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

  void accept_all() {
    for (int fd = 0; (fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) accepted_.push_back(fd);
  }
  size_t accepted() const { return accepted_.size(); }
  /// All waiting attempts fail.
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    for (const int fd : accepted_) ::close(fd);
    accepted_.clear();
  }

 private:
  int fd_;
  std::vector<int> accepted_;
};

/// A client that starts again too early never gets there, so each attempt is given more time.
TEST(SlowWire, AConnectionThatTakesLongIsNotBegunAnewForEver) {
  const TemporaryRuntimeDir dir;
  const std::string path = dir.path().string() + "/slow.sock";
  Silent server(path);
  std::string error;
  Observer nobody;
  auto endpoint = Endpoint::open(client_of("net_memif7", path), nobody, error);
  ASSERT_TRUE(endpoint) << error;
  for (int i = 0; i < 150; i++) {
    server.accept_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(server.accepted(), 2u);
  EXPECT_LE(server.accepted(), 6u) << "after 80, 160, 320, 640, 1280 ms";
  endpoint.reset();
}

TEST(SlowWire, WhoNeverAcceptsStopsNobody) {
  const TemporaryRuntimeDir dir;
  const std::string path = dir.path().string() + "/never.sock";
  Silent server(path);
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
