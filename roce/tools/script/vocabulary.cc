#include "script/vocabulary.h"

#include <charconv>
#include <iterator>
#include <string>

#include "script/manager.h"
#include "transport/counters.h"

namespace uroce::script {

namespace {

template <typename T>
struct Name {
  std::string_view name;
  T value;
};

template <typename T, size_t N>
std::optional<T> by_name(const Name<T> (&table)[N], std::string_view name) {
  for (const Name<T>& entry : table) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

template <typename T, size_t N>
std::string name_of(const Name<T> (&table)[N], T value) {
  for (const Name<T>& entry : table) {
    if (entry.value == value) return std::string(entry.name);
  }
  return std::to_string(static_cast<unsigned>(value));
}

constexpr Name<QpState> kStates[] = {{"reset", QpState::kReset}, {"init", QpState::kInit}, {"rtr", QpState::kRtr},
                                     {"rts", QpState::kRts},     {"sqd", QpState::kSqd},   {"sqe", QpState::kSqe},
                                     {"error", QpState::kErr}};

constexpr Name<QpType> kTypes[] = {{"rc", QpType::kRc}, {"uc", QpType::kUc}, {"ud", QpType::kUd}};

constexpr Name<WcStatus> kStatuses[] = {
    {"success", WcStatus::kSuccess},
    {"local_length_error", WcStatus::kLocLenErr},
    {"local_qp_operation_error", WcStatus::kLocQpOpErr},
    {"local_protection_error", WcStatus::kLocProtErr},
    {"flushed", WcStatus::kWrFlushErr},
    {"bind_error", WcStatus::kMwBindErr},
    {"bad_response", WcStatus::kBadRespErr},
    {"local_access_error", WcStatus::kLocAccessErr},
    {"remote_invalid_request", WcStatus::kRemInvReqErr},
    {"remote_access_error", WcStatus::kRemAccessErr},
    {"remote_operation_error", WcStatus::kRemOpErr},
    {"retry_exceeded", WcStatus::kRetryExcErr},
    {"rnr_retry_exceeded", WcStatus::kRnrRetryExcErr},
    {"general_error", WcStatus::kGeneralErr},
};

constexpr Name<AsyncEvent> kEvents[] = {
    {"cq_error", AsyncEvent::kCqErr},
    {"fatal", AsyncEvent::kQpFatal},
    {"request_error", AsyncEvent::kQpReqErr},
    {"access_error", AsyncEvent::kQpAccessErr},
    {"established", AsyncEvent::kCommEst},
    {"drained", AsyncEvent::kSqDrained},
    {"srq_limit", AsyncEvent::kSrqLimitReached},
    {"last_receive", AsyncEvent::kQpLastWqeReached},
};

constexpr Name<Cause> kCauses[] = {
    {"none", Cause::kNone},
    {"flushed", Cause::kFlushed},
    {"timeout", Cause::kTimeout},
    {"peer_unresolved", Cause::kPeerUnresolved},
    {"sequence_retries", Cause::kSequenceRetries},
    {"rnr_retries", Cause::kRnrRetries},
    {"nak_invalid_request", Cause::kNakInvalidRequest},
    {"nak_remote_access", Cause::kNakRemoteAccess},
    {"nak_remote_operational", Cause::kNakRemoteOperational},
    {"bad_read_response", Cause::kBadReadResponse},
    {"local_key", Cause::kLocalKey},
    {"local_range", Cause::kLocalRange},
    {"receive_too_short", Cause::kReceiveTooShort},
    {"message_too_long", Cause::kMessageTooLong},
    {"remote_key", Cause::kRemoteKey},
    {"remote_invalidate", Cause::kRemoteInvalidate},
    {"request_not_enabled", Cause::kRequestNotEnabled},
    {"request_malformed", Cause::kRequestMalformed},
    {"read_resources", Cause::kReadResources},
    {"cq_overrun", Cause::kCqOverrun},
    {"bind_refused", Cause::kBindRefused},
    {"key_budget", Cause::kKeyBudget},
    {"no_read_depth", Cause::kNoReadDepth},
};

constexpr Name<WrOpcode> kOperations[] = {
    {"write", WrOpcode::kRdmaWrite}, {"write_imm", WrOpcode::kRdmaWriteWithImm},
    {"send", WrOpcode::kSend},       {"send_imm", WrOpcode::kSendWithImm},
    {"read", WrOpcode::kRdmaRead},   {"cas", WrOpcode::kCompareSwap},
    {"fadd", WrOpcode::kFetchAdd},   {"local_inv", WrOpcode::kLocalInv},
    {"bind", WrOpcode::kBindMw},     {"send_inv", WrOpcode::kSendWithInv},
    {"flush", WrOpcode::kFlush},     {"atomic_write", WrOpcode::kAtomicWrite},
};

constexpr Name<WcOpcode> kCompletionKinds[] = {
    {"send", WcOpcode::kSend},
    {"write", WcOpcode::kRdmaWrite},
    {"read", WcOpcode::kRdmaRead},
    {"cas", WcOpcode::kCompSwap},
    {"fadd", WcOpcode::kFetchAdd},
    {"bind", WcOpcode::kBindMw},
    {"local_inv", WcOpcode::kLocalInv},
    {"recv", WcOpcode::kRecv},
    {"recv_imm", WcOpcode::kRecvRdmaWithImm},
    {"flush", WcOpcode::kFlush},
    {"atomic_write", WcOpcode::kAtomicWrite},
};

constexpr Name<PostResult> kPostResults[] = {
    {"queue_full", PostResult::kQueueFull},
    {"bad_state", PostResult::kBadState},
    {"too_many_sges", PostResult::kTooManySges},
    {"inline_too_long", PostResult::kInlineTooLong},
    {"inline_not_there", PostResult::kInlineNotThere},
    {"bad_opcode", PostResult::kBadOpcode},
    {"too_long", PostResult::kTooLong},
    {"bad_address_handle", PostResult::kBadAddressHandle},
};

constexpr Name<ModifyResult> kModifyResults[] = {
    {"bad_transition", ModifyResult::kBadTransition},
    {"missing_attribute", ModifyResult::kMissingAttribute},
    {"extra_attribute", ModifyResult::kExtraAttribute},
    {"bad_value", ModifyResult::kBadValue},
    {"no_route", ModifyResult::kNoRoute},
};

constexpr Name<LossRecovery> kRecoveries[] = {
    {"go_back_n", LossRecovery::kGoBackN}, {"auto", LossRecovery::kAuto}, {"selective", LossRecovery::kSelective}};

using enum Argument;

constexpr OptionSyntax kEngineOptions[] = {{"credits", kFlag},     {"ack_delay", kDuration},    {"window", kNumber},
                                           {"max_frame", kNumber}, {"vlan", kNumber},           {"max_qps", kNumber},
                                           {"recovery", kWord},    {"reorder_packets", kNumber}};

constexpr OptionSyntax kQpOptions[] = {
    {"mtu", kNumber},
    {"sq_psn", kNumber},
    {"rq_psn", kNumber},
    {"peer", kNumber},
    {"access", kWord},
    {"timeout", kNumber},
    {"retry_cnt", kNumber},
    {"rnr_retry", kNumber},
    {"rnr_timer", kNumber},
    {"max_rd_atomic", kNumber},
    {"max_dest_rd_atomic", kNumber},
    {"send_wr", kNumber},
    {"recv_wr", kNumber},
    {"srq", kNumber},
    {"qkey", kNumber},
    {"pd", kNumber},
    {"ipv6", kFlag},
    {"unresolved", kFlag},
    {"sig_all", kFlag},
    {"inline", kNumber},
    {"dscp", kNumber},
    {"ttl", kNumber},
    {"cq", kNumber},
    {"refused", kWord},
    {"drain_event", kFlag},
};

constexpr OptionSyntax kMrOptions[] = {{"access", kWord}, {"pd", kNumber}, {"iova", kNumber}, {"skew", kNumber}};
constexpr OptionSyntax kMwOptions[] = {{"pd", kNumber}};
constexpr OptionSyntax kSrqOptions[] = {{"pd", kNumber}, {"limit", kNumber}};

constexpr OptionSyntax kPostOptions[] = {
    {"wrid", kNumber},  {"to", kAddress},     {"from", kAddress},    {"rkey", kAddress},   {"imm", kNumber},
    {"inv", kAddress},  {"compare", kNumber}, {"swap", kNumber},     {"add", kNumber},     {"feth", kNumber},
    {"len", kNumber},   {"fence", kFlag},     {"unsignaled", kFlag}, {"solicited", kFlag}, {"inline", kFlag},
    {"lkey", kAddress}, {"qkey", kNumber},    {"peer", kNumber},     {"refused", kWord},   {"access", kWord},
    {"key", kNumber},
};

constexpr OptionSyntax kRecvOptions[] = {{"wrid", kNumber}, {"lkey", kAddress}, {"refused", kWord}};

constexpr OptionSyntax kSetOptions[] = {{"u64", kNumber}, {"pattern", kNumber}, {"offset", kNumber}};
constexpr OptionSyntax kMemoryOptions[] = {
    {"u64", kNumber}, {"pattern", kNumber}, {"offset", kNumber}, {"untouched", kFlag}, {"bytes", kBytes}};

constexpr OptionSyntax kPacketOptions[] = {
    {"qp", kNumber},         {"psn", kNumber},      {"msn", kNumber},        {"credits", kNumber},
    {"timer", kNumber},      {"syndrome", kNumber}, {"code", kWord},         {"at", kAddress},
    {"len", kNumber},        {"feth", kNumber},     {"rkey", kAddress},      {"add", kNumber},
    {"compare", kNumber},    {"swap", kNumber},     {"original", kNumber},   {"imm", kNumber},
    {"inv", kAddress},       {"qkey", kNumber},     {"src_qp", kNumber},     {"payload", kNumber},
    {"pattern", kNumber},    {"offset", kNumber},   {"data", kAddress},      {"ack_req", kFlag},
    {"solicited", kFlag},    {"mig", kFlag},        {"fecn", kFlag},         {"becn", kFlag},
    {"resv7", kNumber},      {"tver", kNumber},     {"pad", kNumber},        {"pkey", kNumber},
    {"dest_qp", kNumber},    {"ttl", kNumber},      {"dscp", kNumber},       {"ecn", kNumber},
    {"vlan", kNumber},       {"src_ip", kIp},       {"dst_ip", kIp},         {"src_port", kNumber},
    {"dst_port", kNumber},   {"bad_icrc", kFlag},   {"ip_len", kNumber},     {"udp_len", kNumber},
    {"bad_checksum", kFlag}, {"fragment", kNumber}, {"cut", kNumber},        {"tail", kNumber},
    {"truncate", kNumber},   {"trailer", kNumber},  {"ip_version", kNumber}, {"ip_words", kNumber},
    {"unresolved", kFlag},   {"signed", kFlag},     {"held", kWord},
};

/// Fields (mad_fields.h), and what stands around them.
constexpr OptionSyntax kMadOptions[] = {
    {"id", kNumber},          {"peer", kNumber},        {"tid", kNumber},
    {"service", kNumber},     {"port", kNumber},        {"guid", kNumber},
    {"qkey", kNumber},        {"qpn", kNumber},         {"resources", kNumber},
    {"depth", kNumber},       {"psn", kNumber},         {"response_timeout", kNumber},
    {"own_timeout", kNumber}, {"transport", kNumber},   {"flow_control", kNumber},
    {"retry_cnt", kNumber},   {"pkey", kNumber},        {"mtu", kNumber},
    {"rdc", kNumber},         {"rnr_retry", kNumber},   {"cm_retries", kNumber},
    {"srq", kNumber},         {"extended", kNumber},    {"hop_limit", kNumber},
    {"ack_timeout", kNumber}, {"other_lid", kNumber},   {"ack_delay", kNumber},
    {"failover", kNumber},    {"answers", kNumber},     {"wait", kNumber},
    {"reason", kNumber},      {"ari_bytes", kNumber},   {"ari", kWord},
    {"status", kNumber},      {"data", kWord},          {"bare", kFlag},
    {"src_gid", kIp},         {"dst_gid", kIp},         {"src_ip", kIp},
    {"src_qp", kNumber},      {"packet_qkey", kNumber}, {"bad_icrc", kFlag},
    {"base", kNumber},        {"class", kNumber},       {"class_version", kNumber},
    {"method", kNumber},      {"attribute", kNumber},   {"ipv6", kFlag},
};

constexpr OptionSyntax kCmOptions[] = {
    {"port", kNumber},      {"udp", kFlag},      {"uc", kFlag},          {"qp", kNumber},        {"qpn", kNumber},
    {"resources", kNumber}, {"depth", kNumber},  {"retry_cnt", kNumber}, {"rnr_retry", kNumber}, {"qkey", kNumber},
    {"data", kWord},        {"reason", kNumber}, {"rtu", kFlag},         {"ipv6", kFlag},        {"refused", kWord},
};

constexpr OptionSyntax kCmEventOptions[] = {
    {"status", kNumber}, {"data", kWord}, {"qpn", kNumber}, {"resources", kNumber}, {"depth", kNumber}, {"of", kNumber},
};

constexpr OptionSyntax kCompletionOptions[] = {
    {"wrid", kNumber},   {"bytes", kNumber}, {"imm", kNumber}, {"inv", kAddress},
    {"src_qp", kNumber}, {"cause", kWord},   {"grh", kFlag},
};

constexpr OptionSyntax kRawOptions[] = {{"hex", kBytes}};

constexpr StatementSyntax kStatements[] = {
    {"engine", Kind::kEngine, "", kEngineOptions},
    {"qp", Kind::kQp, "nw", kQpOptions},
    {"mr", Kind::kMr, "nn", kMrOptions},
    {"mw", Kind::kMw, "nw", kMwOptions},
    {"srq", Kind::kSrq, "nn", kSrqOptions},
    {"post", Kind::kPost, "nwl", kPostOptions},
    {"recv", Kind::kRecv, "nl", kRecvOptions},
    {"modify", Kind::kModify, "nw", kQpOptions},
    {"dereg", Kind::kDereg, "a", {}},
    {"destroy", Kind::kDestroy, "n", {}},
    {"set", Kind::kSet, "an", kSetOptions},
    {"cm", Kind::kCm, "nw", kCmOptions},
    {"<", Kind::kInject, "w", kPacketOptions},
    {"<mad", Kind::kInjectMad, "w", kMadOptions},
    {"raw", Kind::kRaw, "", kRawOptions},
    {"resolve", Kind::kResolve, "n", {}},
    {"port", Kind::kPort, "w", {}},
    {">", Kind::kExpect, "w", kPacketOptions},
    {">mad", Kind::kExpectMad, "w", kMadOptions},
    {"cm_event", Kind::kCmEvent, "nw", kCmEventOptions},
    {"completion", Kind::kCompletion, "nww", kCompletionOptions},
    {"state", Kind::kState, "nw", {}},
    {"counter", Kind::kCounter, "wn", {}},
    {"memory", Kind::kMemory, "an", kMemoryOptions},
    {"event", Kind::kEvent, "nw", {}},
    {"nothing", Kind::kNothing, "", {}},
    {"repeat", Kind::kRepeat, "n", {}},
    {"end", Kind::kEnd, "", {}},
};

constexpr Name<uint8_t> kPackets[] = {
    {"SEND_FIRST", kOpSendFirst},
    {"SEND_MIDDLE", kOpSendMiddle},
    {"SEND_LAST", kOpSendLast},
    {"SEND_LAST_IMM", kOpSendLastImm},
    {"SEND_ONLY", kOpSendOnly},
    {"SEND_ONLY_IMM", kOpSendOnlyImm},
    {"WRITE_FIRST", kOpWriteFirst},
    {"WRITE_MIDDLE", kOpWriteMiddle},
    {"WRITE_LAST", kOpWriteLast},
    {"WRITE_LAST_IMM", kOpWriteLastImm},
    {"WRITE_ONLY", kOpWriteOnly},
    {"WRITE_ONLY_IMM", kOpWriteOnlyImm},
    {"READ_REQUEST", kOpReadRequest},
    {"READ_RESPONSE_FIRST", kOpReadResponseFirst},
    {"READ_RESPONSE_MIDDLE", kOpReadResponseMiddle},
    {"READ_RESPONSE_LAST", kOpReadResponseLast},
    {"READ_RESPONSE_ONLY", kOpReadResponseOnly},
    {"ACKNOWLEDGE", kOpAcknowledge},
    {"ATOMIC_ACK", kOpAtomicAcknowledge},
    {"COMPARE_SWAP", kOpCompareSwap},
    {"FETCH_ADD", kOpFetchAdd},
    {"SEND_LAST_INV", kOpSendLastInv},
    {"SEND_ONLY_INV", kOpSendOnlyInv},
    {"FLUSH", kOpFlush},
    {"ATOMIC_WRITE", kOpAtomicWrite},
};

constexpr Name<Service> kServices[] = {{"RC_", Service::kRc},
                                       {"UC_", Service::kUc},
                                       {"RD_", Service::kRd},
                                       {"UD_", Service::kUd},
                                       {"XRC_", Service::kXrc}};

}  // namespace

const StatementSyntax* find_syntax(std::string_view keyword) {
  for (const StatementSyntax& syntax : kStatements) {
    if (syntax.keyword == keyword) return &syntax;
  }
  return nullptr;
}

std::optional<QpState> state_of(std::string_view name) { return by_name(kStates, name); }
std::string state_name(QpState state) { return name_of(kStates, state); }
std::optional<QpType> qp_type_of(std::string_view name) { return by_name(kTypes, name); }
std::optional<WcStatus> status_of_name(std::string_view name) { return by_name(kStatuses, name); }
std::string status_name(WcStatus status) { return name_of(kStatuses, status); }
std::optional<AsyncEvent> event_of(std::string_view name) { return by_name(kEvents, name); }
std::string event_name(AsyncEvent event) { return name_of(kEvents, event); }
std::string cause_name(Cause cause) { return name_of(kCauses, cause); }
std::optional<WrOpcode> operation_of(std::string_view name) { return by_name(kOperations, name); }
std::string completion_kind_name(WcOpcode opcode) { return name_of(kCompletionKinds, opcode); }
bool is_completion_kind(std::string_view name) { return by_name(kCompletionKinds, name).has_value(); }
std::string post_result_name(PostResult result) {
  return result == PostResult::kOk ? "accepted" : name_of(kPostResults, result);
}
std::string modify_result_name(ModifyResult result) {
  return result == ModifyResult::kOk ? "accepted" : name_of(kModifyResults, result);
}

std::optional<LossRecovery> recovery_of(std::string_view name) { return by_name(kRecoveries, name); }

bool is_counter(std::string_view name) {
  if (is_cm_counter(name)) return true;
  bool found = false;
  for_each_counter(Counters{}, [&](const char* known, uint64_t) { found |= name == known; });
  return found;
}

std::optional<PacketName> packet_name(std::string_view name) {
  PacketName result;
  if (name == "ACK" || name == "NAK" || name == "RNR_NAK") {
    result.kind = name == "ACK"   ? PacketName::Kind::kAck
                  : name == "NAK" ? PacketName::Kind::kNak
                                  : PacketName::Kind::kRnrNak;
    result.opcode = kOpAcknowledge;
    return result;
  }
  if (name == "SACK") return PacketName{kOpcodeSack, false, PacketName::Kind::kPlain};
  if (name == "CNP") return PacketName{kOpcodeCnp, false, PacketName::Kind::kPlain};
  if (name.starts_with("0x")) {
    unsigned value = 256;
    const auto read = std::from_chars(name.data() + 2, name.data() + name.size(), value, 16);
    if (read.ptr != name.data() + name.size() || value > 255) return std::nullopt;
    return PacketName{static_cast<uint8_t>(value), false, PacketName::Kind::kPlain};
  }
  for (const Name<Service>& service : kServices) {
    if (!name.starts_with(service.name)) continue;
    const auto low = by_name(kPackets, name.substr(service.name.size()));
    if (!low) continue;
    return PacketName{make_opcode(service.value, *low), false, PacketName::Kind::kPlain};
  }
  const auto low = by_name(kPackets, name);
  if (!low) return std::nullopt;
  result.opcode = *low;
  return result;
}

}  // namespace uroce::script
