// Packets as the judges of a channel see them, made of their fields, and a conversation to judge.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lint/conversation.h"
#include "lint/reporter.h"
#include "packet/headers.h"
#include "packet/sack.h"

namespace uroce::test {

struct PacketSpec {
  uint8_t opcode = kOpSendOnly;
  uint32_t psn = 0;
  uint32_t payload_bytes = 0;
  uint64_t frame = 1;
  uint8_t content = 0;  // each byte of the payload
  Reth reth{};
  AtomicEth atomic{};
  Aeth aeth{};
  uint64_t original = 0;  // of an atomic response
  pcap::FrameDirection direction = pcap::FrameDirection::kUnknown;
  Instant time{};
  std::vector<SackRange> ranges{};  // the payload of a SACK
};

/// Owns its bytes.
class MadePacket {
 public:
  explicit MadePacket(const PacketSpec& spec);
  MadePacket(const MadePacket&) = delete;
  MadePacket& operator=(const MadePacket&) = delete;

  const lint::Packet& operator*() const { return packet_; }

 private:
  std::array<uint8_t, 64> headers_{};
  std::vector<uint8_t> payload_;
  lint::Packet packet_;
};

/// The input of one judge, and its findings.
struct Court {
  explicit Court(Service service = Service::kRc) : seen(service) { report.set_response_flow(kResponses); }

  /// Enters a sent packet, as the channel would. Returns the entry of the log.
  lint::Sent send(const lint::Packet& packet);
  void send(uint32_t first, uint32_t count, uint8_t opcode = kOpSendOnly);
  /// Enters a READ or an atomic that takes these PSNs.
  lint::Read& ask(uint32_t psn, uint32_t span, bool atomic = false);
  /// New findings as "rule@frame", those of the responder with a '<' in front, separated by spaces.
  std::string found();
  /// The text of the newest finding.
  std::string said() const { return findings.kept().empty() ? "" : findings.kept().back().text; }

  static constexpr uint32_t kRequests = 1;
  static constexpr uint32_t kResponses = 2;
  lint::Findings findings{1000};
  lint::Reporter report{findings, kRequests};
  lint::Conversation seen;

 private:
  size_t told_ = 0;
};

}  // namespace uroce::test
