#include "host/netdev_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {

bool NetdevWatch::listen() {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return false;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return false;
  }
  fd_ = fd;
  return true;
}

NetdevWatch::~NetdevWatch() {
  if (fd_ >= 0) close(fd_);
}

bool NetdevWatch::changed() {
  if (fd_ < 0) return listen();
  // The contents of the messages are ignored: the interface is asked for its present state, which cannot be out of
  // date.
  bool heard = false;
  char message[64];
  for (;;) {
    if (recv(fd_, message, sizeof message, MSG_TRUNC) >= 0 || errno == ENOBUFS) {
      heard = true;
    } else if (errno != EINTR) {
      return heard;
    }
  }
}

}  // namespace uroce
