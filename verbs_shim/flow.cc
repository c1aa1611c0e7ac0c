// Flows and their counters.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "dpdk/log.h"
#include "engine/steering.h"
#include "operations.h"
#include "raw.h"
#include "runtime.h"

namespace uroce::verbs {
namespace {

int check_flow_qp(const QueuePair& qp) {
  if (qp.qp_base.qp_type == IBV_QPT_RAW_PACKET) return 0;
  log_message(LogLevel::kInfo, "ibv_create_flow: flows are for queue pairs of raw packets (EINVAL)");
  return EINVAL;
}

ibv_flow* create_flow(ibv_qp* base, ibv_flow_attr* attr) try {
  if (is_the_parents(base->context)) {
    refuse_to_child();
    return nullptr;
  }
  QueuePair& qp = ours(base);
  auto raw = std::make_unique<RawFlow>();
  FlowRule flow;
  int error = check_flow_qp(qp);
  if (error == 0) error = flow_from(*attr, flow, raw->counters);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  if (qp.rss != nullptr) {
    flow.group = &qp.rss->group;
  } else {
    flow.qp = qp.qp;
  }
  bool first = false;
  {
    EngineLock lock(endpoint());
    for (FlowCounters* const counters : raw->counters) flow.counters.push_back(&counters->counted);
    raw->flow = lock->steering().add(flow);
    if (raw->flow == nullptr) {
      log_message(LogLevel::kWarning, "ibv_create_flow: there are %u flows already, and no more are possible (ENOMEM)",
                  Steering::kFlowsMax);
      errno = ENOMEM;
      return nullptr;
    }
    for (FlowCounters* const counters : raw->counters) counters->flows++;
    first = qp.flows++ == 0;
  }
  raw->qp = &qp;
  raw->context = base->context;
  raw->handle = next_handle();
  count_object(base->context, 1);
  log_message(first ? LogLevel::kInfo : LogLevel::kDebug, "QP 0x%06x: a flow of %u specifications, priority %u",
              base->qp_num, attr->num_of_specs, attr->priority);
  return raw.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int destroy_flow(ibv_flow* base) {
  if (is_the_parents(base->context)) return 0;
  RawFlow& flow = ours(base);
  {
    EngineLock lock(endpoint());
    lock->steering().remove(*flow.flow);
    for (FlowCounters* const counters : flow.counters) counters->flows--;
    flow.qp->flows--;
  }
  count_object(flow.context, -1);
  delete &flow;
  return 0;
}

ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr* attr) {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  if (attr->comp_mask != 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const counters = new (std::nothrow) FlowCounters{};
  if (counters == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  counters->context = context;
  count_object(context, 1);
  return counters;
}

int destroy_counters(ibv_counters* base) {
  if (is_the_parents(base->context)) return 0;
  FlowCounters& counters = ours(base);
  {
    EngineLock lock(endpoint());
    if (counters.flows != 0) return with_errno(EBUSY);
  }
  count_object(counters.context, -1);
  delete &counters;
  return 0;
}

/// As with cards, what to count is set before the first flow names the counters.
int attach_counters_point_flow(ibv_counters* base, ibv_counter_attach_attr* attr, ibv_flow* flow) try {
  if (is_the_parents(base->context)) return refuse_to_child();
  if (attr->comp_mask != 0) return with_errno(EINVAL);
  if (flow != nullptr) return with_errno(ENOTSUP);
  if (attr->counter_desc != IBV_COUNTER_PACKETS && attr->counter_desc != IBV_COUNTER_BYTES) return with_errno(ENOTSUP);
  FlowCounters& counters = ours(base);
  EngineLock lock(endpoint());
  if (counters.flows != 0) return with_errno(EBUSY);
  if (counters.points.size() >= FlowCounters::kPointsMax) return with_errno(ENOMEM);
  counters.points.push_back({attr->counter_desc, attr->index});
  return 0;
} catch (const std::bad_alloc&) {
  return with_errno(ENOMEM);
}

int read_counters(ibv_counters* base, uint64_t* values, uint32_t count, uint32_t flags) {
  if (is_the_parents(base->context)) return refuse_to_child();
  if ((flags & ~uint32_t{IBV_READ_COUNTERS_ATTR_PREFER_CACHED}) != 0) return with_errno(EINVAL);
  const FlowCounters& counters = ours(base);
  EngineLock lock(endpoint());
  if (counters.flows == 0) return with_errno(EINVAL);
  const auto fits = [count](const FlowCounters::Point& point) { return point.index < count; };
  if (!std::all_of(counters.points.begin(), counters.points.end(), fits)) return with_errno(EINVAL);
  std::fill_n(values, count, uint64_t{0});
  for (const FlowCounters::Point& point : counters.points)
    values[point.index] += point.what == IBV_COUNTER_PACKETS ? counters.counted.packets : counters.counted.bytes;
  return 0;
}

}  // namespace

void fill_raw_operations(Context& context) {
  verbs_context& v = context.verbs;
  v.ibv_create_flow = create_flow;
  v.ibv_destroy_flow = destroy_flow;
  v.create_counters = create_counters;
  v.destroy_counters = destroy_counters;
  v.attach_counters_point_flow = attach_counters_point_flow;
  v.read_counters = read_counters;
  fill_wq_operations(context);
}

}  // namespace uroce::verbs
