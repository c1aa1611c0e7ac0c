// A PCI device belongs to one program at a time. vfio sees to that; uio does not: there a second program would reset
// the device under the first, and neither would be told.
#pragma once

#include <string>

namespace uroce {

/// A lock on a file of the kernel's that stands for the device, machine-wide. It ends with the process, however that
/// ends. A fork shares it: the child has to `release` it, which leaves it to the parent. It prevents accidents, not
/// malice: whoever may read that file can lock it.
class PciHold {
 public:
  PciHold() = default;
  ~PciHold() { release(); }
  PciHold(const PciHold&) = delete;
  PciHold& operator=(const PciHold&) = delete;

  /// `device`: such as 0000:03:00.0. False, with one line in `error`, when another program has it. Without such a file
  /// nothing is locked: it is not for this class to say whether there is a device.
  bool take(const std::string& device, std::string& error, const std::string& folder = "/sys/bus/pci/devices");
  void release();

 private:
  int fd_ = -1;
};

}  // namespace uroce
