// How a DPDK port becomes a member of a segment: a station, with a MAC that nobody else there has.
#pragma once

#include <memory>
#include <string>

#include "pmd/shmlan/arguments.h"
#include "segment/segment_port.h"

namespace uroce::shmlan {

struct Joined {
  std::unique_ptr<segment::SegmentPort> port;
  MacAddress mac;
};

/// Joins, with the MAC that `arguments` name, or else one that follows from the machine and the device's name and is
/// the same after every start as long as no other member has it. Returns false, with one line in `error`, when that
/// fails, or when another member has the MAC or an address that was asked for.
bool join_segment(const Arguments& arguments, Joined& out, std::string& error);

}  // namespace uroce::shmlan
