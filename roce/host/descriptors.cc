#include "host/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace uroce {

bool enough_descriptors(std::string& error) {
  std::array<int, kDescriptorsNeeded> opened;
  int count = 0;
  while (count < kDescriptorsNeeded && (opened[count] = open("/", O_PATH | O_NOFOLLOW | O_CLOEXEC)) >= 0) count++;
  const int reason = errno;
  for (int i = 0; i < count; i++) close(opened[i]);
  if (count == kDescriptorsNeeded) return true;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  error = "too few file descriptors: an endpoint needs " + std::to_string(kDescriptorsNeeded) + ", and " +
          std::to_string(count) + " are left of ulimit -n " + std::to_string(limit.rlim_cur) + "; raise it (" +
          std::strerror(reason) + ")";
  return false;
}

}  // namespace uroce
