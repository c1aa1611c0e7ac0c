// What a work request under test is known to do: one record for who posted it, one for who must receive its message.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/landing.h"
#include "uroce/work_request.h"

namespace uroce::oracle {

/// A work request that was posted, and whose end is not known yet.
struct PostedOp {
  uint64_t wr_id;
  WrOpcode opcode;
  bool signalled;
  uint32_t bytes;
  uint32_t remote_offset;  // READ: what may not change meanwhile
  Landing::Place landing;  // where READ data and atomic results go
  std::vector<uint8_t> expected;
  bool shared_counter = false;
  // What it does to the peer's memory; kept only when connections may end.
  uint32_t changed_offset = 0;
  std::vector<uint8_t> before;
  std::vector<uint8_t> after;
};

/// A message that must arrive.
struct ExpectedMessage {
  WcOpcode opcode;
  uint8_t flags;
  uint32_t bytes;
  uint32_t imm_or_rkey;
  std::vector<Span> pieces;  // of the sender's source; empty for WRITE with immediate
  uint64_t wr_id = 0;
};

}  // namespace uroce::oracle
