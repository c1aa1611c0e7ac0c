#include "segment/service_claims.h"
#include "base/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>
#include <utility>

namespace uroce::segment {
namespace {

/// File offsets cover half of all service IDs, so two services, which differ in the highest bit, share a byte.
off_t byte_of(uint64_t service_id) {
  return static_cast<off_t>(service_id % static_cast<uint64_t>(std::numeric_limits<off_t>::max()));
}

}  // namespace

bool ServiceClaims::open(Directory& directory, const MacAddress& mac, std::string& error) {
  directory_ = &directory;
  mac_ = mac;
  fd_ = directory.open_host_file('l', mac, error);
  return fd_ >= 0;
}

bool ServiceClaims::is_there() const { return has_name(fd_); }

bool ServiceClaims::open_again(std::string& error) {
  const int fd = directory_->open_host_file('l', mac_, error);
  if (fd < 0) return false;
  close(std::exchange(fd_, fd));
  for (const uint64_t service_id : own_) {
    if (!lock_file(fd_, byte_of(service_id), 1)) error = "another program has a service of this one";
  }
  return true;
}

bool ServiceClaims::take(uint64_t service_id) {
  const bool is_new = own_.insert(service_id).second;  // first, since there may be no memory for it
  if (fd_ >= 0 && lock_file(fd_, byte_of(service_id), 1)) return true;
  const int error = fd_ < 0 || is_held_by_another(errno) ? EADDRINUSE : errno;
  if (is_new) own_.erase(service_id);
  errno = error;
  return false;
}

void ServiceClaims::give_back(uint64_t service_id) {
  if (fd_ >= 0 && own_.erase(service_id) != 0) unlock_file(fd_, byte_of(service_id), 1);
}

void ServiceClaims::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
