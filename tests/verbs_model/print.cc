// A program as C++.
#include <cinttypes>
#include <cstdio>

#include "verbs_model/program.h"

namespace uroce::model {

namespace {

const char* name_of(Region region) {
  constexpr const char* kNames[] = {"kSource", "kTarget", "kReadOnly", "kForeign",  "kLanding",
                                    "kWords",  "kWindow", "kWindow2",  "kOldWindow"};
  return kNames[static_cast<unsigned>(region)];
}
const char* name_of(Do what) {
  constexpr const char* kNames[] = {"kPost",    "kReceive", "kPoll",       "kRun",      "kSettle", "kModify",
                                    "kConnect", "kDestroy", "kDeregister", "kRegister", "kLeap",   "kTxRoom",
                                    "kBuffers", "kCut",     "kSpoof",      "kVanish",   "kRestart"};
  return kNames[static_cast<unsigned>(what)];
}
const char* name_of(QpType type) { return type == QpType::kRc ? "kRc" : type == QpType::kUc ? "kUc" : "kUd"; }
const char* name_of(QpState state) {
  constexpr const char* kNames[] = {"kReset", "kInit", "kRtr", "kRts", "kSqd", "kSqe", "kErr"};
  return kNames[static_cast<unsigned>(state)];
}
const char* name_of(WrOpcode opcode) {
  constexpr const char* kNames[] = {"kRdmaWrite",   "kRdmaWriteWithImm", "kSend",     "kSendWithImm", "kRdmaRead",
                                    "kCompareSwap", "kFetchAdd",         "kLocalInv", "kBindMw",      "kSendWithInv"};
  if (opcode == WrOpcode::kFlush) return "kFlush";
  if (opcode == WrOpcode::kAtomicWrite) return "kAtomicWrite";
  return kNames[static_cast<unsigned>(opcode)];
}
const char* name_of(LossRecovery recovery) {
  return recovery == LossRecovery::kGoBackN ? "kGoBackN" : recovery == LossRecovery::kAuto ? "kAuto" : "kSelective";
}

const char* name_of(CongestionAlgorithm algorithm) {
  constexpr const char* kNames[] = {"kNone", "kDcqcn", "kTimely", "kSwift"};
  return kNames[static_cast<unsigned>(algorithm)];
}

struct Bit {
  uint32_t bit;
  const char* name;
};
constexpr Bit kFlagNames[] = {{kSendFence, "kSendFence"},
                              {kSendSignaled, "kSendSignaled"},
                              {kSendSolicited, "kSendSolicited"},
                              {kSendInline, "kSendInline"}};
constexpr Bit kAccessNames[] = {
    {kRemoteWrite, "kRemoteWrite"}, {kRemoteRead, "kRemoteRead"}, {kRemoteAtomic, "kRemoteAtomic"}};

template <size_t n>
std::string bits(uint32_t value, const Bit (&names)[n]) {
  std::string text;
  for (const Bit& each : names) {
    if ((value & each.bit) != 0) text += (text.empty() ? "" : " | ") + std::string(each.name);
  }
  return text.empty() ? "0" : text;
}

/// Prints an aggregate with some of its members.
class Aggregate {
 public:
  void member(const char* name, const std::string& value) {
    text_ += (text_.empty() ? "." : ", .") + std::string(name) + " = " + value;
  }
  template <typename T>
  void number(const char* name, T value, T usual) {
    if (value == usual) return;
    char digits[32];
    std::snprintf(digits, sizeof digits, value > 99'999'999 ? "0x%" PRIx64 : "%" PRIu64, static_cast<uint64_t>(value));
    member(name, digits);
  }
  void flag(const char* name, bool value) {
    if (value) member(name, "true");
  }
  template <typename T>
  void word(const char* name, const char* scope, T value, T usual) {
    if (value != usual) member(name, std::string(scope) + "::" + name_of(value));
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string text_of(const Endpoint& endpoint) {
  const Endpoint usual;
  Aggregate a;
  if (endpoint.cq_entries[0] != usual.cq_entries[0] || endpoint.cq_entries[1] != usual.cq_entries[1]) {
    a.member("cq_entries",
             "{" + std::to_string(endpoint.cq_entries[0]) + ", " + std::to_string(endpoint.cq_entries[1]) + "}");
  }
  a.number("srq_wrs", endpoint.srq_wrs, usual.srq_wrs);
  a.number("srq_limit", endpoint.srq_limit, usual.srq_limit);
  a.number("rx_frames", endpoint.rx_frames, usual.rx_frames);
  a.number("turn_ns", endpoint.turn_ns, usual.turn_ns);
  a.word("congestion", "CongestionAlgorithm", endpoint.congestion, usual.congestion);
  a.flag("obeys_pauses", endpoint.obeys_pauses);
  return a.text();
}

std::string text_of(const QueuePair& qp) {
  const QueuePair usual;
  Aggregate a;
  a.member("endpoint", std::to_string(qp.endpoint));
  a.word("type", "QpType", qp.type, usual.type);
  a.number("send_cq", qp.send_cq, usual.send_cq);
  a.number("recv_cq", qp.recv_cq, usual.recv_cq);
  a.flag("srq", qp.srq);
  a.flag("signal_all", qp.signal_all);
  a.number("send_wrs", qp.send_wrs, usual.send_wrs);
  a.number("recv_wrs", qp.recv_wrs, usual.recv_wrs);
  a.number("sges", qp.sges, usual.sges);
  a.number("inline_bytes", qp.inline_bytes, usual.inline_bytes);
  a.number("mtu", qp.mtu, usual.mtu);
  if (qp.access != usual.access) a.member("access", bits(qp.access, kAccessNames));
  a.number("retries", qp.retries, usual.retries);
  a.number("rnr_retries", qp.rnr_retries, usual.rnr_retries);
  a.number("reads", qp.reads, usual.reads);
  a.word("recovery", "LossRecovery", qp.recovery, usual.recovery);
  a.flag("ipv6", qp.ipv6);
  return a.text();
}

std::string text_of(const Element& element) {
  const Element usual;
  Aggregate a;
  a.word("region", "Region", element.region, usual.region);
  a.number("offset", element.offset, usual.offset);
  a.number("length", element.length, usual.length);
  a.flag("wrong_key", element.wrong_key);
  return a.text();
}

std::string text_of(const Fault& fault) { return "{" + std::to_string(fault.endpoint) + ", \"" + fault.text + "\"}"; }

template <typename T>
std::string list(const std::vector<T>& items, const char* between) {
  std::string text;
  for (const T& item : items) text += (text.empty() ? "" : between) + text_of(item);
  return text;
}

std::string text_of(const Step& step) {
  const Step usual;
  Aggregate a;
  a.member("what", std::string("Do::") + name_of(step.what));
  a.number("qp", step.qp, usual.qp);
  a.number("endpoint", step.endpoint, usual.endpoint);
  a.number("cq", step.cq, usual.cq);
  a.number("count", step.count, usual.count);
  a.word("state", "QpState", step.state, usual.state);
  a.word("region", "Region", step.region, usual.region);
  a.word("opcode", "WrOpcode", step.opcode, usual.opcode);
  if (step.flags != 0) a.member("flags", bits(step.flags, kFlagNames));
  if (!step.sges.empty()) a.member("sges", "{" + list(step.sges, ", ") + "}");
  a.number("offset", step.offset, usual.offset);
  a.flag("wrong_rkey", step.wrong_rkey);
  a.number("imm", step.imm, usual.imm);
  a.number("compare", step.compare, usual.compare);
  a.number("operand", step.operand, usual.operand);
  a.word("window", "Region", step.window, usual.window);
  a.number("length", step.length, usual.length);
  if (step.access != 0) a.member("access", bits(step.access, kAccessNames));
  a.number("to", step.to, usual.to);
  return a.text();
}

}  // namespace

bool Fault::harmless() const { return text.starts_with("mark") || text.starts_with("jitter"); }
bool Fault::random() const { return text.find('%') != std::string::npos; }
bool Fault::unlimited() const {
  return text.starts_with("down") || text.starts_with("pause-storm") || text.starts_with("burst");
}
bool Fault::reorders() const {
  return text.starts_with("delay") || text.starts_with("dupl") || text.starts_with("reorder");
}

std::string to_cpp(const Program& program) {
  std::string text = "  const Program program{\n      .seed = " + std::to_string(program.seed) + ",\n";
  text += "      .endpoints = {" + list(program.endpoints, ", ") + "},\n";
  text += "      .qps = {" + list(program.qps, ",\n              ") + "},\n";
  if (!program.faults.empty()) text += "      .faults = {" + list(program.faults, ", ") + "},\n";
  text += "      .steps = {\n";
  for (const Step& step : program.steps) text += "          " + text_of(step) + ",\n";
  return text + "      }};\n";
}

}  // namespace uroce::model
