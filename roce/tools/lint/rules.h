// What uroce-lint looks for: every rule with its stable id, its usual severity and the reason for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace uroce::lint {

enum class Severity : uint8_t { kNote, kWarning, kError };

enum class Rule : uint8_t {
  // One frame.
  kIpHeader,
  kIpLength,
  kIpFragment,
  kUdpLength,
  kUdpChecksum,
  kUdpPort,
  kUdpSourcePort,
  kHeaderShort,
  kOpcodeReserved,
  kBthVersion,
  kBthReserved,
  kEthReserved,
  kPkey,
  kPadCount,
  kPadBytes,
  kPayloadUnexpected,
  kIcrc,
  kRethLength,
  kRethRange,
  kAtomicAlignment,
  kAethSyndrome,
  kDestQp,
  // Datagrams, management and congestion.
  kUdSource,
  kUdLength,
  kGsiQkey,
  kGsiQp,
  kMadLength,
  kMadHeader,
  kCmAttribute,
  kCmField,
  kCmReserved,
  kCmAddress,
  kCmId,
  kCmTransaction,
  kCmRepeatDiffers,
  kCmUnasked,
  kCmOrder,
  kCmDreqQp,
  kCmStartPsn,
  kCmEarlyData,
  kCmDataQp,
  kCmPathMtu,
  kCmRnrRetry,
  kCnpForm,
  kCnpPacing,
  kCnpWithoutEcn,
  // The requester.
  kServiceMixed,
  kPkeyChanged,
  kOpcodeSequence,
  kMtuLength,
  kWriteLength,
  kPsnGap,
  kRequestOrder,
  kPsnReadRange,
  kUcPsnBack,
  kUcLoss,
  kSolicited,
  kRetransmitStart,
  kRetransmitDiffers,
  kRetransmitContent,
  kReadRetryRange,
  kReadOutstanding,
  kRnrEarly,
  // The responder.
  kAckUnsent,
  kResponseQp,
  kAckBack,
  kAckForRead,
  kMsn,
  kNakPsn,
  kNakRepeated,
  kNakAcked,
  kNakUnanswered,
  kNakAfterRnr,
  kAfterFatalNak,
  kReadResponseUnasked,
  kReadResponseOpcode,
  kReadResponseLength,
  kReadResponseMissing,
  kReadResponseOrder,
  kAtomicResponseUnasked,
  kAtomicReplay,
  kAtomicMissing,
  // Selective repeat.
  kSackForm,
  kSackRange,
  kSackOrder,
  kSackUnsent,
  kSackUnseen,
  kSackUnsigned,
  kSackStranger,
  kRetransmitHeld,
  kCount,
};

inline constexpr unsigned kRuleCount = static_cast<unsigned>(Rule::kCount);

struct RuleInfo {
  const char* id;
  Severity severity;
  const char* what;  // a title of a few words
  const char* why;   // the rule itself, as half a sentence
};

const RuleInfo& rule_info(Rule rule);
std::optional<Rule> rule_of(std::string_view id);
const char* severity_name(Severity severity);

}  // namespace uroce::lint
