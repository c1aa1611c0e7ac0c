#include "silence.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::ping {
namespace {

constexpr uint16_t kRoceUdpPort = 4791;
constexpr int kPatienceMs = 1000;

/// What comes back for a datagram: 0 for nothing, or an error number.
int told_by_the_network(Address& host) {
  host.set_port(kRoceUdpPort);
  const int fd = socket(host.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = 0;
  const bool sent = connect(fd, host.get(), sizeof host.storage) == 0 && send(fd, "", 1, 0) == 1;
  if (!sent) error = errno;
  pollfd answer{.fd = fd, .events = POLLIN, .revents = 0};
  if (sent && poll(&answer, 1, kPatienceMs) > 0) {
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  }
  close(fd);
  return error;
}

}  // namespace

std::string why_silent(Address host) {
  const int error = told_by_the_network(host);
  if (error == ECONNREFUSED)
    return "the host is there, and nobody has its UDP port 4791: run a program with --port network there, "
           "or uroce ping --serve";
  if (error == ENETUNREACH || error == EHOSTUNREACH) return std::string("the kernel says: ") + std::strerror(error);
  if (error == EPERM || error == EACCES) return "a rule of this machine's firewall forbids packets to UDP port 4791";
  return "the network says nothing either: a firewall drops UDP port 4791, an address is rewritten on the way (NAT), "
         "or the host is down";
}

}  // namespace uroce::ping
