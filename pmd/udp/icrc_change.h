// How the iCRC of a packet changes with a header field that the kernel fills in: without reading the payload again.
//
// A CRC is linear: of two packets of one length, the difference (XOR) of the CRCs is the CRC of the difference, begun
// with a state of zero. Where only a few bytes differ, that is a polynomial of a few bits, multiplied by x for every
// bit that follows it, modulo the CRC's own; and since x has an inverse, a difference of CRCs also tells which bytes
// differ, if it is known where they are.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace uroce::udp {

/// By what the iCRC changes when bytes change by `difference` (old XOR new), with `following` bytes between them and
/// the iCRC.
uint32_t icrc_change(std::span<const uint8_t> difference, uint32_t following);

/// The two bytes, in network order, that change the iCRC by `change`, with `following` bytes between them and the iCRC.
/// Nothing when no two bytes do: of 65,536 changes, one can be explained like that.
std::optional<uint16_t> find_change(uint32_t change, uint32_t following);

}  // namespace uroce::udp
