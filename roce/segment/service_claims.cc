#include "segment/service_claims.h"

#include <fcntl.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <utility>

#include "segment/file_lock.h"

namespace uroce::segment {
namespace {

/// Files have room for half of all numbers. So two services may have one byte; they differ in the highest bit.
off_t byte_of(uint64_t service_id) {
  return static_cast<off_t>(service_id % static_cast<uint64_t>(std::numeric_limits<off_t>::max()));
}

}  // namespace

bool ServiceClaims::open(Directory& directory, const MacAddress& mac, std::string& error) {
  fd_ = directory.open_host_file('l', mac, error);
  return fd_ >= 0;
}

bool ServiceClaims::take(uint64_t service_id) { return fd_ >= 0 && lock_file(fd_, byte_of(service_id), 1); }

void ServiceClaims::give_back(uint64_t service_id) {
  struct flock unlock = lock_range(F_UNLCK, byte_of(service_id), 1);
  if (fd_ >= 0) fcntl(fd_, F_OFD_SETLK, &unlock);
}

void ServiceClaims::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
