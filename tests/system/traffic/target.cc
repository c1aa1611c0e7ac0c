// What strangers' packets are aimed at: a program with as many queue pairs as a test wants, each connected to a peer
// that the test plays itself. Commands come by standard input, one a line; each is answered by one line of JSON.
//
//   memory                                         the region that peers may use: {"va", "rkey", "bytes"}
//   make TYPE COUNT STATE GID_INDEX PEER_GID       queue pairs of TYPE rc|uc|ud, in STATE reset|init|rtr|rts|error,
//                                                  each with kReceives receives: {"group", "qpns"}
//   post GROUP WHAT BYTES                          one request on each of them: send, write, read or atomic
//   states GROUP                                   {"states": [ibv_qp_state...]}
//   poll                                           {"completions": [[qpn, opcode, status, byte_len]...]}
//   untouched                                      is all memory but the peers' region as it was? {"untouched"}
//   drop GROUP
//
// The N-th queue pair made expects a peer with the number kPeerQpn + N, packets from kTheirPsn on, and counts its own
// from kOurPsn on. Nothing is ever sent again by a timer.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr size_t kRegion = 8192;   // for the peers
constexpr size_t kMargin = 65536;  // before and after it, and not registered
constexpr size_t kScratch = 8192;  // for received data, and for answers
constexpr uint8_t kUntouched = 0xa5;
constexpr uint32_t kReceives = 2;
constexpr uint32_t kPeerQpn = 0x100000;
constexpr uint32_t kTheirPsn = 0x100;
constexpr uint32_t kOurPsn = 0x200;
constexpr uint32_t kQkey = 0x11111111;
constexpr int kCompletions = 32768;
constexpr int kFlushGlobal = 1 << 8;  // IBV_ACCESS_FLUSH_GLOBAL, in headers since release 45

void require(bool good, const char* what) {
  if (good) return;
  std::printf("{\"error\": \"%s\"}\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

class Target {
 public:
  Target() : memory_(kMargin + kRegion + kMargin, kUntouched), scratch_(kScratch) {
    ibv_device** devices = ibv_get_device_list(nullptr);
    require(devices != nullptr && *devices != nullptr, "no device");
    context_ = ibv_open_device(*devices);
    require(context_ != nullptr, "cannot open the device");
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, kCompletions, nullptr, nullptr, 0);
    require(pd_ != nullptr && cq_ != nullptr, "no PD or CQ");
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                    IBV_ACCESS_REMOTE_ATOMIC | kFlushGlobal;
    region_ = ibv_reg_mr(pd_, region(), kRegion, all);
    const int local = IBV_ACCESS_LOCAL_WRITE;
    scratch_mr_ = ibv_reg_mr(pd_, scratch_.data(), kScratch, local);
    require(region_ != nullptr && scratch_mr_ != nullptr, "cannot register memory");
  }

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "memory") return describe_memory();
    if (command == "make") return make(words);
    if (command == "post") return post(words);
    if (command == "states") return states(words);
    if (command == "poll") return poll();
    if (command == "untouched") return untouched();
    if (command == "drop") return drop(words);
    return R"({"error": "no such command"})";
  }

 private:
  using Group = std::vector<ibv_qp*>;

  uint8_t* region() { return memory_.data() + kMargin; }

  std::string describe_memory() {
    std::ostringstream out;
    out << "{\"va\": " << reinterpret_cast<uint64_t>(region()) << ", \"rkey\": " << region_->rkey
        << ", \"bytes\": " << kRegion << "}";
    return out.str();
  }

  std::string make(std::istringstream& words) {
    std::string type;
    std::string state;
    std::string peer;
    uint32_t count = 0;
    int gid_index = 0;
    words >> type >> count >> state >> gid_index >> peer;
    ibv_gid gid{};
    require(inet_pton(AF_INET6, peer.c_str(), gid.raw) == 1, "make: no such peer GID");
    Group& group = groups_[++last_group_];
    std::ostringstream out;
    out << "{\"group\": " << last_group_ << ", \"first_peer_qpn\": " << kPeerQpn + made_ << ", \"qpns\": [";
    for (uint32_t i = 0; i < count; i++) {
      group.push_back(make_one(type, state, gid_index, gid));
      out << (i == 0 ? "" : ", ") << group.back()->qp_num;
    }
    out << "]}";
    return out.str();
  }

  ibv_qp* make_one(const std::string& type, const std::string& state, int gid_index, const ibv_gid& gid) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {2, kReceives, 1, 1, 0};
    init.qp_type = type == "rc" ? IBV_QPT_RC : type == "uc" ? IBV_QPT_UC : IBV_QPT_UD;
    init.sq_sig_all = 1;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    require(qp != nullptr, "cannot create a QP");
    const uint32_t peer = kPeerQpn + made_++;
    if (state == "reset") return qp;
    to_init(qp);
    for (uint32_t i = 0; i < kReceives; i++) {
      ibv_sge sge{reinterpret_cast<uint64_t>(scratch_.data()), kScratch / 2, scratch_mr_->lkey};
      ibv_recv_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      require(ibv_post_recv(qp, &wr, &bad) == 0, "cannot post a receive");
    }
    if (state == "init") return qp;
    to_rtr(qp, gid_index, gid, peer);
    if (state != "rtr") to_rts(qp);
    if (state == "error") to_error(qp);
    return qp;
  }

  static void to_init(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (qp->qp_type == IBV_QPT_UD) {
      attr.qkey = kQkey;
      mask |= IBV_QP_QKEY;
    } else {
      attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (qp->qp_type == IBV_QPT_RC)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | kFlushGlobal;
      mask |= IBV_QP_ACCESS_FLAGS;
    }
    require(ibv_modify_qp(qp, &attr, mask) == 0, "cannot go to INIT");
  }

  static void to_rtr(ibv_qp* qp, int gid_index, const ibv_gid& gid, uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_256;
    attr.dest_qp_num = peer;
    attr.rq_psn = kTheirPsn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    require(ibv_modify_qp(qp, &attr, mask) == 0, "cannot go to RTR");
  }

  static void to_rts(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = kOurPsn;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    attr.timeout = 0;  // never
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type == IBV_QPT_RC) {
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    require(ibv_modify_qp(qp, &attr, mask) == 0, "cannot go to RTS");
  }

  static void to_error(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    require(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "cannot go to ERR");
  }

  Group& group(std::istringstream& words) {
    int number = 0;
    words >> number;
    const auto found = groups_.find(number);
    require(found != groups_.end(), "no such group");
    return found->second;
  }

  std::string post(std::istringstream& words) {
    Group& group = this->group(words);
    std::string what;
    uint32_t bytes = 0;
    words >> what >> bytes;
    ibv_sge sge{reinterpret_cast<uint64_t>(scratch_.data()) + kScratch / 2, bytes, scratch_mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = what == "send"    ? IBV_WR_SEND
                : what == "write" ? IBV_WR_RDMA_WRITE
                : what == "read"  ? IBV_WR_RDMA_READ
                                  : IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (what == "atomic") {
      wr.wr.atomic.remote_addr = 0x1000;
      wr.wr.atomic.compare_add = 1;
    } else {
      wr.wr.rdma.remote_addr = 0x1000;
    }
    for (ibv_qp* qp : group) {
      ibv_send_wr* bad = nullptr;
      require(ibv_post_send(qp, &wr, &bad) == 0, "cannot post a request");
    }
    return "{}";
  }

  std::string states(std::istringstream& words) {
    std::ostringstream out;
    out << "{\"states\": [";
    const char* separator = "";
    for (ibv_qp* qp : group(words)) {
      ibv_qp_attr attr{};
      ibv_qp_init_attr init{};
      require(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "cannot query a QP");
      out << separator << attr.qp_state;
      separator = ", ";
    }
    out << "]}";
    return out.str();
  }

  std::string poll() {
    std::ostringstream out;
    out << "{\"completions\": [";
    const char* separator = "";
    ibv_wc wcs[32];
    for (int count = ibv_poll_cq(cq_, 32, wcs); count > 0; count = ibv_poll_cq(cq_, 32, wcs)) {
      for (int i = 0; i < count; i++) {
        const ibv_wc& wc = wcs[i];
        out << separator << "[" << wc.qp_num << ", " << wc.opcode << ", " << wc.status << ", " << wc.byte_len << "]";
        separator = ", ";
      }
    }
    out << "]}";
    return out.str();
  }

  std::string untouched() {
    const auto same = [](uint8_t byte) { return byte == kUntouched; };
    const auto begin = memory_.begin();
    const auto margin = static_cast<std::ptrdiff_t>(kMargin);
    const bool good =
        std::all_of(begin, begin + margin, same) && std::all_of(memory_.end() - margin, memory_.end(), same);
    return good ? R"({"untouched": true})" : R"({"untouched": false})";
  }

  std::string drop(std::istringstream& words) {
    Group& group = this->group(words);
    for (ibv_qp* qp : group) require(ibv_destroy_qp(qp) == 0, "cannot destroy a QP");
    group.clear();
    return "{}";
  }

  std::vector<uint8_t> memory_;
  std::vector<uint8_t> scratch_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_mr* scratch_mr_ = nullptr;
  std::map<int, Group> groups_;
  int last_group_ = 0;
  uint32_t made_ = 0;
};

}  // namespace

int main() {
  Target target;
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%s\n", target.answer(line).c_str());
    std::fflush(stdout);
  }
  return 0;
}
