#include "pmd/card/wires/tap_wire.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pmd/card/wires/frame_ring.h"

namespace mqnic::card {
namespace {

constexpr int kMtu = 9214 - 14;  // the card's longest frame

ifreq request_for(const std::string& interface) {
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  return request;
}

/// Returns 0 or an errno.
int set_up(const std::string& interface) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  ifreq request = request_for(interface);
  request.ifr_mtu = kMtu;
  int result = ioctl(fd, SIOCSIFMTU, &request) != 0 ? errno : 0;
  request = request_for(interface);
  if (result == 0 && ioctl(fd, SIOCGIFFLAGS, &request) != 0) result = errno;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (result == 0 && ioctl(fd, SIOCSIFFLAGS, &request) != 0) result = errno;
  close(fd);
  return result;
}

std::string explain(const std::string& interface, int error) {
  std::string text = "wire tap:" + interface + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES) text += "; it needs CAP_NET_ADMIN: run as root, or use shm:NAME";
  if (error == ENOENT || error == ENODEV) text += "; the kernel has no /dev/net/tun here: load the module tun";
  if (error == EBUSY) text += "; another process uses that interface: choose another name";
  if (error == EINVAL) text += "; an interface with that name is no TAP: choose another name";
  return text;
}

}  // namespace

std::unique_ptr<Wire> TapWire::open(const std::string& interface, std::string& error) {
  if (interface.size() >= IFNAMSIZ || interface.find('/') != std::string::npos) {
    error = "wire tap:" + interface + ": an interface name has at most 15 characters and no slash";
    return nullptr;
  }
  const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    error = explain(interface, errno);
    return nullptr;
  }
  ifreq request = request_for(interface);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  int result = ioctl(fd, TUNSETIFF, &request) != 0 ? errno : 0;
  if (result == 0) result = set_up(interface);
  if (result != 0) {
    error = explain(interface, result);
    close(fd);
    return nullptr;
  }
  return std::unique_ptr<Wire>(new TapWire(fd));
}

TapWire::TapWire(int fd) : fd_(fd), sent_(kFrameBytesMax), received_(kFrameBytesMax) {}

TapWire::~TapWire() { close(fd_); }

std::span<uint8_t> TapWire::reserve(size_t bytes) {
  if (bytes > sent_.size()) return {};
  return {sent_.data(), bytes};
}

void TapWire::commit(size_t bytes) {
  // A frame that the kernel does not take, because the interface is down or has no room, is lost as on any cable.
  while (write(fd_, sent_.data(), bytes) < 0 && errno == EINTR) {
  }
}

std::span<const uint8_t> TapWire::front() {
  if (received_bytes_ == 0) {
    const ssize_t n = read(fd_, received_.data(), received_.size());
    if (n > 0) received_bytes_ = static_cast<size_t>(n);
  }
  return {received_.data(), received_bytes_};
}

}  // namespace mqnic::card
