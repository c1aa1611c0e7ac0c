// A queue pair: work requests go in, completions come out of its completion queues. When it is destroyed, completions
// that were not polled are gone, too.
//
// Its life is that of verbs: RESET, INIT (receives may be posted), RTR (receives), RTS (sends). `connect` goes all the
// way; `modify` is ibv_modify_qp. All calls must come from the thread that owns the device at the time (device.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/operations.h"
#include "uroce/port.h"
#include "uroce/qp_attributes.h"
#include "uroce/types.h"
#include "uroce/work_request.h"

namespace uroce::rdma {

class CompletionQueue;
class SharedReceiveQueue;

struct QueuePairOptions {
  QpType type = QpType::kRc;                 // or kUc, kUd
  PdId pd = 0;                               // Device::allocate_pd
  const CompletionQueue* send_cq = nullptr;  // both are required, and outlive the queue pair
  const CompletionQueue* recv_cq = nullptr;
  const SharedReceiveQueue* srq = nullptr;  // nullptr: the queue pair has a receive queue of its own
  QpCapabilities cap{
      .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 0};
  bool sq_sig_all = false;                                   // every send completes, signalled or not
  std::optional<LossRecovery> loss_recovery = std::nullopt;  // not set: as the device's
};

/// What the other side needs to connect. The program has to pass it on, for example over a TCP connection or in a
/// file.
struct QueuePairAddress {
  IpAddress gid;
  uint32_t qp_num = 0;
  Psn psn;  // of the first packet
};

/// The attributes of ibv_modify_qp that a connection needs beside the peer's address.
struct ConnectOptions {
  uint32_t access = kRemoteWrite | kRemoteRead | kRemoteAtomic;  // what the peer may do, with a region's key
  uint32_t path_mtu_bytes = 0;                                   // 256 .. 4096; 0: the device's active_mtu_bytes()
  uint8_t timeout = 14;                                          // for an ACK: 4.096 us * 2^timeout; 0: never
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;  // 7: for ever
  uint8_t min_rnr_timer = 12;
  uint8_t max_rd_atomic = 16;       // READs and atomics under way, as requester
  uint8_t max_dest_rd_atomic = 16;  // the same as responder
  uint8_t traffic_class = 0;
};

class UROCE_API QueuePair {
 public:
  QueuePair() = default;  // none
  /// False when there is no queue pair: none was made, the device had no room for one, or it would have been too large
  /// (limits.h).
  explicit operator bool() const { return qp_ != nullptr; }

  uint32_t qp_num() const;
  QpState state() const;
  /// True when the peer's MAC address is known. Until then, a connected queue pair's packets wait, but its retries
  /// count.
  bool path_resolved() const;
  /// What the peer needs to connect. `sgid_index` says which of Device::gids() the peer is to send to.
  QueuePairAddress address(uint8_t sgid_index = 1) const;

  /// RC and UC: goes from RESET or INIT to RTS. Returns kOk, or why not; the queue pair may then be in INIT or RTR, and
  /// can begin again after `modify` to RESET.
  ModifyResult connect(const QueuePairAddress& peer, const ConnectOptions& options = {}, uint8_t sgid_index = 1);
  /// Goes from RESET to INIT, so that receives can be posted before the peer may send.
  ModifyResult initialize(uint32_t access);
  /// UD: goes from RESET or INIT to RTS.
  ModifyResult activate(uint32_t qkey);
  /// Makes one transition. `mask` says which attributes count; required_attributes() says which have to.
  ModifyResult modify(const QpAttributes& attributes, uint32_t mask);
  /// The attributes as they were set, with the current state.
  QpAttributes attributes() const;

  /// Queues one operation of operations.h; all else as for `post_send`.
  template <typename Operation>
  PostResult post(const Operation& operation) {
    return post_send(operation.work_request());
  }
  PostResult post(const Receive& receive) { return post_recv({receive.wr_id, &receive.into, 1}); }
  /// Queues the request, which starts with the device's next turn (or `transmit`). The memory that it names belongs to
  /// the program again when it has completed; inline data belong to the program at once.
  PostResult post_send(const SendWr& wr) { return post_sends({&wr, 1}); }
  /// Posts all of them or, when one is refused, none.
  PostResult post_sends(std::span<const SendWr> wrs);
  PostResult post_recv(const RecvWr& wr);
  /// UD: from now on it receives datagrams to this multicast group with its Q_Key, until it is detached or destroyed;
  /// the network is told (IGMP, MLD). False: no UD queue pair, no group, or too many are attached.
  bool attach(const IpAddress& group);
  /// False when it was not attached.
  bool detach(const IpAddress& group);
  /// How many sends may be posted now. Completions that were not polled keep their slots.
  uint32_t send_slots_free() const;

 private:
  friend class Device;
  friend class Connections;
  friend class Listener;
  ModifyResult bring_up_to(QpState target, const QpAttributes& attributes);

  Handle<HeldQueuePair> qp_;
  Psn first_psn_;
};

}  // namespace uroce::rdma
