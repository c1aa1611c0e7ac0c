// Queue pairs, memory and work requests of one side: the part to read for how the C++ API is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dpdk/endpoint.h"
#include "options.h"

namespace uroce::perf {

/// What one side must know of the other.
struct Card {
  IpAddress gid;
  uint64_t addr = 0;
  uint32_t rkey = 0;
  std::vector<uint32_t> qpns;

  std::string to_line() const;
  static Card from_line(const std::string& line);  // throws std::runtime_error
};

class Transfer {
 public:
  /// Creates everything; the QPs are in INIT, with receives posted. Throws std::runtime_error.
  Transfer(Endpoint& endpoint, const Options& options);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Card card() const;
  /// Connects QP i to the peer's QP i, up to RTS.
  void connect(const Card& peer);

  /// The active side: keeps `depth` messages under way on every QP until `count` are completed. Calls
  /// `on_completion(nanoseconds from post to completion)` for each.
  template <typename F>
  void run(uint64_t count, F&& on_completion);

  /// The passive side: one turn; posts receives again where they were used.
  void serve();

 private:
  struct Lane {
    Qp* qp = nullptr;
    uint32_t under_way = 0;
    uint64_t next = 0;                  // number of the next post
    std::vector<int64_t> posted_at_ns;  // by number modulo depth
  };
  void create_lane(Lane& lane);
  void post_receive(uint32_t lane_index);
  void post_one(Lane& lane, uint32_t lane_index, Instant now);
  void fill(uint64_t& left, Instant now);
  Lane& completed(const Completion& completion);
  uint32_t lane_bytes() const { return options_.size; }

  Endpoint& endpoint_;
  const Options& options_;
  std::unique_ptr<uint8_t[]> memory_;
  PdId pd_ = 0;
  CompletionQueue* cq_ = nullptr;
  uint32_t key_ = 0;
  Card peer_;
  std::vector<Lane> lanes_;
};

template <typename F>
void Transfer::run(uint64_t count, F&& on_completion) {
  uint64_t to_post = count;
  uint64_t to_complete = count;
  while (to_complete != 0) {
    const EngineLock owner(endpoint_);
    fill(to_post, endpoint_.now());
    endpoint_.drive();
    to_complete -= cq_->drain(256, [&](const Completion& completion) {
      Lane& lane = completed(completion);
      const uint64_t number = completion.wr_id / lanes_.size();
      on_completion(completion.timestamp_ns - lane.posted_at_ns[number % options_.depth]);
      lane.under_way--;
    });
  }
}

}  // namespace uroce::perf
