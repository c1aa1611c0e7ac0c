#include "script/ledger.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "script/mads.h"
#include "transport/counters.h"

namespace uroce::script {

namespace {

/// These are counted from the timeline.
constexpr std::string_view kFromTimeline[] = {
    "sent_acks",   "tx_sack",       "sent_naks",           "sent_rnr_naks",  "tx_mads",
    "retransmits", "req_cqe_error", "req_cqe_flush_error", "resp_cqe_error", "resp_cqe_flush_error"};

/// These are not checked unless the script mentions them: bytes, ARP and the like.
constexpr std::string_view kFree[] = {"tx_packets",
                                      "tx_bytes",
                                      "rx_packets",
                                      "rx_bytes",
                                      "rx_write_requests",
                                      "rx_read_requests",
                                      "rx_atomic_requests",
                                      "rx_flush_requests",
                                      "rx_atomic_write_requests",
                                      "rx_sends",
                                      "rx_mads",
                                      "arp_rx",
                                      "arp_tx",
                                      "nd_rx",
                                      "nd_tx",
                                      "tx_port_full"};

template <size_t N>
bool is_in(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

void Ledger::on_request(ScriptQp& qp, const PacketView& view) {
  if (view.info->service != Service::kRc) return;
  Sender& sender = senders_[qp.id];
  const Psn psn = view.bth.psn;
  if (!sender.any) sender = {true, psn};
  if (psn.before(sender.next)) seen_["retransmits"]++;
  uint32_t psns = 1;
  if (view.info->operation == Operation::kReadRequest && view.reth().dma_length != 0) {
    const auto mtu = static_cast<uint32_t>(qp.attributes.path_mtu_bytes);
    psns = (view.reth().dma_length - 1) / mtu + 1;
  }
  if (sender.next.before(psn + psns)) sender.next = psn + psns;
}

void Ledger::on_sent(Testbench& testbench, std::span<const uint8_t> frame) {
  PacketView view;
  if (parse_frame(frame, view) != ParseResult::kOk) return;
  roce_sent_++;
  if (is_mad(view)) {
    seen_["tx_mads"]++;
    return;
  }
  ScriptQp* qp = testbench.qp_of_peer(view.bth.dest_qp);
  if (view.info->operation == Operation::kAcknowledge) {
    const AethKind kind = aeth_kind(view.aeth().syndrome);
    seen_[kind == AethKind::kAck ? "sent_acks" : kind == AethKind::kRnrNak ? "sent_rnr_naks" : "sent_naks"]++;
  } else if (view.info->operation == Operation::kSelectiveAck) {
    seen_["tx_sack"]++;
  } else if (!view.info->is_response() && qp != nullptr) {
    on_request(*qp, view);
  }
}

void Ledger::on_completion(const Completion& completion) {
  if (completion.status == WcStatus::kSuccess) return;
  const bool receive = completion.opcode >= WcOpcode::kRecv;
  const bool flushed = completion.status == WcStatus::kWrFlushErr;
  seen_[std::string(receive ? "resp" : "req") + (flushed ? "_cqe_flush_error" : "_cqe_error")]++;
}

uint64_t Ledger::counter(Testbench& testbench, const std::string& name) const {
  if (const auto of_cm = cm_counter(testbench.manager().counters(), name)) return *of_cm;
  uint64_t found = 0;
  for_each_counter(testbench.engine().counters(), [&](const char* known, uint64_t value) {
    if (name == known) found = value;
  });
  return found;
}

std::vector<FieldCheck> Ledger::differences(Testbench& testbench) const {
  std::vector<FieldCheck> rows;
  for_each_counter(testbench.engine().counters(), [&](const char* name, uint64_t value) {
    uint64_t expected = 0;
    const auto mentioned = mentioned_.find(name);
    const auto seen = seen_.find(name);
    if (mentioned != mentioned_.end()) {
      expected = static_cast<uint64_t>(mentioned->second);
    } else if (is_in(kFromTimeline, name)) {
      expected = seen == seen_.end() ? 0 : seen->second;
    } else if (is_in(kFree, name)) {
      return;
    }
    if (value != expected) rows.push_back({name, std::to_string(expected), std::to_string(value), false});
  });
  cm::for_each_counter(testbench.manager().counters(), [&](const char* name, uint64_t value) {
    const std::string full = std::string("cm_") + name;
    const auto mentioned = mentioned_.find(full);
    const auto expected = mentioned == mentioned_.end() ? 0 : static_cast<uint64_t>(mentioned->second);
    const bool checked = mentioned != mentioned_.end() || must_be_mentioned(full);
    if (checked && value != expected) rows.push_back({full, std::to_string(expected), std::to_string(value), false});
  });
  return rows;
}

std::string Ledger::nonzero(Testbench& testbench) const {
  std::string text;
  for_each_counter(testbench.engine().counters(), [&](const char* name, uint64_t value) {
    if (value == 0 || std::string_view(name).ends_with("_bytes") || std::string_view(name).starts_with("arp_")) return;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(value);
  });
  cm::for_each_counter(testbench.manager().counters(), [&](const char* name, uint64_t value) {
    if (value != 0) text += (text.empty() ? "cm_" : ", cm_") + std::string(name) + " " + std::to_string(value);
  });
  return text;
}

}  // namespace uroce::script
