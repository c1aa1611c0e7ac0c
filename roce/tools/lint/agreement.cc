#include "lint/agreement.h"

#include "lint/finding.h"

namespace uroce::lint {
namespace {

constexpr uint8_t kForEver = 7;

}  // namespace

void Agreement::on_packet(const Packet& packet, std::vector<Issue>& issues) {
  if (!holds_) return;
  if (packet.view.payload_bytes > terms_.path_mtu_bytes && !above_mtu_) {
    above_mtu_ = true;
    issues.push_back(
        {Rule::kCmPathMtu, sentence("%s with %u bytes; expected at most %u, the path MTU of the REQ",
                                    opcode_name(packet.opcode()), packet.view.payload_bytes, terms_.path_mtu_bytes)});
  }
  if (!packet.info().is_response()) on_request(packet, issues);
}

void Agreement::on_request(const Packet& packet, std::vector<Issue>& issues) {
  if (terms_.awaits_rtu) {
    terms_.awaits_rtu = false;  // reported once
    issues.push_back({Rule::kCmEarlyData, sentence("%s from the side that accepts; expected the RTU or a packet from "
                                                   "the other side before it",
                                                   opcode_name(packet.opcode()))});
  }
  if (!refused_now_ || packet.psn() != refused_) return;
  refused_now_ = false;
  if (++retries_ <= terms_.rnr_retries || terms_.rnr_retries == kForEver) return;
  issues.push_back({Rule::kCmRnrRetry, sentence("PSN %u sent %u times again after RNR NAKs; expected %u times at most",
                                                packet.psn().value(), retries_, terms_.rnr_retries)});
}

void Agreement::on_answer(const Packet& packet) {
  if (!packet.info().has(kHasAeth)) return;
  const bool refusal = aeth_kind(packet.view.aeth().syndrome) == AethKind::kRnrNak;
  if (!refusal || packet.psn() != refused_) retries_ = 0;
  refused_now_ = refusal;
  refused_ = packet.psn();
}

}  // namespace uroce::lint
