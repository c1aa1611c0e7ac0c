// Writes commands of rdma_user_cm.h to /dev/infiniband/rdma_cm, as librdmacm does.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace verbs_test {

inline constexpr char kRdmaCm[] = "/dev/infiniband/rdma_cm";

// From Linux 6.17's rdma_user_cm.h, which may be newer than the headers here.
inline constexpr uint32_t kResolveIbService = 23;
inline constexpr uint32_t kWriteCmEvent = 24;
inline constexpr uint32_t kQueryIbService = 3;
inline constexpr uint32_t kEventUser = 18;
inline constexpr uint32_t kEventInternal = 19;
struct WriteCmEvent {
  uint32_t id, reserved, event, status;
  uint64_t argument;
  uint8_t rest[304];  // the kernel's union has room for other events' parameters
};
struct ResolveIbService {
  uint32_t id, reserved;
  uint64_t service_id;
  char name[64];
  uint32_t flags, reserved2;
};
static_assert(sizeof(WriteCmEvent) == 328 && sizeof(ResolveIbService) == 88);

/// Long enough on any machine; a test that takes longer hangs.
constexpr int kPatienceMs = 60'000;

/// An open channel.
class Channel {
 public:
  explicit Channel(int flags = O_RDWR | O_CLOEXEC) : fd_(open(kRdmaCm, flags)) { EXPECT_GE(fd_, 0); }
  ~Channel() { shut(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  int fd() const { return fd_; }
  void shut() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  /// Writes a command of `in` bytes with room for `out` bytes of reply. Returns 0 or the errno.
  int raw(uint32_t command, const void* body, size_t in, size_t out) const {
    std::vector<uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + in);
    const rdma_ucm_cmd_hdr header{command, static_cast<uint16_t>(in), static_cast<uint16_t>(out)};
    std::memcpy(bytes.data(), &header, sizeof header);
    if (in != 0) std::memcpy(bytes.data() + sizeof header, body, in);
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0) return errno;
    EXPECT_EQ(written, static_cast<ssize_t>(bytes.size()));
    return 0;
  }
  template <typename Body>
  int command(uint32_t number, const Body& body, size_t out = 0) const {
    return raw(number, &body, sizeof body, out);
  }
  template <typename Body, typename Reply>
  int ask(uint32_t number, Body body, Reply& reply) const {
    body.response = reinterpret_cast<uint64_t>(&reply);
    return raw(number, &body, sizeof body, sizeof reply);
  }

  uint32_t create_id(uint64_t uid, uint16_t port_space = RDMA_PS_TCP) const {
    rdma_ucm_create_id_resp reply{~0u};
    EXPECT_EQ(ask(RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{uid, 0, port_space, 2, {}}, reply), 0);
    return reply.id;
  }
  int bind(uint32_t id, const sockaddr_in& address) const {
    rdma_ucm_bind body{};
    body.id = id;
    body.addr_size = sizeof address;
    std::memcpy(&body.addr, &address, sizeof address);
    return command(RDMA_USER_CM_CMD_BIND, body);
  }
  int listen(uint32_t id, uint32_t backlog) const {
    return command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, backlog});
  }
  int resolve(uint32_t id, const sockaddr_in& to) const {
    rdma_ucm_resolve_addr body{};
    body.id = id;
    body.timeout_ms = 2000;
    body.dst_size = sizeof to;
    std::memcpy(&body.dst_addr, &to, sizeof to);
    return command(RDMA_USER_CM_CMD_RESOLVE_ADDR, body);
  }
  rdma_ucm_query_addr_resp query_addr(uint32_t id) const {
    rdma_ucm_query_addr_resp reply{};
    EXPECT_EQ(ask(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, id, RDMA_USER_CM_QUERY_ADDR}, reply), 0);
    return reply;
  }
  /// The number of events of the id that were taken; ~0u when it could not be destroyed.
  uint32_t destroy(uint32_t id) const {
    rdma_ucm_destroy_id_resp reply{};
    return ask(RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{0, id, 0}, reply) == 0 ? reply.events_reported : ~0u;
  }
  bool readable(int timeout_ms) const {
    pollfd wait{fd_, POLLIN, 0};
    return poll(&wait, 1, timeout_ms) == 1;
  }
  rdma_ucm_event_resp event() const {
    rdma_ucm_event_resp reply{};
    reply.event = ~0u;
    if (!readable(kPatienceMs)) {
      ADD_FAILURE() << "no event";
      return reply;
    }
    EXPECT_EQ(ask(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, reply), 0);
    return reply;
  }

 private:
  int fd_;
};

inline sockaddr_in ipv4(uint32_t address, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(address);
  to.sin_port = htons(port);
  return to;
}
inline constexpr uint32_t kLoopback = 0x7f000001;

}  // namespace verbs_test
