// Every count that the transport and the engine keep. Where rdma-core's hw_counters have the same count, its name is
// the same.
//
// X-macro: `X(name)` for each. `name` is the telemetry key.
#pragma once

#include <cstdint>

// Not formatted: clang-format 14 changes a list like this one anew each time that it runs.
// clang-format off
#define UROCE_COUNTERS(X) \
  /* traffic */ \
  X(tx_packets) X(tx_bytes) X(rx_packets) X(rx_bytes) \
  X(rx_write_requests) X(rx_read_requests) X(rx_atomic_requests) X(rx_flush_requests) X(rx_atomic_write_requests) \
  X(rx_sends) X(rx_raw_frames) X(tx_raw_frames) \
  /* carried out without frames */ \
  X(direct_writes) X(direct_reads) X(direct_bytes) \
  /* reliability, by rdma-core's names */ \
  X(out_of_buffer) X(out_of_sequence) X(duplicate_request) X(rnr_nak_retry_err) X(packet_seq_err) \
  X(implied_nak_seq_err) X(local_ack_timeout_err) \
  X(resp_local_length_error) X(resp_cqe_error) X(req_cqe_error) \
  X(req_remote_invalid_request) X(req_remote_access_errors) X(resp_remote_access_errors) \
  X(resp_cqe_flush_error) X(req_cqe_flush_error) X(rx_icrc_encapsulated) \
  X(sent_acks) X(sent_naks) X(sent_rnr_naks) X(retransmits) \
  /* selective repeat */ \
  X(tx_sack) X(rx_sack) X(selective_retransmits) X(spurious_retransmits) X(tail_loss_probes) \
  X(response_gaps_asked) X(rx_out_of_order_held) X(rx_drop_held_already) X(rx_drop_reorder_full) X(rx_drop_bad_sack) \
  X(np_ecn_marked_roce_packets) X(np_cnp_sent) X(rp_cnp_handled) X(rp_cnp_ignored) \
  /* received and dropped: why */ \
  X(rx_drop_not_roce) X(rx_drop_truncated) X(rx_drop_bad_ip_header) X(rx_drop_fragmented) \
  X(rx_drop_length_mismatch) X(rx_drop_unknown_opcode) X(rx_drop_bad_tver) X(rx_drop_bad_pad) \
  X(rx_drop_unexpected_payload) X(rx_drop_not_for_us) X(rx_drop_no_qp) X(rx_drop_qp_service) X(rx_drop_qp_state) \
  X(rx_drop_wrong_peer) X(rx_drop_bad_pkey) X(rx_drop_bad_qkey) X(rx_drop_ghost_ack) X(rx_drop_reserved_syndrome) \
  X(rx_drop_after_nak) X(rx_drop_bad_duplicate) X(rx_drop_uc_sequence) X(rx_drop_uc_length) X(rx_drop_key_budget) X(rx_drop_no_receive) X(rx_drop_receive_too_short) \
  X(rx_drop_memory_gone) X(rx_drop_ud_length) X(rx_drop_unexpected_response) X(rx_drop_early_response) X(rx_drop_mac_control) X(rx_drop_ping) \
  X(rx_drop_flow) X(rx_drop_mad_length) X(rx_drop_mad_nobody) \
  /* management datagrams, and multicast */ \
  X(rx_mads) X(tx_mads) X(tx_drop_mad_full) X(tx_drop_mad_unresolved) X(rx_multicast) X(group_reports) X(group_queries) \
  /* the port and its neighbours */ \
  X(tx_port_full) X(tx_drop_last_answer) X(tx_neighbour_unresolved) X(arp_rx) X(arp_tx) X(nd_rx) X(nd_tx) X(echo_replies) \
  X(address_conflicts) X(neighbour_claims) X(neighbour_moves) X(loopback_packets) X(loopback_full) X(rx_pause_frames) X(tx_pause_frames) \
  X(pfc_watchdog_fired)
// clang-format on

namespace uroce {

struct Counters {
#define UROCE_COUNTER_FIELD(name) uint64_t name = 0;
  UROCE_COUNTERS(UROCE_COUNTER_FIELD)
#undef UROCE_COUNTER_FIELD
};

/// Calls `f(name, value)` for every counter, in the order above.
template <typename F>
void for_each_counter(const Counters& counters, F&& f) {
#define UROCE_COUNTER_VISIT(name) f(#name, counters.name);
  UROCE_COUNTERS(UROCE_COUNTER_VISIT)
#undef UROCE_COUNTER_VISIT
}

/// Calls `f(name, value)` for every counter, and `f` may change it.
template <typename F>
void for_each_counter(Counters& counters, F&& f) {
#define UROCE_COUNTER_VISIT(name) f(#name, counters.name);
  UROCE_COUNTERS(UROCE_COUNTER_VISIT)
#undef UROCE_COUNTER_VISIT
}

inline Counters& operator+=(Counters& sum, const Counters& more) {
#define UROCE_COUNTER_ADD(name) sum.name += more.name;
  UROCE_COUNTERS(UROCE_COUNTER_ADD)
#undef UROCE_COUNTER_ADD
  return sum;
}

}  // namespace uroce
