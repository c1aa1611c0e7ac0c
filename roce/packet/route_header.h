// The Ethernet, VLAN, IP and UDP headers of everything that a QP (or an address handle) sends: built once, copied into
// each frame, with only the length fields and the IPv4 checksum filled in per packet. Most packets are like the one
// before, except for their PSN: their headers are kept as they left, with the beginning of the iCRC.
//
// IPv4 packets carry DF. Since they are never fragmented, RFC 6864 gives the identification no meaning; it is 0, or a
// signature (signature.h).
#pragma once

#include <array>
#include <cstdint>

#include "packet/headers.h"
#include "packet/signature.h"
#include "uroce/address.h"
#include "uroce/psn.h"

namespace uroce {

/// What the headers are built from.
struct Route {
  MacAddress src_mac;
  MacAddress dst_mac;
  uint16_t vlan_id = 0;  // 0: untagged
  uint8_t pcp = 0;       // VLAN priority, when tagged
  IpAddress src_ip;      // both IPv4 or both IPv6
  IpAddress dst_ip;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  // IPv6, 20 bits
  uint16_t udp_src_port = 0xC000;

  /// The priority (0 to 7) that networks put such packets in: the VLAN priority where there is a tag, else DSCP / 8.
  uint8_t priority() const { return vlan_id != 0 ? pcp & 7 : traffic_class >> 5; }
};

class RouteHeader {
 public:
  static constexpr uint32_t kMaxBytes = 14 + 4 + 40 + 8;

  RouteHeader() = default;
  explicit RouteHeader(const Route& spec);

  /// Bytes before the BTH.
  uint32_t bytes() const { return bytes_; }
  uint32_t l3_offset() const { return l3_offset_; }
  bool ipv6() const { return ipv6_; }

  /// Writes the headers at `frame`. `udp_payload_bytes` counts from the BTH to the iCRC, both included. A signature
  /// depends on `psn`.
  void write(uint8_t* frame, uint32_t udp_payload_bytes, Psn psn = {}) const;
  /// The state of the iCRC after so many bytes of the BTH.
  struct Summed {
    uint32_t crc;
    uint32_t bth_bytes;
  };
  /// The same with the BTH behind them.
  Summed write(uint8_t* frame, uint32_t udp_payload_bytes, const Bth& bth) const;

  void set_dst_mac(const MacAddress& mac);
  /// From now on packets are signed, but a flow label that the Route asked for stays.
  void sign(const Signature& signature);

 private:
  /// Headers up to the head of the BTH, of packets of one length.
  struct Prepared {
    std::array<uint8_t, kMaxBytes + Bth::kHeadBytes> bytes;
    uint32_t crc;  // the state of the iCRC behind them
  };
  struct Like {
    uint64_t bth_head = 0;
    uint32_t udp_payload_bytes = 0;  // 0: none
    bool operator==(const Like&) const = default;
  };
  void prepare(const uint8_t* frame, const Like& like) const;
  void forget_prepared() { seen_ = prepared_for_ = {}; }

  std::array<uint8_t, kMaxBytes> template_{};
  uint8_t bytes_ = 0;
  uint8_t l3_offset_ = 0;
  bool ipv6_ = false;
  Signature signature_;            // of the IPv4 identification
  uint32_t ipv4_partial_sum_ = 0;  // of the IPv4 header without total length
  // What was written lately, which changes nothing of what is written. Headers are prepared when they are wanted for
  // the second time in a row.
  mutable Like seen_;
  mutable Like prepared_for_;
  mutable Prepared prepared_;
};

/// The destination QPN of a frame that begins with such headers and a BTH. For frames that we made ourselves: nothing
/// is checked.
uint32_t dest_qp_of(const uint8_t* frame);
/// Likewise, its destination.
IpAddress dest_ip_of(const uint8_t* frame);
/// Likewise, where it comes from and goes to.
struct FrameEnds {
  IpAddress src_ip;
  IpAddress dst_ip;
  uint16_t vlan_id = 0;
};
FrameEnds ends_of(const uint8_t* frame);

}  // namespace uroce
