#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "dpdk/eal.h"

namespace uroce {

/// The answer of this process's DPDK telemetry, asked for as `uroce stats` does.
inline std::string asked(const std::string& question) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = eal_directory() + "/dpdk_telemetry.v2";
  EXPECT_LT(path.size(), sizeof address.sun_path);
  std::copy_n(path.begin(), std::min(path.size(), sizeof address.sun_path - 1), address.sun_path);
  char text[16384];
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      read(fd, text, sizeof text) > 0 &&
      write(fd, question.data(), question.size()) == static_cast<ssize_t>(question.size())) {
    const ssize_t bytes = read(fd, text, sizeof text);
    answer.assign(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  }
  close(fd);
  return answer;
}

}  // namespace uroce
