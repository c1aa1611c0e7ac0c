// Runs flows over the hosts of a network: each on a pair of reliable queue pairs of its own, as WRITEs (or READs) of up
// to `piece_bytes` from and to memory that all flows share.
//
// A queue pair that has done its work goes through RESET and serves another flow later, between any two hosts: so each
// flow begins with fresh congestion state, and there are never more queue pairs than flows at the same time. Its
// sequence numbers go on where those of the receiver ended, so that a late duplicate from an earlier flow is recognised
// as a duplicate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/actor.h"
#include "sim/flow.h"
#include "sim/network.h"
#include "sim/workload.h"
#include "transport/completion_queue.h"

namespace uroce::sim {

struct FlowOptions {
  FlowShape shape;
  uint8_t traffic_class = 26 << 2;  // DSCP 26, priority 3, which RoCE usually has
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
  uint8_t max_rd_atomic = 16;
};

class FlowRunner final : public Actor<FlowRunner> {
 public:
  struct Event {};  // there is only one: the workload's next flows begin

  /// All three must outlive the runner, and the runner must outlive the run, because it is the program of every host.
  FlowRunner(Network& network, Workload& workload, const FlowOptions& options);
  ~FlowRunner() override;

  /// All flows so far, in the order in which they began.
  const std::vector<FlowRecord>& flows() const { return records_; }
  uint64_t finished() const { return finished_; }
  uint64_t failed() const { return failed_; }
  uint64_t active() const { return records_.size() - finished_ - failed_; }
  /// True when no flow runs and none is announced.
  bool done() const { return active() == 0 && workload_.next_start() == Instant::never(); }
  /// True when one of the flows that run has no end.
  bool has_endless() const { return endless_ != 0; }
  /// Bytes of payload that have arrived, of all flows including those that still run.
  uint64_t arrived_bytes();
  /// The first flow that failed, and why; empty when none did.
  const std::string& first_failure() const { return first_failure_; }
  uint64_t queue_pairs() const { return queue_pairs_; }
  /// True when no flow has put a byte in a wrong place.
  bool memory_intact() const;

  /// Calls `f(record, bytes that have arrived so far)` for every flow that runs, in the order of queue pairs used.
  void for_each_active(const std::function<void(const FlowRecord&, uint64_t)>& f);

  void on_event(Event event, Instant now);

 private:
  struct Half {
    Qp* qp = nullptr;
    Psn next_psn;  // the PSN of its next request, or of its peer's
  };
  struct HostSide {
    PdId pd = 0;
    CompletionQueue* cq = nullptr;
    uint32_t key = 0;
    std::vector<Half> idle;  // the one that has been idle longest comes first
    size_t idle_head = 0;
  };
  struct Active {
    size_t record = 0;
    Half asker;  // the side that posts
    Half responder;
    uint32_t generation = 0;
    bool in_use = false;
    uint32_t pieces_out = 0;
    uint64_t left = 0;  // bytes not posted yet
    Psn counted_to;     // packets up to here are in `arrived_packets`
    uint64_t arrived_packets = 0;
  };

  void prepare_host(uint32_t number);
  void start_flow(const FlowSpec& spec, Instant now);
  bool take_half(uint32_t host, Half& half);
  void put_half(uint32_t host, const Half& half);
  bool bring_up(const Active& flow, const FlowSpec& spec, bool asker, Instant now);
  void post_pieces(Active& flow, uint32_t slot);
  void on_completion(const Completion& completion);
  void end_flow(uint32_t slot, bool failed, const char* why);
  void count_arrived(Active& flow);
  Engine& engine(uint32_t host) { return network_.host(host).engine(); }
  static uint32_t asker_of(const FlowSpec& spec) { return spec.kind == FlowKind::kWrite ? spec.from : spec.to; }
  static uint32_t responder_of(const FlowSpec& spec) { return spec.kind == FlowKind::kWrite ? spec.to : spec.from; }
  const std::vector<TopologyLink>& path(uint32_t from, uint32_t to);
  void schedule_next();

  Network& network_;
  Workload& workload_;
  FlowOptions options_;
  /// All hosts send from this memory and write to it, so that payload is copied but stays in the cache. Every flow
  /// writes each byte to where the same byte is already, so the contents never change.
  std::unique_ptr<uint8_t[]> memory_;
  std::vector<HostSide> sides_;
  std::vector<Active> active_;
  std::vector<uint32_t> free_slots_;
  std::vector<FlowRecord> records_;
  std::vector<std::vector<TopologyLink>> paths_;  // index from * hosts + to; filled when first asked for
  uint64_t finished_ = 0;
  uint64_t failed_ = 0;
  uint64_t endless_ = 0;
  uint64_t finished_bytes_ = 0;
  uint64_t queue_pairs_ = 0;
  std::string first_failure_;
  Instant scheduled_ = Instant::never();
};

}  // namespace uroce::sim
