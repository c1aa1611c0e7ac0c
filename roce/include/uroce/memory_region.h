// Memory that work requests and peers may name.
//
// The bytes stay the program's, and must stay mapped as long as the region exists. (The verbs shim also tolerates
// memory that is unmapped earlier. For that it installs the process's handler for SIGSEGV, which a library does not
// do.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "uroce/export.h"
#include "uroce/operations.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

struct DeviceCore;

class UROCE_API MemoryRegion {
 public:
  MemoryRegion() = default;  // none
  ~MemoryRegion() { release(); }
  MemoryRegion(MemoryRegion&& other) noexcept { *this = static_cast<MemoryRegion&&>(other); }
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  /// False when there is no region: none was made, or the device had no room for one.
  explicit operator bool() const { return key_ != 0; }

  uint32_t lkey() const { return key_; }
  uint32_t rkey() const { return key_; }         // to be told to the peer
  uint64_t address() const { return address_; }  // of the first byte, as work requests and peers name it
  uint64_t length() const { return length_; }    // bytes
  /// `length` bytes from `offset` on, for a work request. A range outside the region is refused when the request is
  /// carried out.
  Sge sge(uint64_t offset, uint32_t length) const { return {address_ + offset, length, key_}; }
  /// What the peer needs to access the region from `offset` on; at or behind the region's end that is 0 bytes.
  RemoteMemory remote(uint64_t offset = 0) const {
    const uint64_t bytes = length_ > offset ? length_ - offset : 0;
    return {address_ + offset, key_, static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX))};
  }

 private:
  friend class Device;
  void release();

  DeviceCore* core_ = nullptr;
  uint32_t key_ = 0;
  uint64_t address_ = 0;
  uint64_t length_ = 0;
};

}  // namespace uroce::rdma
