// What a user can set of an endpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "congestion/config.h"
#include "fabric/link_faults.h"
#include "uroce/address.h"
#include "uroce/types.h"

namespace uroce {

enum class Progress : uint8_t {
  kAuto,    // the program's polls drive; a background thread when nobody polls
  kInline,  // only the program's polls (and an lcore loop that calls drive)
  kThread,  // only the background thread, which polls all the time
};

enum class Hugepages : uint8_t { kAuto, kYes, kNo };

/// Whether READs and WRITEs between programs of a segment may go without frames (doc/configuration.md).
enum class DirectCopying : uint8_t { kOff, kAuto };

/// Makes an endpoint the uplink of a segment: the programs of this machine share its port, with its MAC and addresses.
struct UplinkConfig {
  std::string segment;        // its name; "": the default one
  std::string host;           // what the host of these programs is called; "": a name that its MAC gives
  std::string group;          // users of this group may share it; "": programs of this user only
  uint32_t qps_max = 0;       // queue pairs that a program may have; 0: as many as there is room for
  uint32_t lanes_max = 0;     // other programs that a program may meet, for which it sets memory aside; 0: any number
  uint64_t rate = 0;          // bits per second that a program may send to the wire; 0: no limit
  bool while_needed = false;  // programs started it, whose link it is not (host/way_out.h)
};

/// What a user can set. Empty fields mean: the default of the port.
struct EndpointConfig {
  std::string port;  // "", "shmlan", "switch", "net_memif0,...", "net_af_packet0,iface=eth0", "0000:03:00.0"
  std::vector<LocalAddress> addresses;
  std::string host;  // on a segment: programs with the same name are one host. "": the user's programs on this machine
  std::vector<std::string> eal_args;  // passed through to EAL
  std::string pcap_file;              // pcapng of everything sent and received; "": none
  Progress progress = Progress::kAuto;
  Hugepages hugepages = Hugepages::kAuto;
  DirectCopying direct_copy = DirectCopying::kOff;
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  uint32_t max_qps = 0;         // limit of queue pairs; 0: 4096, which take little memory while there are none
  uint32_t mtu = 0;             // IP MTU of the port; 0: the port's own, enough for RoCE MTU 4096 where possible
  CongestionConfig congestion;  // the speed of the link is filled in when the port is open
  uint8_t traffic_class = 0;    // for QPs whose program sets none
  fabric::LinkFaults faults;    // what goes wrong on the way between this endpoint and its port; nothing by default
  uint8_t lossless = 0;         // priorities with flow control (PFC), as bits
  std::optional<UplinkConfig> uplink;
  bool eal_running =
      false;  // a DPDK application called rte_eal_init itself; `port` then names or numbers its port, "" is the first
};

/// Reads UROCE_PORT, UROCE_ADDR, UROCE_HOST, UROCE_EAL, UROCE_PCAP, UROCE_PROGRESS, UROCE_HUGEPAGES,
/// UROCE_LOSS_RECOVERY, UROCE_MAX_QPS, UROCE_MTU, UROCE_CC, UROCE_CC_PARAM, UROCE_TCLASS, UROCE_PFC, UROCE_FAULTS,
/// UROCE_DIRECT_COPY. Returns false, with one line in `error`, when one of them is malformed.
bool endpoint_config_from_environment(EndpointConfig& config, std::string& error);

}  // namespace uroce
