// Messages of connection management in a script: as frames that arrive, as expectations, and as text.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mad/mad_fields.h"
#include "script/packets.h"
#include "script/script.h"

namespace uroce::script {

/// Defaults of a script's messages: communication ID 1 is ours, 0x77 the peer's.
inline constexpr uint32_t kOwnId = 1;
inline constexpr uint32_t kPeerId = 0x77;

/// Bytes in hexadecimal, in one word. Throws ScriptError.
std::vector<uint8_t> hex_word(const Value& value);
/// The other way round, without the zeros at the end; "none" if there is nothing else.
std::string bytes_word(std::span<const uint8_t> bytes);
/// The option's number in this round, or `otherwise`. Throws ScriptError if it has more bits than that.
uint64_t fitting(const Statement& statement, std::string_view name, uint64_t otherwise, int64_t round, unsigned bits);

class Mads {
 public:
  /// The frame that `<mad ...` describes, from the peer to `path`'s other end.
  Bytes build(const Statement& statement, int64_t round, const Route& path);
  /// Compares a frame that was sent with `>mad ...`, on the way back of `path`.
  std::vector<FieldCheck> compare(const Statement& statement, int64_t round, const Route& path,
                                  std::span<const uint8_t> frame);
  /// Messages that begin an exchange, sent or received, tell which transactions there are.
  void on_sent(std::span<const uint8_t> frame);

 private:
  void compare_transaction(const Statement& statement, int64_t round, const uint8_t* mad,
                           std::vector<FieldCheck>& rows) const;
  uint64_t transaction_for(MadKind kind, uint32_t id, uint32_t peer) const;

  std::map<uint32_t, uint64_t> ours_;    // by our ID: of exchanges that we began
  std::map<uint32_t, uint64_t> theirs_;  // by the peer's ID
};

/// Whether the packet is a message of connection management.
bool is_mad(const PacketView& view);
/// "REQ id 0x1 qpn 0x2 ...", without direction.
std::string describe_mad(const PacketView& view);

}  // namespace uroce::script
