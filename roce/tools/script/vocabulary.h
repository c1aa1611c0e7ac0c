// The script language's vocabulary: which words follow which keyword, and the names of things.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "packet/opcode.h"
#include "script/script.h"
#include "transport/observer.h"
#include "uroce/qp_attributes.h"
#include "uroce/work_request.h"

namespace uroce::script {

/// What stands after an option's name.
enum class Argument : uint8_t { kFlag, kNumber, kAddress, kDuration, kIp, kWord, kBytes };

struct OptionSyntax {
  std::string_view name;
  Argument argument;
};

struct StatementSyntax {
  std::string_view keyword;
  Kind kind;
  /// The arguments before the options, one letter each: n number, w word, a address or number, l list of "address
  /// length".
  std::string_view shape;
  std::span<const OptionSyntax> options;
};

/// Returns nullptr when there is no such keyword.
const StatementSyntax* find_syntax(std::string_view keyword);

std::optional<QpState> state_of(std::string_view name);
std::string state_name(QpState state);
std::optional<QpType> qp_type_of(std::string_view name);
std::optional<WcStatus> status_of_name(std::string_view name);
std::string status_name(WcStatus status);
std::optional<AsyncEvent> event_of(std::string_view name);
std::string event_name(AsyncEvent event);
std::string cause_name(Cause cause);
std::optional<WrOpcode> operation_of(std::string_view name);
std::string completion_kind_name(WcOpcode opcode);
bool is_completion_kind(std::string_view name);
std::string post_result_name(PostResult result);
std::string modify_result_name(ModifyResult result);
std::optional<LossRecovery> recovery_of(std::string_view name);
bool is_counter(std::string_view name);

/// A packet's name in a script: "SEND_ONLY" (of the QP's service), "ACK", "NAK", "RNR_NAK", "CNP", "UC_SEND_ONLY",
/// or a number.
struct PacketName {
  enum class Kind : uint8_t { kPlain, kAck, kNak, kRnrNak };
  uint8_t opcode = 0;
  bool own_service = true;  // the three upper bits of the opcode are those of the QP's service
  Kind kind = Kind::kPlain;
};
std::optional<PacketName> packet_name(std::string_view name);

}  // namespace uroce::script
