// The queue pairs, memory and work requests of one side. Uses only the library (doc/api.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "uroce/uroce.h"

namespace uroce::perf {

/// What is measured. The side that connects decides, and says so with its first request.
struct Plan {
  char magic[8] = {'p', 'e', 'r', 'f', '0', '1'};
  uint32_t opcode = 0;
  uint32_t size = 0;
  uint32_t depth = 0;
  uint32_t qps = 0;

  static Plan of(const Options& options);
  void apply_to(Options& options) const;  // throws std::runtime_error
};

class Transfer {
 public:
  /// Creates everything; the QPs are in INIT, with receives posted. Throws std::runtime_error.
  Transfer(rdma::Endpoint& endpoint, const Options& options);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Connects QP i to the peer's QP i. Waits for a peer that does not listen yet. These throw, too.
  void connect();
  void accept(rdma::Listener& listener);
  /// Until the peer has what it wanted.
  bool connected();

  /// The active side: keeps `depth` messages under way on every QP until `count` are completed. Calls
  /// `on_completion(nanoseconds from post to completion)` for each.
  template <typename F>
  void run(uint64_t count, F&& on_completion);

  /// The passive side: makes one turn, and posts receives again where they were used.
  void serve();

 private:
  static constexpr uint32_t kPolled = 64;  // completions at once

  struct Lane {
    rdma::QueuePair qp;
    rdma::Connection connection;
    uint32_t under_way = 0;
    uint64_t next = 0;                  // number of the next post
    std::vector<int64_t> posted_at_ns;  // by number modulo depth
  };
  void create_lane(Lane& lane);
  bool connect_first();
  void post_receive(uint32_t lane_index);
  void post_one(Lane& lane, uint32_t lane_index, Instant now);
  void fill(uint64_t& left, Instant now);
  Lane& completed(const Completion& completion);
  uint32_t lane_bytes() const { return options_.size; }

  rdma::Endpoint& endpoint_;
  const Options& options_;
  std::unique_ptr<uint8_t[]> memory_;
  PdId pd_ = 0;
  rdma::CompletionQueue cq_;
  rdma::MemoryRegion region_;
  rdma::RemoteMemory peer_;
  std::vector<Lane> lanes_;
  Instant give_up_;  // of the side that connects
};

template <typename F>
void Transfer::run(uint64_t count, F&& on_completion) {
  uint64_t to_post = count;
  uint64_t to_complete = count;
  while (to_complete != 0) {
    const rdma::Endpoint::Ownership owner(endpoint_);
    fill(to_post, endpoint_.now());
    endpoint_.drive();
    Completion completions[kPolled];
    const uint32_t count_now = cq_.poll(completions);
    for (uint32_t i = 0; i < count_now; i++) {
      Lane& lane = completed(completions[i]);
      const uint64_t number = completions[i].wr_id / lanes_.size();
      on_completion(completions[i].timestamp_ns - lane.posted_at_ns[number % options_.depth]);
      lane.under_way--;
    }
    to_complete -= count_now;
  }
}

}  // namespace uroce::perf
