// Management datagrams: what goes from queue pair 1 to queue pair 1. Here is only what says whom one is for, where
// several programs have the address that it is sent to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/big_endian.h"

namespace uroce {

inline constexpr uint32_t kManagementQpn = 1;
inline constexpr uint32_t kManagementQkey = 0x80010000;
inline constexpr uint32_t kManagementBytes = 256;

/// Messages of connection management come in two kinds: those that begin something name a service, all others what the
/// receiver called the connection.
struct ManagementAddress {
  enum class Kind : uint8_t {
    kService,   // `service_id`
    kId,        // `communication_id`, which the receiver drew
    kEverybody  // neither: a message about what its receiver has not answered yet, or of another kind
  };
  Kind kind = Kind::kEverybody;
  uint64_t service_id = 0;
  uint32_t communication_id = 0;
};

/// Programs that share an address draw communication IDs that begin with one of their blocks of queue pair numbers. So
/// a number stands for such an ID that is that program's as if it were a queue pair's.
inline constexpr uint32_t number_of_communication_id(uint32_t id) { return id >> 8; }

/// `mad` is what a datagram carries; what is too short to say whom it is for is for everybody.
inline ManagementAddress management_address(std::span<const uint8_t> mad) {
  constexpr uint8_t kClassCm = 0x07;
  constexpr uint16_t kAttributeReq = 0x10;
  constexpr uint16_t kAttributeSidrReq = 0x17;
  constexpr uint16_t kAttributeSidrRep = 0x18;
  constexpr size_t kLocalId = 24;   // of the sender; in an answer to a SIDR_REQ the request's
  constexpr size_t kRemoteId = 28;  // of the receiver
  constexpr size_t kServiceId = 32;
  ManagementAddress address;
  if (mad.size() < kServiceId + 8 || mad[1] != kClassCm) return address;
  const uint16_t attribute = load_be16(mad.data() + 16);
  if (attribute == kAttributeReq || attribute == kAttributeSidrReq) {
    address.kind = ManagementAddress::Kind::kService;
    address.service_id = load_be64(mad.data() + kServiceId);
    return address;
  }
  address.communication_id = load_be32(mad.data() + (attribute == kAttributeSidrRep ? kLocalId : kRemoteId));
  if (address.communication_id != 0) address.kind = ManagementAddress::Kind::kId;
  return address;
}

}  // namespace uroce
