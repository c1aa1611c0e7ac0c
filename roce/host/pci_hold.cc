#include "host/pci_hold.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {

bool PciHold::take(const std::string& device, std::string& error, const std::string& folder) {
  release();
  fd_ = open((folder + "/" + device + "/config").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0 || flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
  release();
  error = "PCI device " + device + " is in use already, here or by another program: wait until that has ended, or " +
          "choose another port";
  return false;
}

void PciHold::release() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace uroce
