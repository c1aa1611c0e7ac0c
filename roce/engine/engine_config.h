// How large the tables of an engine are, and how it behaves.
#pragma once

#include <cstdint>
#include <vector>

#include "congestion/config.h"
#include "engine/pfc_config.h"
#include "uroce/address.h"
#include "uroce/time.h"
#include "uroce/types.h"

namespace uroce {

class DirectCopy;
class MulticastFilter;
class QpnBlocks;
class RawFilter;

struct EngineConfig {
  MacAddress mac;
  std::vector<LocalAddress> addresses;    // GIDs 1.. in this order; GID 0 is the link-local address of `mac`
  uint32_t max_frame_bytes = 4096 + 128;  // of the port; bounds active_mtu
  uint32_t max_qps = 4096;
  QpnBlocks* qpn_blocks = nullptr;              // outlives the engine; nullptr: all numbers are this engine's
  MulticastFilter* multicast_filter = nullptr;  // outlives the engine; nullptr: the port passes on all groups
  RawFilter* raw_filter = nullptr;              // likewise, for raw packets
  DirectCopy* direct = nullptr;                 // outlives the engine; nullptr: everything goes in frames
  uint32_t max_regions = 65536;                 // and windows
  uint32_t max_pds = 4096;
  uint32_t max_cqs = 16384;
  uint32_t max_srqs = 4096;
  uint32_t max_ahs = 65536;
  uint32_t window_packets = 128;          // most packets of one QP in flight
  uint32_t ack_every = 32;                // packets of one message without an ACK request, at most
  Duration ack_delay = microseconds(20);  // how long an ACK may wait for a request to travel with; 0: never
  bool grant_credits = true;              // tell peers how many receives are posted
  uint8_t traffic_class = 0;    // of QPs and address handles that ask for none: DSCP and ECN, as the IPv4 TOS octet
  PfcConfig pfc;                // off unless there are lossless priorities
  CongestionConfig congestion;  // how senders react to congestion; off unless an algorithm is set
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  uint32_t reorder_packets = 1024;  // kept out of order by all QPs together, in either direction
};

}  // namespace uroce
