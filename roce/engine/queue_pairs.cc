#include "engine/queue_pairs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/direct_copy.h"
#include "engine/engine_config.h"
#include "engine/object_tables.h"
#include "transport/frame_builder.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"
#include "transport/reorder_buffer.h"
#include "transport/transport_env.h"

namespace uroce {

namespace {

uint32_t mtu_for(uint32_t max_frame_bytes) {
  uint32_t mtu = QueuePairs::kMtuMin;
  while (mtu < 4096 && mtu * 2 + kMaxFrameOverhead <= max_frame_bytes) mtu *= 2;
  return mtu;
}

}  // namespace

QueuePairs::QueuePairs(const EngineConfig& config, ObjectTables& objects, RandomSource& random, Counters& counters,
                       Observer& observer)
    : frame_most_(config.max_frame_bytes),
      active_mtu_(mtu_for(config.max_frame_bytes)),
      max_frame_(config.max_frame_bytes),
      objects_(objects),
      reorder_pool_(std::make_unique<ReorderPool>(config.reorder_packets, active_mtu_)),
      env_(new TransportEnv{objects.memory(), counters, observer, config.window_packets, config.ack_every,
                            config.ack_delay, config.grant_credits, config.congestion, config.loss_recovery,
                            reorder_pool_.get(), &objects.xrc_queues(), config.direct}),
      table_(config.max_qps, random, config.qpn_blocks) {
  objects.memory().show_to(config.direct);
}

QueuePairs::~QueuePairs() = default;

void QueuePairs::set_link_speed(uint64_t bits_per_second) { env_->congestion.link_bits_per_second = bits_per_second; }

void QueuePairs::frames_only(bool wanted) {
  if (env_->direct != nullptr) env_->direct->pause(wanted);
}

void QueuePairs::set_frame_bytes(uint32_t bytes) {
  max_frame_ = std::min(bytes, frame_most_);
  active_mtu_ = mtu_for(max_frame_);
}

Qp* QueuePairs::create(const QpInit& init, void* user) {
  const QpTable::Slot slot = table_.next_free();
  if (slot.index == QpTable::kNone) return nullptr;
  const uint32_t mtu = init.type == QpType::kRawPacket ? max_frame_ : active_mtu_;
  auto qp = std::make_unique<Qp>(init, slot.qpn, slot.index, mtu, *env_, user);
  Qp* result = qp.get();
  table_.put(slot.index, std::move(qp));
  objects_.hold(init);
  ensure(table_.find(result->qpn()) == result, "a QP is found by its number");
  return result;
}

void QueuePairs::forget_xrc_queue(const SharedReceiveQueue& queue) {
  table_.for_each([&queue](Qp& qp) { qp.forget_xrc_queue(queue); });
}

void QueuePairs::destroy(Qp& qp) {
  ensure(table_.at(qp.index()) == &qp, "a QP knows its slot");
  const QpInit init = qp.init();
  table_.remove(qp.index());
  objects_.release(init);
}

}  // namespace uroce
