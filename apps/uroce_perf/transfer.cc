#include "transfer.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace uroce::perf {
namespace {

constexpr uint32_t kReceivesPerSend = 2;
constexpr uint32_t kAccess = kRemoteWrite | kRemoteRead | kRemoteAtomic;

void check(ModifyResult result, const char* to) {
  if (result == ModifyResult::kOk) return;
  throw std::runtime_error(std::string("a queue pair does not get to ") + to + ": " + modify_result_text(result));
}

}  // namespace

std::string Card::to_line() const {
  std::ostringstream line;
  line << to_string(gid) << ' ' << addr << ' ' << rkey;
  for (const CardQp& qp : qpns) line << ' ' << qp.number << ' ' << qp.psn.value();
  return line.str();
}

Card Card::from_line(const std::string& text) {
  std::istringstream line(text);
  Card card;
  std::string gid;
  line >> gid >> card.addr >> card.rkey;
  const auto ip = parse_ip(gid);
  if (!line || !ip) throw std::runtime_error("the other side is not uroce-perf");
  card.gid = *ip;
  for (uint32_t number, psn; line >> number >> psn;) card.qpns.push_back({number, Psn(psn)});
  return card;
}

Transfer::Transfer(rdma::Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint), options_(options), lanes_(options.qps) {
  const rdma::Endpoint::Ownership owner(endpoint_);
  rdma::Engine& engine = endpoint_.engine();
  const size_t bytes = size_t{lane_bytes()} * options.qps;
  memory_ = std::make_unique<uint8_t[]>(bytes);
  pd_ = engine.allocate_pd();
  region_ = engine.register_memory(pd_, memory_.get(), bytes, kAccess | kLocalWrite);
  cq_ = engine.create_cq(options.qps * options.depth * (1 + kReceivesPerSend));
  if (!region_ || !cq_) throw std::runtime_error("no memory for queues");
  for (Lane& lane : lanes_) create_lane(lane);
  for (uint32_t i = 0; i < options.qps && options.opcode == WrOpcode::kSend; i++) {
    for (uint32_t n = 0; n < options.depth * kReceivesPerSend; n++) post_receive(i);
  }
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
  lane.qp = endpoint_.engine().create_qp(how);
  if (!lane.qp) throw std::runtime_error("no memory for queue pairs");
  lane.posted_at_ns.resize(options_.depth);
  check(lane.qp.initialize(kAccess), "INIT");
}

Card Transfer::card() const {
  Card card;
  card.gid = lanes_[0].qp.address().gid;
  card.addr = region_.address();
  card.rkey = region_.rkey();
  for (const Lane& lane : lanes_) card.qpns.push_back({lane.qp.qp_num(), lane.qp.address().psn});
  return card;
}

void Transfer::connect(const Card& peer) {
  if (peer.qpns.size() != lanes_.size()) throw std::runtime_error("the other side has other options");
  peer_ = peer;
  const rdma::Endpoint::Ownership owner(endpoint_);
  for (size_t i = 0; i < lanes_.size(); i++) {
    const rdma::QueuePairAddress address{peer.gid, peer.qpns[i].number, peer.qpns[i].psn};
    check(lanes_[i].qp.connect(address), "RTS");
  }
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
  wr.remote_addr = peer_.addr + offset;
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
