// Packets of a script: as bytes that arrive, as expectations with which a sent frame is compared, and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "packet/packet.h"
#include "script/field_check.h"
#include "script/script.h"
#include "script/testbench.h"
#include "script/vocabulary.h"

namespace uroce::script {

/// The address in this process for an address of the script, and the key that belongs to it.
uint64_t address_of(Testbench& testbench, const Value& value, int64_t round);
uint32_t key_of(Testbench& testbench, const Value& value, int64_t round);

/// Reads "sequence", "invalid", "access", "operational" or a number.
std::optional<uint8_t> nak_code_of(std::string_view name);

/// The frame that a statement `< ...` describes. Everything that the statement does not mention is correct.
Bytes build_frame(Testbench& testbench, ScriptQp& qp, const Statement& statement, int64_t round);

/// Compares a sent frame with a statement `> ...`, field by field.
std::vector<FieldCheck> compare(Testbench& testbench, ScriptQp& qp, const Statement& statement, int64_t round,
                                std::span<const uint8_t> frame);

/// A frame in the language of scripts, without direction: "SEND_ONLY psn 0 ack_req payload 64".
std::string describe(Testbench& testbench, std::span<const uint8_t> frame, bool sent);

/// The sequence number that scripts call `psn 0` in packets of this direction and kind.
Psn psn_base(const ScriptQp& qp, bool sent, const OpcodeInfo& info);

}  // namespace uroce::script
