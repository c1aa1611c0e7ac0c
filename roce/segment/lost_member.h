// A member that is gone, ended or killed, as it is reported to the members that had contact with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "packet/management_datagram.h"
#include "segment/member_record.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce::segment {

struct LostMember {
  MacAddress mac;                // of its host
  bool whole_host = false;       // no other member had this MAC: a station
  std::vector<uint32_t> blocks;  // of the host's numbers that the member had

  /// Whether the member chose this communication ID.
  bool drew(uint32_t communication_id) const {
    const uint32_t block = number_of_communication_id(communication_id) >> kQpnBlockBits;
    return whole_host || std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  }
};

using LossListener = std::function<void(const LostMember&, Instant now)>;

}  // namespace uroce::segment
