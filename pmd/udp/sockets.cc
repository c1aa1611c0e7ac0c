#include "pmd/udp/sockets.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/kernel_addresses.h"
#include "packet/headers.h"

namespace uroce::udp {
namespace {

constexpr int kReceiveBytes = 4 << 20;  // as much as the kernel gives
constexpr int kSendBytes = 1 << 20;
constexpr uint32_t kPortsTried = 32;

void set(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

UniqueFd make_socket(const IpAddress& ip) {
  const bool v4 = ip.is_v4();
  UniqueFd fd(socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && !v4) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return fd;
}

/// Whether one of the machine's interfaces has the address, though the kernel may not let it be used yet.
bool is_of_machine(const IpAddress& ip) {
  const auto addresses = kernel_addresses(0).value_or(std::vector<LocalAddress>{});
  return std::any_of(addresses.begin(), addresses.end(), [&](const LocalAddress& address) { return address.ip == ip; });
}

bool bind_to(int fd, const IpAddress& ip, uint16_t port, uint32_t scope) {
  sockaddr_storage address;
  const socklen_t bytes = to_sockaddr(ip, port, scope, address);
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0;
}

/// Also one of which the kernel is not sure yet.
bool bind_early(int fd, const IpAddress& ip, uint16_t port, uint32_t scope) {
  if (bind_to(fd, ip, port, scope)) return true;
  if (errno != EADDRNOTAVAIL || ip.is_v4()) return false;
  const bool may_come = is_of_machine(ip);
  if (may_come) set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
  errno = EADDRNOTAVAIL;
  return may_come && bind_to(fd, ip, port, scope);
}

/// What the kernel would tell of headers, and what of them it is to fill in.
void set_receive_options(int fd, bool v4) {
  set(fd, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  set(fd, SOL_UDP, UDP_GRO, 1);
  if (v4) {
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set(fd, IPPROTO_IP, IP_RECVTTL, 1);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
    set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);  // RoCE may leave the checksum out
  }
}

/// Never a fragment: the kernel then sends identification 0, and says of a packet that is too long that it is.
void set_send_options(int fd, bool v4) {
  set(fd, SOL_SOCKET, SO_SNDBUF, kSendBytes);
  if (v4) {
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    set(fd, IPPROTO_IP, IP_TTL, kUsualHopLimit);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, kUsualHopLimit);
  }
  // Nobody sends to this port; whatever comes is not kept.
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop_all};
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/// The ports that RoCE prefers are 0xC000 and up. Programs, and the sources of one, begin at different ones.
uint16_t port_to_try(uint32_t index, uint32_t attempt) {
  const auto seed = static_cast<uint32_t>(getpid()) * kSourcePorts + index + attempt * 0x1003;
  return static_cast<uint16_t>(0xC000 | ((seed * 0x9E3779B1u) >> 18));
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof v4);  // the port is at the same place in both families
  return ntohs(v4.sin_port);
}

std::string reason(const IpAddress& ip, int code) {
  const std::string what = "UDP port " + std::to_string(kRoceUdpPort) + " of " + to_string(ip);
  if (code == EADDRINUSE)
    return what +
           " is in use: another program of this machine or the kernel's rxe (rdma link) has it; end that, share it "
           "through uroced, or take another address";
  if (code == EADDRNOTAVAIL) return what + " cannot be had: this machine does not have the address (ip address)";
  return what + " cannot be had: " + std::strerror(code);
}

}  // namespace

uint32_t to_sockaddr(const IpAddress& ip, uint16_t port, uint32_t scope, sockaddr_storage& out) {
  out = {};
  if (ip.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(ip.v4_host_order());
    std::memcpy(&out, &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, ip.bytes.data(), ip.bytes.size());
  if (ip.is_link_local_v6()) v6.sin6_scope_id = scope;
  std::memcpy(&out, &v6, sizeof v6);
  return sizeof v6;
}

bool Sockets::open(const IpAddress& ip, std::string& error) {
  if (find(ip) != nullptr) return true;
  auto sockets = std::make_unique<AddressSockets>();
  sockets->ip = ip;
  if (!open_receiver(*sockets, error)) return false;
  for (uint32_t i = 0; i < kSourcePorts; i++) {
    if (!open_source(ip, i, sockets->sources[i], error)) return false;
  }
  all_.push_back(std::move(sockets));
  return true;
}

void Sockets::close_gone() {
  std::erase_if(all_, [this](const auto& sockets) {
    const UniqueFd fd = make_socket(sockets->ip);
    if (!fd || bind_early(fd.get(), sockets->ip, 0, scope_)) return false;
    return errno == EADDRNOTAVAIL;
  });
}

bool Sockets::open_receiver(AddressSockets& sockets, std::string& error) const {
  sockets.receiver = make_socket(sockets.ip);
  const int fd = sockets.receiver.get();
  if (fd >= 0) set_receive_options(fd, sockets.ip.is_v4());
  if (fd >= 0 && bind_early(fd, sockets.ip, kRoceUdpPort, scope_)) return true;
  const int code = errno;
  error = reason(sockets.ip, code);
  errno = code;
  return false;
}

bool Sockets::open_source(const IpAddress& ip, uint32_t index, Source& source, std::string& error) const {
  source.fd = make_socket(ip);
  const int fd = source.fd.get();
  bool bound = false;
  for (uint32_t i = 0; fd >= 0 && !bound && i < kPortsTried; i++)
    bound = bind_early(fd, ip, port_to_try(index, i), scope_);
  if (fd >= 0 && !bound) bound = bind_early(fd, ip, 0, scope_);
  if (!bound) {
    const int code = errno;
    error = "no UDP port of " + to_string(ip) + " to send from: " + std::strerror(code);
    errno = code;
    return false;
  }
  set_send_options(fd, ip.is_v4());
  source.port = port_of(fd);
  return true;
}

const AddressSockets* Sockets::find(const IpAddress& ip) const {
  for (const auto& sockets : all_) {
    if (sockets->ip == ip) return sockets.get();
  }
  return nullptr;
}

bool Sockets::reaches(const IpAddress& src, const IpAddress& dst, uint32_t& mtu) const {
  const UniqueFd fd = make_socket(dst);
  sockaddr_storage address;
  const socklen_t bytes = to_sockaddr(dst, kRoceUdpPort, scope_, address);
  const bool v4 = dst.is_v4();
  if (!fd || !bind_to(fd.get(), src, 0, scope_)) return false;
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return false;
  int value = 0;
  socklen_t size = sizeof value;
  const bool known = v4 ? getsockopt(fd.get(), IPPROTO_IP, IP_MTU, &value, &size) == 0
                        : getsockopt(fd.get(), IPPROTO_IPV6, IPV6_MTU, &value, &size) == 0;
  mtu = known ? static_cast<uint32_t>(value) : 0;
  return true;
}

uint64_t Sockets::dropped_by_kernel() const {
  uint64_t sum = 0;
  for (const auto& sockets : all_) {
    uint32_t info[SK_MEMINFO_VARS] = {};
    socklen_t bytes = sizeof info;
    if (getsockopt(sockets->receiver.get(), SOL_SOCKET, SO_MEMINFO, info, &bytes) == 0) sum += info[SK_MEMINFO_DROPS];
  }
  return sum;
}

}  // namespace uroce::udp
