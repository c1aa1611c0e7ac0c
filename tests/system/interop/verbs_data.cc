// A program for both ends that looks at every byte: RDMA WRITE (with and without immediate data), READ, SEND and
// atomics over a reliable connection. The client drives; what the server has to prepare or check it is told over TCP.
//
//   verbs_data -d DEVICE -g GID_INDEX -p TCP_PORT [-m MTU] [-n ROUNDS] [SERVER]
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr size_t kArea = size_t{1} << 20;
constexpr size_t kMargin = 64;  // around the transferred bytes, and must not change
constexpr uint8_t kUntouched = 0xa5;
constexpr uint32_t kOutstandingReads = 4;
constexpr uint32_t kDepth = 64;
constexpr uint32_t kPsn = 0xfffff0;  // wraps soon

[[noreturn]] void fail(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void require(bool good, const std::string& what) {
  if (!good) fail(what);
}

struct Options {
  std::string device;
  int gid_index = 0;
  std::string tcp_port = "18515";
  int mtu = 1024;
  int rounds = 3;
  std::string server;
};

enum class Task : uint32_t { kClear, kFill, kExpect, kReceive, kReceived, kCounter, kCounterIs, kBye };

/// What the server does with its area.
struct Command {
  Task task = Task::kBye;
  uint32_t size = 0;
  uint32_t seed = 0;  // of the pattern; or the value of the counter
  uint32_t immediate = 0;
  uint32_t of_write = 0;  // the receive is completed by a WRITE with immediate data
};

struct Peer {
  uint32_t qpn = 0;
  uint32_t rkey = 0;
  uint64_t address = 0;
  std::array<uint8_t, 16> gid{};
};

class Talk {
 public:
  explicit Talk(const Options& options) : fd_(options.server.empty() ? accept_one(options) : reach(options)) {}
  template <typename T>
  void send(const T& value) {
    require(::send(fd_, &value, sizeof value, 0) == static_cast<ssize_t>(sizeof value), "TCP send");
  }
  template <typename T>
  T receive() {
    T value;
    require(recv(fd_, &value, sizeof value, MSG_WAITALL) == static_cast<ssize_t>(sizeof value), "the peer is gone");
    return value;
  }

 private:
  static int accept_one(const Options& options) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<uint16_t>(std::stoi(options.tcp_port)));
    require(bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 && listen(listener, 1) == 0, "listen");
    const int fd = accept(listener, nullptr, nullptr);
    require(fd >= 0, "accept");
    close(listener);
    return fd;
  }
  static int reach(const Options& options) {
    addrinfo* found = nullptr;
    require(getaddrinfo(options.server.c_str(), options.tcp_port.c_str(), nullptr, &found) == 0, "server's address");
    const int fd = socket(found->ai_family, SOCK_STREAM, 0);
    require(connect(fd, found->ai_addr, found->ai_addrlen) == 0, "connect");
    freeaddrinfo(found);
    return fd;
  }
  int fd_;
};

uint8_t pattern(uint32_t seed, size_t at) { return static_cast<uint8_t>((seed + at) * 2654435761U >> 13U); }

ibv_send_wr request(ibv_wr_opcode opcode) {
  ibv_send_wr wr{};
  wr.opcode = opcode;
  return wr;
}

class Endpoint {
 public:
  explicit Endpoint(const Options& options) : memory_(kArea, kUntouched) {
    ibv_device** devices = ibv_get_device_list(nullptr);
    require(devices != nullptr, "no devices");
    ibv_device** chosen = devices;
    while (*chosen != nullptr && !options.device.empty() && options.device != ibv_get_device_name(*chosen)) chosen++;
    require(*chosen != nullptr, "no such device");
    context_ = ibv_open_device(*chosen);
    require(context_ != nullptr, "open the device");
    ibv_pd* pd = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 2 * kDepth, nullptr, nullptr, 0);
    require(pd != nullptr && cq_ != nullptr, "PD and CQ");
    mr_ = ibv_reg_mr(
        pd, memory_.data(), kArea,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    require(mr_ != nullptr, "register memory");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {kDepth, kDepth, 4, 4, 0};
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd, &init);
    require(qp_ != nullptr, "create the QP");
  }

  void connect(const Options& options, Talk& talk) {
    ibv_gid gid{};
    require(ibv_query_gid(context_, 1, options.gid_index, &gid) == 0, "query the GID");
    Peer self{qp_->qp_num, mr_->rkey, reinterpret_cast<uint64_t>(memory_.data()), {}};
    std::copy(std::begin(gid.raw), std::end(gid.raw), self.gid.begin());
    talk.send(self);
    peer_ = talk.receive<Peer>();
    to_init();
    to_receive(options);
    to_send();
    talk.send(uint32_t{1});
    talk.receive<uint32_t>();  // both can receive
  }

  uint8_t* at(size_t offset) { return memory_.data() + offset; }
  void clear() { std::fill(memory_.begin(), memory_.end(), kUntouched); }
  void fill(uint32_t size, uint32_t seed) {
    for (uint32_t i = 0; i < size; i++) memory_[kMargin + i] = pattern(seed, i);
  }
  void expect(uint32_t size, uint32_t seed, const char* what) {
    for (size_t i = 0; i < size; i++) {
      if (memory_[kMargin + i] != pattern(seed, i)) {
        fail(std::string(what) + ": wrong byte " + std::to_string(i) + " of " + std::to_string(size));
      }
    }
    for (size_t i = 1; i <= kMargin; i++) {
      require(memory_[kMargin - i] == kUntouched && memory_[kMargin + size + i - 1] == kUntouched,
              std::string(what) + ": wrote beside its " + std::to_string(size) + " bytes");
    }
    verified_bytes += size;
  }

  ibv_sge piece(size_t offset, uint32_t size) { return {reinterpret_cast<uint64_t>(at(offset)), size, mr_->lkey}; }

  /// The area in three pieces of unequal size.
  std::vector<ibv_sge> pieces(uint32_t size) {
    const uint32_t first = size / 3;
    const uint32_t second = size / 7;
    return {piece(kMargin, first), piece(kMargin + first, second),
            piece(kMargin + first + second, size - first - second)};
  }

  void post_receive(uint32_t size) {
    std::vector<ibv_sge> list = pieces(size);
    ibv_recv_wr wr{};
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(qp_, &wr, &bad) == 0, "post a receive");
  }

  /// `shape` has the opcode and its attributes.
  void post(ibv_send_wr shape, std::span<ibv_sge> list, uint64_t remote_offset = kMargin) {
    shape.sg_list = list.data();
    shape.num_sge = static_cast<int>(list.size());
    shape.send_flags = IBV_SEND_SIGNALED;
    if (shape.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || shape.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      shape.wr.atomic.remote_addr = peer_.address + remote_offset;
      shape.wr.atomic.rkey = peer_.rkey;
    } else {
      shape.wr.rdma.remote_addr = peer_.address + remote_offset;
      shape.wr.rdma.rkey = peer_.rkey;
    }
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(qp_, &shape, &bad) == 0, "post a request");
  }

  ibv_wc complete(const char* what) {
    ibv_wc wc{};
    int count = 0;
    while ((count = ibv_poll_cq(cq_, 1, &wc)) == 0) {
    }
    require(count == 1, "poll");
    require(wc.status == IBV_WC_SUCCESS, std::string(what) + ": status " + std::to_string(wc.status));
    completions++;
    return wc;
  }

  uint64_t verified_bytes = 0;
  uint64_t completions = 0;

 private:
  void to_init() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    require(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
            "INIT");
  }
  void to_receive(const Options& options) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_256;
    for (int bytes = 256; bytes < options.mtu; bytes *= 2) attr.path_mtu = static_cast<ibv_mtu>(attr.path_mtu + 1);
    attr.dest_qp_num = peer_.qpn;
    attr.rq_psn = kPsn;
    attr.max_dest_rd_atomic = kOutstandingReads;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(options.gid_index);
    std::copy(peer_.gid.begin(), peer_.gid.end(), std::begin(attr.ah_attr.grh.dgid.raw));
    require(ibv_modify_qp(qp_, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
            "RTR");
  }
  void to_send() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.sq_psn = kPsn;
    attr.max_rd_atomic = kOutstandingReads;
    require(ibv_modify_qp(qp_, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC) == 0,
            "RTS");
  }

  std::vector<uint8_t> memory_;
  ibv_context* context_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Peer peer_;
};

void check_receive(Endpoint& end, const Command& command) {
  const ibv_wc wc = end.complete("receive");
  require((wc.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(wc.imm_data) == command.immediate, "immediate data");
  require(wc.byte_len == command.size, "length of a receive: " + std::to_string(wc.byte_len));
  require(wc.opcode == (command.of_write != 0 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV), "opcode of a receive");
  end.expect(command.size, command.seed, "receive");
}

void serve(Endpoint& end, Talk& talk) {
  for (Command command; (command = talk.receive<Command>()).task != Task::kBye; talk.send(uint32_t{1})) {
    uint64_t counter = command.seed;
    switch (command.task) {
      case Task::kClear:
        end.clear();
        break;
      case Task::kFill:
        end.fill(command.size, command.seed);
        break;
      case Task::kExpect:
        end.expect(command.size, command.seed, "WRITE");
        break;
      case Task::kReceive:
        end.post_receive(command.size);
        break;
      case Task::kReceived:
        check_receive(end, command);
        break;
      case Task::kCounter:
        std::memcpy(end.at(kMargin), &counter, sizeof counter);
        break;
      case Task::kCounterIs:
        std::memcpy(&counter, end.at(kMargin), sizeof counter);
        require(counter == command.seed, "atomics: the counter is " + std::to_string(counter));
        break;
      case Task::kBye:
        break;
    }
  }
}

class Client {
 public:
  Client(Endpoint& end, Talk& talk) : end_(end), talk_(talk) {}

  void write(uint32_t size, uint32_t seed) {
    both_clear();
    end_.fill(size, seed);
    auto list = end_.pieces(size);
    end_.post(request(IBV_WR_RDMA_WRITE), list);
    end_.complete("WRITE");
    ask({Task::kExpect, size, seed});
  }

  void with_immediate(ibv_wr_opcode opcode, uint32_t size, uint32_t seed) {
    both_clear();
    ask({Task::kReceive, size});
    end_.fill(size, seed);
    auto list = end_.pieces(size);
    ibv_send_wr wr = request(opcode);
    wr.imm_data = htonl(seed ^ 0x5a5a5a5aU);
    end_.post(wr, list);
    end_.complete("with immediate data");
    ask({Task::kReceived, size, seed, seed ^ 0x5a5a5a5aU, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 1U : 0U});
  }

  void read(uint32_t size, uint32_t seed) {
    both_clear();
    ask({Task::kFill, size, seed});
    auto list = end_.pieces(size);
    end_.post(request(IBV_WR_RDMA_READ), list);
    end_.complete("READ");
    end_.expect(size, seed, "READ");
  }

  /// Many small WRITEs at once, and a READ behind them, which must find them all.
  void writes_then_read(uint32_t piece_bytes, uint32_t seed) {
    both_clear();
    constexpr uint32_t kPieces = 32;
    const uint32_t size = kPieces * piece_bytes;
    end_.fill(size, seed);
    for (uint32_t i = 0; i < kPieces; i++) {
      std::array list{end_.piece(kMargin + i * piece_bytes, piece_bytes)};
      end_.post(request(IBV_WR_RDMA_WRITE), list, kMargin + i * piece_bytes);
    }
    const size_t there = kArea / 2;
    std::array list{end_.piece(there, size)};
    end_.post(request(IBV_WR_RDMA_READ), list);
    for (uint32_t i = 0; i <= kPieces; i++) end_.complete("WRITEs and a READ");
    require(std::equal(end_.at(there), end_.at(there + size), end_.at(kMargin)),
            "a READ did not see the WRITEs before it");
    ask({Task::kExpect, size, seed});
  }

  /// Each must be executed once, in order: it returns what the one before it left.
  void atomics(uint32_t start) {
    ask({Task::kCounter, 0, start});
    constexpr uint32_t kCount = 48;
    for (uint32_t i = 0; i < kCount; i++) {
      std::array list{end_.piece(kMargin + i * 8, 8)};
      const bool swap = i % 3 == 2;
      ibv_send_wr wr = request(swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD);
      wr.wr.atomic.compare_add = swap ? start + i : 1;
      wr.wr.atomic.swap = start + i + 1;
      end_.post(wr, list);
    }
    for (uint32_t i = 0; i < kCount; i++) end_.complete("atomics");
    for (uint32_t i = 0; i < kCount; i++) {
      uint64_t returned = 0;
      std::memcpy(&returned, end_.at(kMargin + i * 8), sizeof returned);
      require(returned == start + i, "atomic " + std::to_string(i) + " returned " + std::to_string(returned));
    }
    std::array list{end_.piece(kMargin, 8)};
    ibv_send_wr refused = request(IBV_WR_ATOMIC_CMP_AND_SWP);
    refused.wr.atomic.compare_add = start;  // that is no longer the value
    end_.post(refused, list);
    end_.complete("atomic");
    ask({Task::kCounterIs, 0, start + kCount});
  }

  void bye() { talk_.send(Command{}); }

 private:
  void ask(const Command& command) {
    talk_.send(command);
    talk_.receive<uint32_t>();
  }
  void both_clear() {
    end_.clear();
    ask({Task::kClear});
  }
  Endpoint& end_;
  Talk& talk_;
};

void drive(Client& client, const Options& options) {
  const auto mtu = static_cast<uint32_t>(options.mtu);
  uint32_t seed = 1;
  for (int round = 0; round < options.rounds; round++) {
    for (const uint32_t size : {0U, 1U, 7U, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5, 8 * mtu + 3, 50001U}) {
      client.write(size, seed++);
      client.read(size, seed++);
      client.with_immediate(IBV_WR_SEND_WITH_IMM, size, seed++);
      client.with_immediate(IBV_WR_RDMA_WRITE_WITH_IMM, size, seed++);
    }
    client.writes_then_read(3 * mtu / 2, seed++);
    client.atomics(seed++);
  }
  client.bye();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int letter = 0; (letter = getopt(argc, argv, "d:g:p:m:n:")) != -1;) {
    switch (letter) {
      case 'd':
        options.device = optarg;
        break;
      case 'g':
        options.gid_index = std::atoi(optarg);
        break;
      case 'p':
        options.tcp_port = optarg;
        break;
      case 'm':
        options.mtu = std::atoi(optarg);
        break;
      case 'n':
        options.rounds = std::atoi(optarg);
        break;
      default:
        fail("usage: verbs_data -d DEVICE -g GID_INDEX -p TCP_PORT [-m MTU] [-n ROUNDS] [SERVER]");
    }
  }
  if (optind < argc) options.server = argv[optind];
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Endpoint end(options);
  Talk talk(options);
  end.connect(options, talk);
  if (options.server.empty()) {
    serve(end, talk);
  } else {
    Client client(end, talk);
    drive(client, options);
  }
  std::printf("verified %llu bytes, %llu completions\n", static_cast<unsigned long long>(end.verified_bytes),
              static_cast<unsigned long long>(end.completions));
  return 0;
}
