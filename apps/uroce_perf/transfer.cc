#include "transfer.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace uroce::perf {
namespace {

constexpr uint8_t kGidIndex = 1;  // the first --addr; 0 is the link-local address
constexpr uint32_t kReceivesPerSend = 2;

void check(ModifyResult result, const char* what) {
  if (result != ModifyResult::kOk) throw std::runtime_error(std::string(what) + ": " + modify_result_text(result));
}

}  // namespace

std::string Card::to_line() const {
  std::ostringstream line;
  line << to_string(gid) << ' ' << addr << ' ' << rkey;
  for (const uint32_t qpn : qpns) line << ' ' << qpn;
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
  for (uint32_t qpn; line >> qpn;) card.qpns.push_back(qpn);
  return card;
}

Transfer::Transfer(Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint), options_(options), lanes_(options.qps) {
  EngineLock engine(endpoint_);
  const size_t bytes = size_t{lane_bytes()} * options.qps;
  memory_ = std::make_unique<uint8_t[]>(bytes);
  pd_ = engine->allocate_pd();
  const auto base = reinterpret_cast<uint64_t>(memory_.get());
  key_ = engine->memory().register_region(pd_, memory_.get(), bytes, base,
                                          kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic);
  cq_ = engine->create_cq(options.qps * options.depth * (1 + kReceivesPerSend), nullptr);
  if (key_ == 0 || cq_ == nullptr) throw std::runtime_error("no memory for queues");
  for (Lane& lane : lanes_) create_lane(lane);
  for (uint32_t i = 0; i < options.qps && options.opcode == WrOpcode::kSend; i++) {
    for (uint32_t n = 0; n < options.depth * kReceivesPerSend; n++) post_receive(i);
  }
}

Transfer::~Transfer() {
  EngineLock engine(endpoint_);
  for (const Lane& lane : lanes_) engine->destroy_qp(lane.qp, endpoint_.now());
  engine->destroy_cq(cq_);
  engine->memory().deregister(key_);
  engine->deallocate_pd(pd_);
}

void Transfer::create_lane(Lane& lane) {
  Engine& engine = endpoint_.engine();
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = options_.depth;
  init.cap.max_recv_wr = options_.depth * kReceivesPerSend;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.sq_sig_all = true;
  lane.qp = engine.create_qp(init, nullptr);
  if (lane.qp == nullptr) throw std::runtime_error("no memory for queue pairs");
  lane.posted_at_ns.resize(options_.depth);
  QpAttributes a;
  a.state = QpState::kInit;
  a.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
  check(engine.modify_qp(*lane.qp, a, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags, endpoint_.now()),
        "INIT");
}

Card Transfer::card() const {
  Card card;
  card.gid = endpoint_.engine().gids()[kGidIndex].ip;
  card.addr = reinterpret_cast<uint64_t>(memory_.get());
  card.rkey = key_;
  for (const Lane& lane : lanes_) card.qpns.push_back(lane.qp->qpn());
  return card;
}

void Transfer::connect(const Card& peer) {
  if (peer.qpns.size() != lanes_.size()) throw std::runtime_error("the other side has other options");
  peer_ = peer;
  EngineLock engine(endpoint_);
  for (size_t i = 0; i < lanes_.size(); i++) {
    QpAttributes a;
    a.state = QpState::kRtr;
    a.av.dgid = peer.gid;
    a.av.sgid_index = kGidIndex;
    a.path_mtu_bytes = engine->active_mtu_bytes();
    a.dest_qpn = peer.qpns[i];
    a.rq_psn = Psn(peer.qpns[i]);  // each side starts counting at its QPN
    a.max_dest_rd_atomic = 16;
    check(engine->modify_qp(
              *lanes_[i].qp, a,
              kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
              endpoint_.now()),
          "RTR");
    a.state = QpState::kRts;
    a.sq_psn = Psn(lanes_[i].qp->qpn());
    a.max_rd_atomic = 16;
    check(engine->modify_qp(*lanes_[i].qp, a,
                            kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic,
                            endpoint_.now()),
          "RTS");
  }
}

void Transfer::post_receive(uint32_t lane_index) {
  const Sge sge{reinterpret_cast<uint64_t>(memory_.get()) + uint64_t{lane_index} * lane_bytes(), lane_bytes(), key_};
  RecvWr wr;
  wr.wr_id = lane_index;
  wr.sges = &sge;
  wr.num_sge = 1;
  if (endpoint_.engine().post_recv(*lanes_[lane_index].qp, wr, endpoint_.now()) != PostResult::kOk) {
    throw std::runtime_error("a receive was refused");
  }
}

void Transfer::post_one(Lane& lane, uint32_t lane_index, Instant now) {
  const uint64_t offset = uint64_t{lane_index} * lane_bytes();
  const Sge sge{reinterpret_cast<uint64_t>(memory_.get()) + offset, options_.size, key_};
  SendWr wr;
  wr.wr_id = lane.next * lanes_.size() + lane_index;
  wr.opcode = options_.opcode;
  wr.flags = kSendSignaled;
  wr.sges = &sge;
  wr.num_sge = 1;
  wr.remote_addr = peer_.addr + offset;
  wr.rkey = peer_.rkey;
  wr.compare_add = 1;
  if (endpoint_.engine().post_send(*lane.qp, wr, now) != PostResult::kOk)
    throw std::runtime_error("a post was refused");
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
  const EngineLock owner(endpoint_);
  endpoint_.drive();
  cq_->drain(256, [&](const Completion& completion) {
    if (completion.status == WcStatus::kSuccess) post_receive(static_cast<uint32_t>(completion.wr_id));
  });
}

}  // namespace uroce::perf
