// The rules that the headers of a single packet must keep, whatever came before.
#include <algorithm>

#include "lint/finding.h"
#include "lint/mad.h"
#include "lint/packet.h"
#include "lint/path_mtu.h"
#include "packet/sack.h"

namespace uroce::lint {
namespace {

constexpr uint32_t kMulticastQpn = 0xFFFFFF;
constexpr uint8_t kBecn = 0x40;
constexpr uint8_t kReservedOfResv8a = 0x3f;

void check_bth(const Packet& packet, std::vector<Issue>& issues) {
  const Bth& bth = packet.view.bth;
  const char* name = opcode_name(bth.opcode);
  if ((bth.pkey & 0x7fff) == 0) {
    issues.push_back({Rule::kPkey, sentence("%s with P_Key 0x%04x; expected a base other than 0", name, bth.pkey)});
  }
  if (bth.resv7 != 0 || (bth.resv8a & kReservedOfResv8a) != 0) {
    issues.push_back({Rule::kBthReserved,
                      sentence("%s with resv8a 0x%02x and resv7 0x%02x; expected zero", name, bth.resv8a, bth.resv7)});
  }
  const bool datagram = packet.info().service == Service::kUd;
  const bool impossible = datagram ? bth.dest_qp == 0 : bth.dest_qp <= 1 || bth.dest_qp == kMulticastQpn;
  if (impossible) {
    issues.push_back({Rule::kDestQp, sentence("%s to QP 0x%06x; expected the number of a QP that can be its target",
                                              name, bth.dest_qp)});
  }
}

/// Only a packet that ends a message that consumes a receive can ask for an event. CNPs have a check of their own.
void check_solicited(const Packet& packet, std::vector<Issue>& issues) {
  const OpcodeInfo& info = packet.info();
  if (!packet.view.bth.solicited || info.operation == Operation::kCnp) return;
  const bool takes_receive =
      info.operation == Operation::kSend || (info.operation == Operation::kWrite && info.has(kHasImm));
  if (takes_receive && info.is_last()) return;
  issues.push_back(
      {Rule::kSolicited, sentence("%s with the solicited event bit; expected it clear: no receive completes",
                                  opcode_name(packet.opcode()))});
}

void check_padding(const Packet& packet, std::vector<Issue>& issues) {
  const Bth& bth = packet.view.bth;
  const char* name = opcode_name(bth.opcode);
  const uint32_t pad = bth.pad_count;
  if ((packet.view.payload_bytes + pad) % 4 != 0) {
    issues.push_back({Rule::kPadCount, sentence("%s with %u bytes of payload and %u of padding; expected whole words",
                                                name, packet.view.payload_bytes, pad)});
    return;
  }
  if (pad != 0 && !packet.info().is_last()) {
    issues.push_back(
        {Rule::kPadCount, sentence("%s with %u bytes of padding; expected none before the message's end", name, pad)});
  }
  const uint8_t* begin = packet.view.payload + packet.view.payload_bytes;
  if (packet.whole && std::any_of(begin, begin + pad, [](uint8_t b) { return b != 0; })) {
    issues.push_back({Rule::kPadBytes, sentence("%s whose padding is not zero", name)});
  }
}

void check_reth(const Packet& packet, std::vector<Issue>& issues) {
  const Reth reth = packet.view.reth();
  const char* name = opcode_name(packet.opcode());
  if (reth.dma_length > 0x80000000u) {
    issues.push_back(
        {Rule::kRethLength, sentence("%s with RETH length %u; expected at most 2^31", name, reth.dma_length)});
  } else if (reth.dma_length != 0 && reth.va + (reth.dma_length - 1) < reth.va) {
    issues.push_back({Rule::kRethRange, sentence("%s of %u bytes at 0x%llx; expected a range without wrap", name,
                                                 reth.dma_length, static_cast<unsigned long long>(reth.va))});
  }
}

void check_atomic_write(const Packet& packet, std::vector<Issue>& issues) {
  const Reth reth = packet.view.reth();
  if (reth.dma_length != kAtomicWriteBytes || packet.view.payload_bytes != kAtomicWriteBytes) {
    issues.push_back({Rule::kRethLength, sentence("ATOMIC_WRITE of %u bytes with RETH length %u; expected 8",
                                                  packet.view.payload_bytes, reth.dma_length)});
  }
  if ((reth.va & 7) != 0) {
    issues.push_back({Rule::kAtomicAlignment, sentence("ATOMIC_WRITE at address 0x%llx; expected a multiple of 8",
                                                       static_cast<unsigned long long>(reth.va))});
  }
}

void check_aeth(const Packet& packet, std::vector<Issue>& issues) {
  const uint8_t syndrome = packet.view.aeth().syndrome;
  const char* name = opcode_name(packet.opcode());
  const AethKind kind = aeth_kind(syndrome);
  const bool reserved =
      (syndrome & 0x80) != 0 || kind == AethKind::kReserved ||
      (kind == AethKind::kNak && aeth_value(syndrome) > static_cast<uint8_t>(NakCode::kInvalidRdRequest));
  if (reserved) {
    issues.push_back(
        {Rule::kAethSyndrome, sentence("%s with syndrome 0x%02x; expected a defined one", name, syndrome)});
  } else if (kind != AethKind::kAck && packet.info().operation != Operation::kAcknowledge) {
    issues.push_back(
        {Rule::kAethSyndrome, sentence("%s with syndrome 0x%02x; expected that of an ACK", name, syndrome)});
  }
}

void check_datagram(const Packet& packet, std::vector<Issue>& issues) {
  const Deth deth = packet.view.deth();
  if (deth.src_qp == 0 || deth.src_qp == kMulticastQpn) {
    issues.push_back(
        {Rule::kUdSource, sentence("datagram from QP 0x%06x; expected a QP that can be answered", deth.src_qp)});
  }
  if (packet.view.payload_bytes > kLargestMtu) {
    issues.push_back(
        {Rule::kUdLength, sentence("datagram of %u bytes; expected at most 4096", packet.view.payload_bytes)});
  }
  if (packet.view.bth.dest_qp != kGsiQpn) {
    if (deth.qkey != kGsiQkey) return;
    issues.push_back({Rule::kGsiQp, sentence("datagram with the Q_Key of QP 1 to QP 0x%06x; expected it at QP 1",
                                             packet.view.bth.dest_qp)});
    return;
  }
  if (deth.qkey != kGsiQkey) {
    issues.push_back({Rule::kGsiQkey, sentence("Q_Key 0x%08x to QP 1; expected 0x80010000", deth.qkey)});
  }
  if (packet.view.payload_bytes != kMadBytes) {
    issues.push_back({Rule::kMadLength, sentence("MAD of %u bytes; expected 256", packet.view.payload_bytes)});
  } else if (packet.whole) {
    check_mad(packet, issues);
  }
}

/// Reserved bits of headers: the header differs from its fields encoded again.
void check_reserved(const Packet& packet, std::vector<Issue>& issues) {
  const OpcodeInfo& info = packet.info();
  const uint8_t* const ext = packet.view.ext;
  const char* header = nullptr;
  if (info.has(kHasDeth) && ext[4] != 0) header = "DETH";
  if (info.has(kHasXrceth) && ext[0] != 0) header = "XRCETH";
  if (info.has(kHasFeth) && load_be32(ext) != packet.view.feth().word()) header = "FETH";
  if (header == nullptr) return;
  issues.push_back({Rule::kEthReserved, sentence("%s with a %s whose reserved bits are set; expected zero",
                                                 opcode_name(packet.opcode()), header)});
}

void check_cnp(const Packet& packet, std::vector<Issue>& issues) {
  const Bth& bth = packet.view.bth;
  const char* fault = nullptr;
  if ((bth.resv8a & kBecn) == 0) {
    fault = "BECN clear; expected it set";
  } else if (bth.psn.value() != 0) {
    fault = "a PSN; expected PSN 0";
  } else if (bth.solicited || bth.ack_req) {
    fault = "the solicited or acknowledge bit set; expected both clear";
  } else if (std::any_of(packet.view.ext, packet.view.ext + 16, [](uint8_t b) { return b != 0; })) {
    fault = "reserved bytes that are not zero";
  } else if (packet.view.ecn_marked()) {
    fault = "an ECN mark of its own, which must never be answered";
  }
  if (fault != nullptr) issues.push_back({Rule::kCnpForm, sentence("CNP with %s", fault)});
}

/// Each range must lie behind the gap that begins after the PSN of the SACK, and between any two ranges something must
/// be missing.
void check_sack(const Packet& packet, std::vector<Issue>& issues) {
  const uint32_t bytes = packet.view.payload_bytes;
  if (!sack_length_holds(bytes)) {
    issues.push_back({Rule::kSackForm, sentence("SACK with %u bytes of ranges; expected 1 to 16 of 8 bytes", bytes)});
    return;
  }
  if (!packet.whole) return;
  for (uint32_t at = 0; at < bytes; at += SackRange::kBytes) {
    const SackRange range = SackRange::decode(packet.view.payload + at);
    bool wrong = !(packet.psn() + 1).before(range.first) || !range.first.before(range.end);
    wrong |= packet.view.payload[at] != 0 || packet.view.payload[at + 4] != 0;
    for (uint32_t other = 0; other < at; other += SackRange::kBytes) {
      const SackRange earlier = SackRange::decode(packet.view.payload + other);
      wrong |= !range.end.before(earlier.first) && !earlier.end.before(range.first);
    }
    if (!wrong) continue;
    issues.push_back(
        {Rule::kSackRange,
         sentence("SACK for PSN %u with the range from PSN %u up to PSN %u; expected one behind a gap, and "
                  "apart from the others",
                  packet.psn().value(), range.first.value(), range.end.value())});
    return;
  }
}

}  // namespace

void check_headers(const Packet& packet, std::vector<Issue>& issues) {
  const OpcodeInfo& info = packet.info();
  check_bth(packet, issues);
  check_solicited(packet, issues);
  check_padding(packet, issues);
  check_reserved(packet, issues);
  if (info.has(kHasReth)) check_reth(packet, issues);
  if (info.has(kHasAtomicEth) && (packet.view.atomic_eth().va & 7) != 0) {
    issues.push_back({Rule::kAtomicAlignment,
                      sentence("%s at address 0x%llx; expected a multiple of 8", opcode_name(packet.opcode()),
                               static_cast<unsigned long long>(packet.view.atomic_eth().va))});
  }
  if (info.operation == Operation::kAtomicWrite) check_atomic_write(packet, issues);
  if (info.has(kHasAeth)) check_aeth(packet, issues);
  if (info.has(kHasDeth)) check_datagram(packet, issues);
  if (info.operation == Operation::kCnp) check_cnp(packet, issues);
  if (info.operation == Operation::kSelectiveAck) check_sack(packet, issues);
}

}  // namespace uroce::lint
