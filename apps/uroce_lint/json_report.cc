#include <cinttypes>
#include <cstdio>

#include "report.h"

namespace uroce::lint_app {
namespace {

using lint::ChannelStatistics;
using lint::Flow;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// Writes the members of an object, with the commas where they belong.
class Object {
 public:
  Object() { std::fputc('{', stdout); }
  ~Object() { std::fputc('}', stdout); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void key(const char* name) {
    std::printf("%s\"%s\": ", first_ ? "" : ", ", name);
    first_ = false;
  }
  void number(const char* name, uint64_t value) {
    key(name);
    std::printf("%" PRIu64, value);
  }
  void text(const char* name, const std::string& value) {
    key(name);
    std::fputs(quoted(value).c_str(), stdout);
  }
  void boolean(const char* name, bool value) {
    key(name);
    std::fputs(value ? "true" : "false", stdout);
  }

 private:
  bool first_ = true;
};

void print_requests(Object& parent, const lint::Channel& channel) {
  const ChannelStatistics& s = channel.statistics();
  parent.key("requests");
  Object o;
  o.number("packets", s.requests);
  o.number("path_mtu", channel.path_mtu());
  o.number("retransmitted", s.retransmitted);
  o.number("late", s.late);
  o.number("missing_psns", s.missing);
  o.number("back_for_nak", s.back_for_nak);
  o.number("back_for_rnr", s.back_for_rnr);
  o.number("back_for_read", s.back_for_read);
  o.number("back_for_sack", s.back_for_sack);
  o.number("timeouts", s.timeouts);
  o.number("timeout_min_ns", static_cast<uint64_t>(s.timeout_min_ns));
  o.number("timeout_max_ns", static_cast<uint64_t>(s.timeout_max_ns));
  o.number("acks", s.acks);
  o.number("sacks", s.sacks);
  o.number("rnr_naks", s.rnr_naks);
  static constexpr const char* kCodes[] = {"naks_sequence", "naks_invalid_request", "naks_remote_access",
                                           "naks_remote_operational", "naks_invalid_rd_request"};
  for (size_t i = 0; i < s.naks.size(); i++) o.number(kCodes[i], s.naks[i]);
}

void print_flow(const Flow& flow) {
  const lint::FlowStatistics& s = flow.statistics;
  Object o;
  o.text("src", to_string(flow.key.src));
  o.text("dst", to_string(flow.key.dst));
  o.number("dest_qp", flow.key.dest_qp);
  o.number("packets", s.packets);
  o.number("payload_bytes", s.payload_bytes);
  o.number("first_frame", s.first_frame);
  o.number("last_frame", s.last_frame);
  o.number("duration_ns",
           static_cast<uint64_t>(s.last_time.ns > s.first_time.ns ? s.last_time.ns - s.first_time.ns : 0));
  o.number("ecn_capable", s.ecn_capable);
  o.number("ecn_marked", s.ecn_marked);
  o.number("cnps", s.cnps);
  o.number("faulty", s.faulty);
  o.key("opcodes");
  {
    Object opcodes;
    for (const auto& [opcode, count] : s.opcodes) opcodes.number(opcode_name(opcode), count);
  }
  if (flow.channel != nullptr && flow.channel->statistics().requests != 0) print_requests(o, *flow.channel);
}

void print_connections(const lint::Linter& linter) {
  const auto& flows = linter.flows();
  std::fputc('[', stdout);
  bool first = true;
  for (const auto& [flow, partner] : connections_of(linter)) {
    std::fputs(first ? "[" : ", [", stdout);
    first = false;
    print_flow(flows[flow]);
    if (partner != lint::kNoFlow) {
      std::fputs(", ", stdout);
      print_flow(flows[partner]);
    }
    std::fputc(']', stdout);
  }
  std::fputc(']', stdout);
}

void print_finding(const lint::Linter& linter, const lint::Finding& finding) {
  const lint::RuleInfo& rule = lint::rule_info(finding.rule);
  Object o;
  o.text("rule", rule.id);
  o.text("severity", lint::severity_name(finding.severity));
  o.number("frame", finding.frame);
  o.text("flow", flow_text(linter, finding.flow));
  o.text("text", finding.text);
  o.text("why", rule.why);
}

void print_counts(Object& parent, const lint::Findings& findings) {
  parent.key("counts");
  Object o;
  for (unsigned i = 0; i < lint::kRuleCount; i++) {
    const auto rule = static_cast<lint::Rule>(i);
    if (findings.count(rule) != 0) o.number(lint::rule_info(rule).id, findings.count(rule));
  }
}

}  // namespace

void print_json(const Report& report) {
  const lint::Totals& t = report.linter.totals();
  const lint::Findings& f = report.linter.findings();
  {
    Object o;
    o.text("capture", report.path);
    o.boolean("readable", !report.error);
    if (report.error) {
      o.number("error_offset", report.error->offset);
      o.text("error", report.error->text);
    }
    o.number("frames", t.frames);
    o.number("packets", t.packets);
    o.number("faulty", t.faulty);
    o.number("cut", t.cut);
    o.number("other", t.other);
    o.number("lost_by_capture", report.lost_frames);
    o.number("errors", f.count(lint::Severity::kError));
    o.number("warnings", f.count(lint::Severity::kWarning));
    o.number("notes", f.count(lint::Severity::kNote));
    print_counts(o, f);
    o.key("findings");
    std::fputc('[', stdout);
    for (size_t i = 0; i < f.kept().size(); i++) {
      if (i != 0) std::fputs(", ", stdout);
      print_finding(report.linter, f.kept()[i]);
    }
    std::fputc(']', stdout);
    o.key("connections");
    print_connections(report.linter);
  }
  std::fputc('\n', stdout);
}

void print_packet(const lint::Packet& packet) {
  {
    Object o;
    const OpcodeInfo& info = packet.info();
    o.number("frame", packet.frame);
    o.text("src", to_string(packet.view.src_ip));
    o.text("dst", to_string(packet.view.dst_ip));
    o.number("opcode", packet.opcode());
    o.text("name", opcode_name(packet.opcode()));
    o.number("dest_qp", packet.view.bth.dest_qp);
    o.number("psn", packet.psn().value());
    o.boolean("ack_req", packet.view.bth.ack_req);
    o.number("pkey", packet.view.bth.pkey);
    o.number("payload_bytes", packet.view.payload_bytes);
    if (info.has(kHasAeth)) {
      o.number("syndrome", packet.view.aeth().syndrome);
      o.number("msn", packet.view.aeth().msn);
    }
    if (info.has(kHasFeth)) {
      o.number("placement", packet.view.feth().placement);
      o.number("selectivity", packet.view.feth().selectivity);
    }
    if (info.has(kHasReth)) {
      o.number("va", packet.view.reth().va);
      o.number("rkey", packet.view.reth().rkey);
      o.number("dma_length", packet.view.reth().dma_length);
    }
    if (info.has(kHasAtomicEth)) {
      const AtomicEth atomic = packet.view.atomic_eth();
      o.number("va", atomic.va);
      o.number("rkey", atomic.rkey);
      o.number("swap_add", atomic.swap_add);
      o.number("compare", atomic.compare);
    }
    if (info.has(kHasAtomicAckEth)) o.number("original", packet.view.atomic_ack_eth().original);
    if (info.has(kHasDeth)) {
      o.number("qkey", packet.view.deth().qkey);
      o.number("src_qp", packet.view.deth().src_qp);
    }
  }
  std::fputc('\n', stdout);
}

}  // namespace uroce::lint_app
