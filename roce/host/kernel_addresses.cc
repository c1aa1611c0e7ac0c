#include "host/kernel_addresses.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "base/unique_fd.h"
#include "host/descriptors.h"

namespace uroce {
namespace {

constexpr size_t kReplyBytes = 32768;  // as long as the kernel's get

template <typename T>
T value_at(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

size_t padded(size_t bytes) { return (bytes + NLMSG_ALIGNTO - 1) / NLMSG_ALIGNTO * NLMSG_ALIGNTO; }

std::optional<IpAddress> read_ip(uint8_t family, std::span<const uint8_t> bytes) {
  if (family == AF_INET && bytes.size() == 4)
    return IpAddress::v4(uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3]);
  if (family != AF_INET6 || bytes.size() != 16) return std::nullopt;
  IpAddress ip;
  std::copy(bytes.begin(), bytes.end(), ip.bytes.begin());
  return ip;
}

/// One RTM_NEWADDR: what follows its header.
void take(std::span<const uint8_t> message, int index, std::vector<LocalAddress>& found) {
  if (message.size() < sizeof(ifaddrmsg)) return;
  const auto head = value_at<ifaddrmsg>(message.data());
  if (index != 0 && static_cast<int>(head.ifa_index) != index) return;
  if ((head.ifa_flags & IFA_F_DADFAILED) != 0) return;
  std::optional<IpAddress> own;
  std::optional<IpAddress> any;  // of a link with two ends, the other end's
  for (size_t at = padded(sizeof(ifaddrmsg)); at + sizeof(rtattr) <= message.size();) {
    const auto attribute = value_at<rtattr>(&message[at]);
    if (attribute.rta_len < sizeof(rtattr) || at + attribute.rta_len > message.size()) break;
    const auto value = message.subspan(at + sizeof(rtattr), attribute.rta_len - sizeof(rtattr));
    if (attribute.rta_type == IFA_LOCAL) own = read_ip(head.ifa_family, value);
    if (attribute.rta_type == IFA_ADDRESS) any = read_ip(head.ifa_family, value);
    at += padded(attribute.rta_len);
  }
  if (!own) own = any;
  if (own) found.push_back({*own, head.ifa_prefixlen, 0});
}

/// How far a reply goes.
enum class Part { kMore, kLast, kBroken };

/// `error`: the kernel's reason, where it says one.
Part take_all(std::span<const uint8_t> reply, int index, std::vector<LocalAddress>& found, int& error) {
  for (size_t at = 0; at + sizeof(nlmsghdr) <= reply.size();) {
    const auto header = value_at<nlmsghdr>(&reply[at]);
    if (header.nlmsg_len < sizeof(nlmsghdr) || at + header.nlmsg_len > reply.size()) return Part::kBroken;
    const bool ends = header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
    const auto body = reply.subspan(at + sizeof(nlmsghdr), header.nlmsg_len - sizeof(nlmsghdr));
    if (ends && body.size() >= sizeof(int)) error = -value_at<int>(body.data());  // both begin with it
    if (ends) return error == 0 && header.nlmsg_type == NLMSG_DONE ? Part::kLast : Part::kBroken;
    if (header.nlmsg_type == RTM_NEWADDR) take(body, index, found);
    at += padded(header.nlmsg_len);
  }
  return Part::kMore;
}

/// False when errno says why not.
bool ask_for_addresses(int fd) {
  struct {
    nlmsghdr header;
    ifaddrmsg message;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.message.ifa_family = AF_UNSPEC;
  return send(fd, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

/// False when errno says why not.
bool read_addresses(int fd, int index, std::vector<LocalAddress>& found) {
  std::vector<uint8_t> reply(kReplyBytes);
  for (;;) {
    const ssize_t bytes = recv(fd, reply.data(), reply.size(), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return false;
    int error = 0;
    const Part part = take_all(std::span(reply).first(static_cast<size_t>(bytes)), index, found, error);
    if (part == Part::kLast) return true;
    if (part == Part::kMore && bytes != 0) continue;
    errno = error > 0 ? error : EIO;
    return false;
  }
}

}  // namespace

std::optional<std::vector<LocalAddress>> kernel_addresses(int index) {
  std::vector<LocalAddress> found;
  const UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  // Where netlink is denied for good, as in many a service's sandbox, none is known.
  if (!fd) return could_not_ask(errno) ? std::nullopt : std::optional(found);
  if (!ask_for_addresses(fd.get()) || !read_addresses(fd.get(), index, found)) return std::nullopt;
  return found;
}

}  // namespace uroce
