// Sockets of RDMA netlink (NETLINK_RDMA), which `rdma` and rdma-core ask for devices, ports and their interfaces.
//
// Such a socket is a real one of another protocol, NETLINK_USERSOCK, so that the program can do everything with it.
// What is sent to port 0 there reaches nobody, since that port is the kernel's and the kernel does not listen: that is
// how a request is known, without any state of descriptors that copies and children would have to inherit. It is
// answered before the call returns, as far as the program's socket has room, by a socket that lives as long as the
// answer takes; so an answer comes from a port that is not 0.
#include <linux/netlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "dpdk/endpoint.h"
#include "identity.h"
#include "netlink_answer.h"
#include "next_symbol.h"
#include "nldev.h"
#include "paths.h"
#include "running_objects.h"
#include "runtime.h"
#include "shim.h"
#include "sysfs_tree.h"

namespace uroce::verbs {

namespace {

constexpr size_t kRequestMax = 65536;

/// Whether there was such a socket in this process or one that it was forked from: only then a call costs a look at its
/// descriptor and its address. One that a new program inherits is none any more.
std::atomic<bool> any_opened{false};

bool is_request_socket(int fd) {
  const int saved_errno = errno;
  int domain = 0;
  int protocol = 0;
  socklen_t bytes = sizeof domain;
  const bool known = syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
                     syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0;
  errno = saved_errno;
  return known && domain == AF_NETLINK && protocol == NETLINK_USERSOCK;
}

/// Whether what is sent to this address through `fd` is a request to the kernel's RDMA.
bool is_request(int fd, const void* address, socklen_t bytes) {
  if (!any_opened.load(std::memory_order_relaxed) || inside_own_files) return false;
  if (address == nullptr) return is_request_socket(fd);
  sockaddr_nl to;
  if (bytes < sizeof to) return false;
  std::memcpy(&to, address, sizeof to);
  return to.nl_family == AF_NETLINK && to.nl_pid == 0 && to.nl_groups == 0 && path_layer_on() && is_request_socket(fd);
}

NldevFacts facts_of(const EndpointIdentity& identity) {
  NldevFacts facts;
  facts.exists = true;
  facts.name = kDeviceName;
  facts.firmware = kFirmwareVersion;
  facts.cap_flags = kDeviceCapFlags;
  facts.guid = __builtin_bswap64(guid_of(identity.guid_mac()));
  const LinkFacts link = link_facts(identity);
  facts.link_up = link.up;
  facts.netdev = link.netdev;
  facts.netdev_index = if_nametoindex(link.netdev.c_str());
  return facts;
}

/// The port of a socket, which gets one if it has none. 0 on failure.
uint32_t port_of(int fd) {
  sockaddr_nl name{};
  for (int attempt = 0; attempt < 2; attempt++) {
    socklen_t bytes = sizeof name;
    if (syscall(SYS_getsockname, fd, &name, &bytes) != 0) return 0;
    if (name.nl_pid != 0) return name.nl_pid;
    name = {};
    name.nl_family = AF_NETLINK;
    if (syscall(SYS_bind, fd, &name, sizeof name) != 0) return 0;
  }
  return 0;
}

ssize_t answer_request(int fd, const char* request, size_t bytes) try {
  const uint32_t port = port_of(fd);
  if (port == 0) return -1;
  const int saved_errno = errno;
  const OwnFiles guard;
  std::unique_ptr<NetlinkAnswer> answer = NetlinkAnswer::begin(fd, port);
  if (answer == nullptr) return -1;
  EndpointIdentity identity;
  NldevFacts facts;
  if (Runtime::get().identify(identity, LogLevel::kDebug)) facts = facts_of(identity);
  RunningObjects objects(identity.guid_mac());
  facts.objects = &objects;
  answer_nldev(request, bytes, port, facts, [&](const std::string& reply) { return answer->send(reply); });
  NetlinkAnswer::finish(std::move(answer));
  errno = saved_errno;
  return static_cast<ssize_t>(bytes);
} catch (const std::bad_alloc&) {
  errno = ENOBUFS;
  return -1;
}

ssize_t answer_pieces(int fd, const msghdr& message) try {
  std::string request;
  for (size_t i = 0; i < message.msg_iovlen; i++) {
    const iovec& piece = message.msg_iov[i];
    if (piece.iov_len > kRequestMax - request.size()) {
      errno = EMSGSIZE;
      return -1;
    }
    request.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  }
  return answer_request(fd, request.data(), request.size());
} catch (const std::bad_alloc&) {
  errno = ENOBUFS;
  return -1;
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

UROCE_VERBS_EXPORT int socket(int domain, int type, int protocol) noexcept {
  UROCE_NEXT(socket);
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA || !path_layer_on()) [[likely]]
    return real(domain, type, protocol);
  any_opened = true;
  return real(domain, type, NETLINK_USERSOCK);
}

UROCE_VERBS_EXPORT ssize_t sendto(int fd, const void* data, size_t bytes, int flags, const sockaddr* address,
                                  socklen_t address_bytes) {
  UROCE_NEXT(sendto);
  if (!is_request(fd, address, address_bytes)) [[likely]]
    return real(fd, data, bytes, flags, address, address_bytes);
  iovec piece{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return answer_pieces(fd, message);
}

UROCE_VERBS_EXPORT ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  UROCE_NEXT(send);
  if (!any_opened.load(std::memory_order_relaxed)) [[likely]]
    return real(fd, data, bytes, flags);
  return sendto(fd, data, bytes, flags, nullptr, 0);
}

UROCE_VERBS_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  UROCE_NEXT(sendmsg);
  if (!any_opened.load(std::memory_order_relaxed) || message == nullptr ||
      !is_request(fd, message->msg_name, message->msg_namelen)) [[likely]]
    return real(fd, message, flags);
  return answer_pieces(fd, *message);
}
