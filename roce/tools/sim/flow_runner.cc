#include "sim/flow_runner.h"

#include <algorithm>

#include "base/check.h"
#include "engine/bring_up.h"
#include "engine/object_tables.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace uroce::sim {

namespace {

constexpr uint64_t kIova = 0x100000000;  // the same for all hosts and in every run, because it appears on the wire
constexpr uint32_t kPiecesOut = 4;
constexpr uint32_t kCqEntries = 4096;

uint8_t byte_at(uint32_t offset) { return static_cast<uint8_t>(offset * 7 + offset / 253); }

}  // namespace

FlowRunner::FlowRunner(Network& network, Workload& workload, const FlowOptions& options)
    : network_(network),
      workload_(workload),
      options_(options),
      memory_(new uint8_t[options.shape.piece_bytes]),
      sides_(network.host_count()),
      paths_(size_t{network.host_count()} * network.host_count()) {
  for (uint32_t i = 0; i < options.shape.piece_bytes; i++) memory_[i] = byte_at(i);
  for (uint32_t i = 0; i < network.host_count(); i++) prepare_host(i);
  schedule_next();
}

FlowRunner::~FlowRunner() {
  for (uint32_t i = 0; i < network_.host_count(); i++) network_.host(i).set_program({});
}

void FlowRunner::prepare_host(uint32_t number) {
  HostSide& side = sides_[number];
  side.pd = engine(number).objects().allocate_pd();
  side.cq = engine(number).objects().create_cq(kCqEntries, nullptr);
  side.key = engine(number).memory().register_region(side.pd, memory_.get(), options_.shape.piece_bytes, kIova,
                                                     kLocalWrite | kRemoteWrite | kRemoteRead);
  network_.host(number).set_program([this, &side] {
    // Polled one by one, because the end of a flow takes the completions of its queue pair out of the queue.
    Completion completion;
    while (side.cq->poll({&completion, 1}) == 1) on_completion(completion);
  });
}

bool FlowRunner::memory_intact() const {
  for (uint32_t i = 0; i < options_.shape.piece_bytes; i++) {
    if (memory_[i] != byte_at(i)) return false;
  }
  return true;
}

const std::vector<TopologyLink>& FlowRunner::path(uint32_t from, uint32_t to) {
  auto& links = paths_[size_t{from} * network_.host_count() + to];
  if (links.empty()) links = network_.path(from, to);
  return links;
}

void FlowRunner::schedule_next() {
  const Instant next = workload_.next_start();
  if (next == Instant::never() || next >= scheduled_) return;
  scheduled_ = next;
  network_.world().events().schedule(*this, next, Event{});
}

void FlowRunner::on_event(Event /*event*/, Instant now) {
  if (scheduled_ <= now) scheduled_ = Instant::never();
  while (workload_.next_start() <= now) start_flow(workload_.take(), now);
  schedule_next();
}

/// The queue pair that has been idle longest, or a new one.
bool FlowRunner::take_half(uint32_t host, Half& half) {
  HostSide& side = sides_[host];
  if (side.idle_head < side.idle.size()) {
    half = side.idle[side.idle_head++];
    if (side.idle_head == side.idle.size()) {
      side.idle.clear();
      side.idle_head = 0;
    }
    return true;
  }
  QpInit init;
  init.pd = side.pd;
  init.send_cq = init.recv_cq = side.cq;
  init.cap = {kPiecesOut, 1, 1, 1, 0};
  half = {engine(host).create_qp(init, nullptr), Psn(network_.world().random().next_u32())};
  if (half.qp != nullptr) queue_pairs_++;
  return half.qp != nullptr;
}

void FlowRunner::put_half(uint32_t host, const Half& half) {
  QpAttributes attributes;
  attributes.state = QpState::kReset;
  engine(host).modify_qp(*half.qp, attributes, kAttrState, network_.world().now());
  network_.host(host).wake();
  sides_[host].idle.push_back(half);
}

bool FlowRunner::bring_up(const Active& flow, const FlowSpec& spec, bool asker, Instant now) {
  const uint32_t host = asker ? asker_of(spec) : responder_of(spec);
  const Half& own = asker ? flow.asker : flow.responder;
  const Half& peer = asker ? flow.responder : flow.asker;
  QpAttributes attributes;
  attributes.access = kRemoteWrite | kRemoteRead;
  attributes.av.dgid = Network::host_ip(asker ? responder_of(spec) : asker_of(spec));
  attributes.av.sgid_index = Network::kSgidIndex;
  attributes.av.traffic_class = options_.traffic_class;
  attributes.path_mtu_bytes = options_.shape.mtu;
  attributes.timeout = options_.timeout;
  attributes.retry_cnt = options_.retry_cnt;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = options_.max_rd_atomic;
  attributes.min_rnr_timer = 1;
  attributes.dest_qpn = peer.qp->qpn();
  attributes.sq_psn = attributes.rq_psn = flow.responder.next_psn;
  return uroce::bring_up(engine(host), *own.qp, attributes, QpState::kRts, now) == ModifyResult::kOk;
}

void FlowRunner::start_flow(const FlowSpec& spec, Instant now) {
  ensure(spec.from != spec.to && std::max(spec.from, spec.to) < network_.host_count(), "a flow joins two hosts");
  FlowRecord record;
  record.id = records_.size();
  record.spec = spec;
  if (spec.bytes != FlowSpec::kEndless) {
    record.ideal = ideal_time(path(spec.from, spec.to), options_.shape, spec.kind, spec.bytes);
  }
  records_.push_back(record);
  if (spec.bytes == FlowSpec::kEndless) endless_++;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(active_.size()));
    active_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Active& flow = active_[slot];
  flow = {records_.size() - 1, {}, {}, flow.generation + 1, true, 0, spec.bytes, {}, 0};
  if (!take_half(asker_of(spec), flow.asker) || !take_half(responder_of(spec), flow.responder)) {
    return end_flow(slot, true, "no queue pair left");
  }
  if (!bring_up(flow, spec, true, now) || !bring_up(flow, spec, false, now)) {
    return end_flow(slot, true, "the queue pair does not come up");
  }
  flow.counted_to = flow.responder.next_psn;
  post_pieces(flow, slot);
}

void FlowRunner::post_pieces(Active& flow, uint32_t slot) {
  const FlowSpec& spec = records_[flow.record].spec;
  const uint32_t asker = asker_of(spec);
  while (flow.left != 0 && flow.pieces_out < kPiecesOut) {
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(flow.left, options_.shape.piece_bytes));
    const Sge sge{kIova, bytes, sides_[asker].key};
    SendWr wr;
    wr.wr_id = uint64_t{flow.generation} << 32 | slot;
    wr.opcode = spec.kind == FlowKind::kWrite ? WrOpcode::kRdmaWrite : WrOpcode::kRdmaRead;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = kIova;
    wr.rkey = sides_[responder_of(spec)].key;
    if (engine(asker).post_send(*flow.asker.qp, wr, network_.world().now()) != PostResult::kOk) break;
    flow.pieces_out++;
    if (flow.left != FlowSpec::kEndless) flow.left -= bytes;
  }
  network_.host(asker).wake();
}

void FlowRunner::on_completion(const Completion& completion) {
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  if (slot >= active_.size()) return;
  Active& flow = active_[slot];
  if (!flow.in_use || flow.generation != completion.wr_id >> 32) return;  // belongs to a flow that has failed
  if (completion.status != WcStatus::kSuccess) return end_flow(slot, true, cause_text(completion.cause));
  ensure(flow.pieces_out != 0, "a piece that completes was posted");
  flow.pieces_out--;
  count_arrived(flow);  // now and then, as sequence numbers begin anew
  if (network_.world().now() >= records_[flow.record].spec.stop) flow.left = 0;
  if (flow.left == 0 && flow.pieces_out == 0) return end_flow(slot, false, "");
  post_pieces(flow, slot);
}

void FlowRunner::end_flow(uint32_t slot, bool failed, const char* why) {
  Active& flow = active_[slot];
  ensure(flow.in_use, "a flow ends once");
  FlowRecord& record = records_[flow.record];
  const Instant now = network_.world().now();
  record.end = now;
  record.failed = failed;
  (failed ? failed_ : finished_)++;
  if (record.spec.bytes == FlowSpec::kEndless) {
    endless_--;
  } else if (!failed) {
    finished_bytes_ += record.spec.bytes;
  }
  if (failed && first_failure_.empty()) {
    first_failure_ = "flow " + std::to_string(record.id) + ", " + network_.host_name(record.spec.from) + " to " +
                     network_.host_name(record.spec.to) + ": " + why;
  }
  if (flow.asker.qp != nullptr && flow.responder.qp != nullptr) {
    flow.asker.next_psn = flow.responder.next_psn = flow.asker.qp->requester()->window().next();
  }
  if (flow.asker.qp != nullptr) put_half(asker_of(record.spec), flow.asker);
  if (flow.responder.qp != nullptr) put_half(responder_of(record.spec), flow.responder);
  flow.in_use = false;
  free_slots_.push_back(slot);
  workload_.on_flow_end(FlowRecord(record), now);
  schedule_next();
}

/// Counts at the receiver of the bytes, which is exact to the packet: an ACK stands for many packets.
void FlowRunner::count_arrived(Active& flow) {
  const bool read = records_[flow.record].spec.kind == FlowKind::kRead;
  const Psn next = read ? flow.asker.qp->requester()->window().una() : flow.responder.qp->responder()->epsn();
  flow.arrived_packets += static_cast<uint64_t>(distance(flow.counted_to, next));
  flow.counted_to = next;
}

uint64_t FlowRunner::arrived_bytes() {
  uint64_t bytes = finished_bytes_;
  for_each_active([&](const FlowRecord&, uint64_t arrived) { bytes += arrived; });
  return bytes;
}

void FlowRunner::for_each_active(const std::function<void(const FlowRecord&, uint64_t)>& f) {
  for (Active& flow : active_) {
    if (!flow.in_use) continue;
    count_arrived(flow);
    const FlowRecord& record = records_[flow.record];
    f(record, std::min(flow.arrived_packets * options_.shape.mtu, record.spec.bytes));
  }
}

}  // namespace uroce::sim
