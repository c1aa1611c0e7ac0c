// The fields of connection management messages by name, as bits of the 256 bytes: what scripts, replays and the linter
// read and write. The code under test (roce/cm) has formats of its own and no part in these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace uroce {

enum class MadKind : uint8_t { kReq, kMra, kRej, kRep, kRtu, kDreq, kDrep, kSidrReq, kSidrRep, kLap, kApr };

inline constexpr uint32_t kMadHeaderBytes = 24;
inline constexpr uint16_t kFirstMadAttribute = 0x10;
/// The header in front of the private data of a request to a port: source and destination address (Annex A11).
inline constexpr uint32_t kAddressHeaderBytes = 36;

std::optional<MadKind> mad_kind_of(std::string_view name);
/// Empty: no such message.
std::string_view mad_name(uint16_t attribute);

struct MadField {
  std::string_view name;
  MadKind kind;
  uint16_t bit;  // behind the header, the most significant one of byte 0 first
  uint8_t bits;  // at most 64
};

/// nullptr: this message has no such field.
const MadField* mad_field(MadKind kind, std::string_view name);
std::span<const MadField> mad_fields();

/// `message` points behind the header.
uint64_t get_field(const uint8_t* message, const MadField& field);
void set_field(uint8_t* message, const MadField& field, uint64_t value);

/// Where its private data begins, behind the header.
uint32_t private_data_at(MadKind kind);

}  // namespace uroce
