#include "transfer.h"

#include <cstring>
#include <stdexcept>

namespace uroce::perf {
namespace {

constexpr uint32_t kReceivesPerSend = 2;
constexpr Duration kPatience = milliseconds(30'000);  // the other side may begin later
constexpr uint32_t kAccess = kRemoteWrite | kRemoteRead | kRemoteAtomic;

void check(ModifyResult result, const char* to) {
  if (result == ModifyResult::kOk) return;
  throw std::runtime_error(std::string("a queue pair does not get to ") + to + ": " + modify_result_text(result));
}

}  // namespace

Plan Plan::of(const Options& options) {
  Plan plan;
  plan.opcode = static_cast<uint32_t>(options.opcode);
  plan.size = options.size;
  plan.depth = options.depth;
  plan.qps = options.qps;
  return plan;
}

void Plan::apply_to(Options& options) const {
  const bool good = std::memcmp(magic, Plan{}.magic, sizeof magic) == 0 &&
                    opcode <= static_cast<uint32_t>(WrOpcode::kFetchAdd) && size != 0 && size <= 1u << 30 &&
                    depth != 0 && depth <= 4096 && qps != 0 && qps <= 1024;
  if (!good) throw std::runtime_error("the other side is not a uroce-perf of this version");
  options.opcode = static_cast<WrOpcode>(opcode);
  options.size = size;
  options.depth = depth;
  options.qps = qps;
}

Transfer::Transfer(rdma::Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint), options_(options), lanes_(options.qps) {
  const rdma::Endpoint::Ownership owner(endpoint_);
  rdma::Device& device = endpoint_.device();
  const size_t bytes = size_t{lane_bytes()} * options.qps;
  memory_ = std::make_unique<uint8_t[]>(bytes);
  pd_ = device.allocate_pd();
  region_ = device.register_memory(pd_, memory_.get(), bytes, kAccess | kLocalWrite);
  cq_ = device.create_cq(options.qps * options.depth * (1 + kReceivesPerSend));
  if (!region_ || !cq_) throw std::runtime_error("no memory for queues");
  for (Lane& lane : lanes_) create_lane(lane);
}

Transfer::~Transfer() {
  const rdma::Endpoint::Ownership owner(endpoint_);
  lanes_.clear();
  cq_ = {};
  region_ = {};
}

void Transfer::create_lane(Lane& lane) {
  rdma::QueuePairOptions how{.pd = pd_, .send_cq = &cq_, .recv_cq = &cq_, .sq_sig_all = true};
  how.cap.max_send_wr = options_.depth;
  how.cap.max_recv_wr = options_.depth * kReceivesPerSend;
  how.cap.max_send_sge = how.cap.max_recv_sge = 1;
  lane.qp = endpoint_.device().create_qp(how);
  if (!lane.qp) throw std::runtime_error("no memory for queue pairs");
  lane.posted_at_ns.resize(options_.depth);
  check(lane.qp.initialize(kAccess), "INIT");
  const auto index = static_cast<uint32_t>(&lane - lanes_.data());
  for (uint32_t n = 0; n < how.cap.max_recv_wr && options_.opcode == WrOpcode::kSend; n++) post_receive(index);
}

/// False when the peer does not listen yet.
bool Transfer::connect_first() {
  Lane& lane = lanes_[0];
  std::string error;
  const Plan plan = Plan::of(options_);
  lane.connection = endpoint_.connections().connect(lane.qp, options_.peer, options_.rdma_port, error,
                                                    {.private_data = rdma::bytes_of(plan)});
  if (lane.connection) return true;
  if (endpoint_.now() >= give_up_) throw std::runtime_error(error);
  lane.qp = {};
  create_lane(lane);
  return false;
}

void Transfer::connect() {
  const rdma::Endpoint::Ownership owner(endpoint_);
  give_up_ = endpoint_.now() + kPatience;
  while (!connect_first()) {
  }
  peer_ = *lanes_[0].connection.private_data_as<rdma::RemoteMemory>();
  for (size_t i = 1; i < lanes_.size(); i++) {
    Lane& lane = lanes_[i];
    std::string error;
    lane.connection = endpoint_.connections().connect(lane.qp, options_.peer, options_.rdma_port, error);
    if (!lane.connection) throw std::runtime_error(error);
  }
}

void Transfer::accept(rdma::Listener& listener) {
  const rdma::Endpoint::Ownership owner(endpoint_);
  const rdma::RemoteMemory own = region_.remote();
  for (Lane& lane : lanes_) {
    std::string error;
    lane.connection = listener.accept(lane.qp, error, {.private_data = rdma::bytes_of(own), .patience = kPatience});
    if (!lane.connection) throw std::runtime_error(error);
  }
}

bool Transfer::connected() {
  const rdma::Endpoint::Ownership owner(endpoint_);
  return bool(lanes_[0].connection);
}

void Transfer::post_receive(uint32_t lane_index) {
  const Sge sge = region_.sge(uint64_t{lane_index} * lane_bytes(), lane_bytes());
  RecvWr wr;
  wr.wr_id = lane_index;
  wr.sges = &sge;
  wr.num_sge = 1;
  if (lanes_[lane_index].qp.post_recv(wr) != PostResult::kOk) {
    throw std::runtime_error("a receive was refused");
  }
}

void Transfer::post_one(Lane& lane, uint32_t lane_index, Instant now) {
  const uint64_t offset = uint64_t{lane_index} * lane_bytes();
  const Sge sge = region_.sge(offset, options_.size);
  SendWr wr;
  wr.wr_id = lane.next * lanes_.size() + lane_index;
  wr.opcode = options_.opcode;
  wr.flags = kSendSignaled;
  wr.sges = &sge;
  wr.num_sge = 1;
  wr.remote_addr = peer_.address + offset;
  wr.rkey = peer_.rkey;
  wr.compare_add = 1;
  if (lane.qp.post_send(wr) != PostResult::kOk) throw std::runtime_error("a post was refused");
  lane.posted_at_ns[lane.next++ % options_.depth] = now.ns;
  lane.under_way++;
}

void Transfer::fill(uint64_t& left, Instant now) {
  for (uint32_t i = 0; i < lanes_.size(); i++) {
    while (left != 0 && lanes_[i].under_way < options_.depth) {
      post_one(lanes_[i], i, now);
      left--;
    }
  }
}

Transfer::Lane& Transfer::completed(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) {
    throw std::runtime_error(std::string(wc_status_name(completion.status)) + ": " + cause_text(completion.cause));
  }
  return lanes_[completion.wr_id % lanes_.size()];
}

void Transfer::serve() {
  const rdma::Endpoint::Ownership owner(endpoint_);
  endpoint_.drive();
  Completion completions[kPolled];
  const uint32_t count = cq_.poll(completions);
  for (uint32_t i = 0; i < count; i++) {
    if (completions[i].status == WcStatus::kSuccess) post_receive(static_cast<uint32_t>(completions[i].wr_id));
  }
}

}  // namespace uroce::perf
