// What raw packets have beside their queue pairs: flows, counters, receive work queues and their tables.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/steering.h"
#include "objects.h"

namespace uroce::verbs {

inline constexpr uint32_t kMaxIndirectionTables = 1024;
inline constexpr uint32_t kMaxLogTable = 9;  // entries of an indirection table, as a power of two

/// A counters object. What is counted is the sum over all flows that name it.
struct FlowCounters : ibv_counters {
  struct Point {
    ibv_counter_description what;
    uint32_t index;
  };
  static constexpr size_t kPointsMax = 64;

  uint8_t foreign[kForeignRoom];
  // Under the engine's lock.
  std::vector<Point> points;
  FlowCounter counted;
  uint32_t flows = 0;  // flows that name it
};

struct RawFlow : ibv_flow {
  uint8_t foreign[kForeignRoom];
  FlowRule* flow = nullptr;
  QueuePair* qp = nullptr;
  std::vector<FlowCounters*> counters;
};

/// A receive work queue is a queue pair of raw packets that only receives.
struct Wq : ibv_wq {
  uint8_t foreign[kForeignRoom];
  Qp* qp = nullptr;
  QueuePair events;  // the queue pair that the engine's events are about
  uint32_t async_taken = 0;
  std::atomic<uint32_t> tables{0};  // tables that contain it
};

struct RwqTable : ibv_rwq_ind_table {
  uint8_t foreign[kForeignRoom];
  std::vector<Wq*> queues;
  std::atomic<uint32_t> qps{0};  // queue pairs that use it
};

/// What a queue pair has that shares its frames among the queues of a table.
struct RssQueues {
  RssGroup group;
  RwqTable* table = nullptr;
};

inline FlowCounters& ours(ibv_counters* counters) { return *static_cast<FlowCounters*>(counters); }
inline RawFlow& ours(ibv_flow* flow) { return *static_cast<RawFlow*>(flow); }
inline Wq& ours(ibv_wq* wq) { return *static_cast<Wq*>(wq); }
inline RwqTable& ours(ibv_rwq_ind_table* table) { return *static_cast<RwqTable*>(table); }

/// Reads the specifications behind `attr` into `flow`, and puts the counters that they name into `counters`. Returns 0
/// or errno, with the reason in the log.
int flow_from(const ibv_flow_attr& attr, FlowRule& flow, std::vector<FlowCounters*>& counters);

/// Whether the attributes ask for queues of a table in place of a queue of its own.
bool asks_for_rss(const ibv_qp_init_attr_ex& attr);
/// Makes a queue pair for `attr`, of which `asks_for_rss` is true. nullptr, with errno, when that fails.
ibv_qp* create_rss_qp(const ibv_qp_init_attr_ex& attr);
/// To be called before such a queue pair is destroyed: it frees its table.
void forget_rss(QueuePair& qp);

/// verbs_context.
void fill_raw_operations(Context& context);
void fill_wq_operations(Context& context);

}  // namespace uroce::verbs
