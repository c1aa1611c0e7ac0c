// Work requests of one operation each, with only the fields that it needs, for `QueuePair::post`:
//
//   qp.post(RdmaWrite{.from = region.sge(0, 4096), .to = peer, .wr_id = 7});
//
// Each names one piece of memory. Lists of pieces, batches, and rarely used fields need `SendWr` (work_request.h).
// `flags` are SendFlags: an unsignalled request makes no completion unless it fails.
#pragma once

#include <cstdint>
#include <optional>

#include "uroce/destination.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

/// Memory of a peer, as `MemoryRegion::remote` names it there. It may travel as it is, between machines with the same
/// byte order.
struct RemoteMemory {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t bytes = 0;  // at most 4 GiB - 1, whatever the region has
  RemoteMemory at(uint32_t offset) const { return {address + offset, rkey, bytes > offset ? bytes - offset : 0}; }
};

/// What all operations have in common.
inline SendWr one_piece(WrOpcode opcode, uint64_t wr_id, uint8_t flags, const Sge& piece,
                        const RemoteMemory& remote = {}) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.flags = flags;
  wr.sges = &piece;
  wr.num_sge = 1;
  wr.remote_addr = remote.address;
  wr.rkey = remote.rkey;
  return wr;
}

/// SEND: into the receive that the peer has posted.
struct Send {
  Sge from{};
  uint64_t wr_id = 0;
  uint8_t flags = kSendSignaled;
  std::optional<uint32_t> imm = std::nullopt;  // as it lies in memory

  SendWr work_request() const {
    SendWr wr = one_piece(imm ? WrOpcode::kSendWithImm : WrOpcode::kSend, wr_id, flags, from);
    wr.imm_or_rkey = imm.value_or(0);
    return wr;
  }
};

/// RDMA WRITE. The peer learns of it only with immediate data, which takes one of its receives.
struct RdmaWrite {
  Sge from{};
  RemoteMemory to{};
  uint64_t wr_id = 0;
  uint8_t flags = kSendSignaled;
  std::optional<uint32_t> imm = std::nullopt;  // as it lies in memory

  SendWr work_request() const {
    SendWr wr = one_piece(imm ? WrOpcode::kRdmaWriteWithImm : WrOpcode::kRdmaWrite, wr_id, flags, from, to);
    wr.imm_or_rkey = imm.value_or(0);
    return wr;
  }
};

/// RDMA READ. RC only.
struct RdmaRead {
  Sge into{};
  RemoteMemory from{};
  uint64_t wr_id = 0;
  uint8_t flags = kSendSignaled;

  SendWr work_request() const { return one_piece(WrOpcode::kRdmaRead, wr_id, flags, into, from); }
};

/// Adds to 8 bytes of the peer, aligned to 8; the previous value goes `into` 8 bytes. RC only.
struct FetchAdd {
  Sge into{};
  RemoteMemory at{};
  uint64_t add = 0;
  uint64_t wr_id = 0;
  uint8_t flags = kSendSignaled;

  SendWr work_request() const {
    SendWr wr = one_piece(WrOpcode::kFetchAdd, wr_id, flags, into, at);
    wr.compare_add = add;
    return wr;
  }
};

/// Sets 8 bytes of the peer, aligned to 8, to `swap` if they are `compare`; the previous value goes `into` 8 bytes. RC
/// only.
struct CompareSwap {
  Sge into{};
  RemoteMemory at{};
  uint64_t compare = 0;
  uint64_t swap = 0;
  uint64_t wr_id = 0;
  uint8_t flags = kSendSignaled;

  SendWr work_request() const {
    SendWr wr = one_piece(WrOpcode::kCompareSwap, wr_id, flags, into, at);
    wr.compare_add = compare;
    wr.swap = swap;
    return wr;
  }
};

/// UD: a datagram to a queue pair, or to all of a group (kMulticastQp).
struct Datagram {
  Sge from{};
  const Destination& to;  // must live until the completion
  uint32_t qp_num = 0;
  uint32_t qkey = 0;  // that of the queue pair there
  uint64_t wr_id = 0;
  uint8_t flags = kSendSignaled;

  SendWr work_request() const {
    SendWr wr = one_piece(WrOpcode::kSend, wr_id, flags, from);
    wr.ah = to.handle();
    wr.remote_qpn = qp_num;
    wr.remote_qkey = qkey;
    return wr;
  }
};

inline constexpr uint32_t kMulticastQp = 0xffffff;

/// Room for one message. On UD its first 40 bytes (kGrhBytes) are the header's.
struct Receive {
  Sge into{};
  uint64_t wr_id = 0;
};

}  // namespace uroce::rdma
