// What happens to the port while a program runs: over one end of a veth pair, in a network namespace that with_shim.py
// made for this test alone (and which is why it may change interfaces).
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

void run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "(nothing)";
  char text[256] = "";
  const size_t length = std::fread(text, 1, sizeof text - 1, pipe);
  pclose(pipe);
  return std::string(text, length);
}

std::string file(const std::string& name) {
  const std::string path = "/sys/class/infiniband/uroce0/" + name;
  const int fd = open(path.c_str(), O_RDONLY);
  if (fd < 0) return "(cannot be opened)";
  char text[256];
  const ssize_t length = read(fd, text, sizeof text);
  close(fd);
  return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
}

/// The next event of a context, which must be about the port; a type that never occurs when there is none.
ibv_event_type next_event(ibv_context* context = device()) {
  pollfd p{context->async_fd, POLLIN, 0};
  if (::poll(&p, 1, 3000) != 1) return IBV_EVENT_CLIENT_REREGISTER;
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.element.port_num, 1);
  ibv_ack_async_event(&event);
  return event.event_type;
}
void expect_no_event() {
  pollfd p{device()->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 300), 0);
}

std::string gid_at(uint32_t index) {
  ibv_gid_entry entry;
  const int error = ibv_query_gid_ex(device(), 1, index, &entry, 0);
  if (error != 0) return error == ENODATA ? "hole" : "error";
  EXPECT_NE(entry.ndev_ifindex, 0u);
  const uint8_t* raw = entry.gid.raw;
  if (raw[10] != 0xff) return "v6";
  return std::to_string(raw[12]) + "." + std::to_string(raw[13]) + "." + std::to_string(raw[14]) + "." +
         std::to_string(raw[15]);
}

TEST(PortTest, TheLinkGoesAndComes) {
  ibv_context* second = ibv_open_device(device()->device);
  ibv_context* closed = ibv_open_device(device()->device);
  ASSERT_NE(second, nullptr);
  ASSERT_EQ(ibv_close_device(closed), 0);
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(file("ports/1/state"), "4: ACTIVE\n");
  run("ip link set far down");
  EXPECT_EQ(next_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(next_event(second), IBV_EVENT_PORT_ERR);  // every context gets it
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(port.phys_state, 3);
  EXPECT_EQ(file("ports/1/state"), "1: DOWN\n");
  EXPECT_EQ(file("ports/1/phys_state"), "3: Disabled\n");
  run("ip link set far up");
  EXPECT_EQ(next_event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(next_event(second), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(file("ports/1/state"), "4: ACTIVE\n");
  expect_no_event();  // once each
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST(PortTest, AddressesComeAndGo) {
  ASSERT_EQ(gid_at(1), "10.77.0.1");
  ASSERT_EQ(gid_at(2), "hole");
  run("ip addr add 10.77.1.2/24 dev near");
  EXPECT_EQ(next_event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(gid_at(1), "10.77.0.1");
  EXPECT_EQ(gid_at(2), "10.77.1.2");
  EXPECT_EQ(file("ports/1/gids/2"), "0000:0000:0000:0000:0000:ffff:0a4d:0102\n");
  EXPECT_EQ(file("ports/1/gid_attrs/types/2"), "RoCE v2\n");
  EXPECT_EQ(file("ports/1/gid_attrs/ndevs/2"), "near\n");

  // It can be a source, and a destination.
  const Owned<ibv_pd> pd(ibv_alloc_pd(device()));
  ibv_ah_attr attr = own_address(2);
  EXPECT_NE(Owned<ibv_ah>(ibv_create_ah(pd.get(), &attr)), nullptr);

  // A removed address leaves an unused index; the others keep theirs.
  ibv_ah_attr gone = own_address(1);
  run("ip addr del 10.77.0.1/24 dev near");
  EXPECT_EQ(next_event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(gid_at(0), "v6");
  EXPECT_EQ(gid_at(1), "hole");
  EXPECT_EQ(gid_at(2), "10.77.1.2");
  ibv_gid_entry entries[8];
  ASSERT_EQ(ibv_query_gid_table(device(), entries, 8, 0), 2);
  EXPECT_EQ(entries[1].gid_index, 2u);
  EXPECT_EQ(file("ports/1/gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(file("ports/1/gid_attrs/types/1"), "(cannot be opened)");
  EXPECT_EQ(file("ports/1/gid_attrs/ndevs/1"), "(cannot be opened)");
  EXPECT_EQ(ibv_create_ah(pd.get(), &gone), nullptr);
  EXPECT_EQ(errno, EINVAL);

  // The next address takes the first unused index.
  run("ip addr add 10.77.0.1/24 dev near");
  EXPECT_EQ(next_event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(gid_at(1), "10.77.0.1");
  run("ip addr del 10.77.1.2/24 dev near");
  EXPECT_EQ(next_event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(gid_at(2), "hole");
  run("ip addr add 10.88.0.1/24 dev far");  // of another interface
  expect_no_event();
}

/// Collects what is written to standard error, such as the log, while it lives.
class StandardError {
 public:
  StandardError() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC | O_NONBLOCK), 0);
    dup2(pipe_[1], STDERR_FILENO);
  }
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    for (const int fd : {pipe_[0], pipe_[1], before_}) close(fd);
  }
  /// All that came up to the first line with `words`; everything when none has them.
  std::string until(const std::string& words, int patience_ms) {
    std::string text;
    pollfd p{pipe_[0], POLLIN, 0};
    while (text.find(words) == std::string::npos && ::poll(&p, 1, patience_ms) == 1) {
      char more[1024];
      const ssize_t length = read(pipe_[0], more, sizeof more);
      text.append(more, length > 0 ? static_cast<size_t>(length) : 0);
    }
    return text;
  }

 private:
  const int before_ = dup(STDERR_FILENO);
  int pipe_[2]{};
};

/// Waits until the port has this MTU.
void expect_mtu(ibv_mtu wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  ibv_port_attr port{};
  do {
    ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
    ASSERT_LT(std::chrono::steady_clock::now(), end) << port.active_mtu;
  } while (port.active_mtu != wanted);
}

TEST(PortTest, TheMtuFollowsTheInterface) {
  expect_mtu(IBV_MTU_1024);
  StandardError log;
  run("ip link set near mtu 1000");
  expect_mtu(IBV_MTU_512);
  const std::string line = log.until("lose packets", 20000);
  EXPECT_NE(line.find("interface near has an MTU of 1000 now, and had 1500"), std::string::npos) << line;
  run("ip link set near mtu 9000");
  expect_mtu(IBV_MTU_1024);          // limited by the size of the port's frames
  run("ip link set near mtu 1500");  // as it was
}

/// A child that only lists devices finds what its parent finds.
TEST(PortTest, ChildrenFindTheInterface) {
  EXPECT_EQ(output_of("cat /sys/class/infiniband/uroce0/parent"), "near\n");
  EXPECT_EQ(output_of("cat /sys/class/infiniband/uroce0/ports/1/gid_attrs/ndevs/1"), "near\n");
  EXPECT_EQ(output_of("cat /sys/class/infiniband/uroce0/ports/1/rate"), file("ports/1/rate"));
  EXPECT_EQ(output_of("cat /sys/class/infiniband/uroce0/ports/1/gids/1"), file("ports/1/gids/1"));
}

/// Run with UROCE_ADDR: an address that the program was given is independent of the interface's.
TEST(OwnAddressTest, StaysWhateverTheInterfaceDoes) {
  ASSERT_EQ(gid_at(1), "10.99.0.1");
  run("ip addr add 10.77.1.2/24 dev near");
  run("ip addr del 10.77.0.1/24 dev near");
  expect_no_event();
  EXPECT_EQ(gid_at(1), "10.99.0.1");
  EXPECT_EQ(gid_at(2), "hole");
}

}  // namespace
