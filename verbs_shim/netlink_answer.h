// An answer of RDMA netlink on its way to the socket of the program that asked.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/unique_fd.h"

namespace uroce::verbs {

/// Its datagrams, in order. What finds no room in the socket follows as the program reads, since a list may be longer
/// than any socket's buffer: sent by a thread that ends with the socket, or when nothing was read for 30 seconds.
///
/// The kernel gives the port of a socket that was closed to the next one. So the thread looks who has the port before
/// each datagram; one that waits just then may reach a newcomer, which knows it by its sequence number.
class NetlinkAnswer {
 public:
  /// For the socket `fd` at that port. nullptr, with errno: no descriptor, or EBUSY when the socket has not had all of
  /// an earlier answer.
  static std::unique_ptr<NetlinkAnswer> begin(int fd, uint32_t port);
  /// False: nobody is at the port any more.
  bool send(const std::string& datagram);
  /// What is still to come.
  static void finish(std::unique_ptr<NetlinkAnswer> answer);

 private:
  NetlinkAnswer(uint64_t inode, uint32_t port, UniqueFd sender);
  bool send_now(const std::string& datagram) const;
  bool send_when_read(const std::string& datagram) const;
  static void* send_rest(void* argument);

  const uint64_t inode_;  // of the socket
  UniqueFd sender_;
  sockaddr_nl to_{};
  std::deque<std::string> rest_;
};

}  // namespace uroce::verbs
