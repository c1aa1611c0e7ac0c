// A DPDK application that sends RDMA WRITEs from its own lcore loop.
//
//   lcore_writes EAL-ARGUMENTS -- server|client ADDRESS/PREFIX
//
// The two sides find each other over standard input and output: each prints one line and reads the other's. The client
// writes numbered blocks into the server's memory; the server, once told that the client is done, compares all of them.
// Told is each by the end of its standard input.
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <uroce/uroce.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace uroce;
using namespace uroce::rdma;

namespace {

constexpr uint32_t kBlock = 8192;
constexpr uint32_t kBlocks = 64;
constexpr uint64_t kWrites = 2000;
constexpr uint32_t kDepth = 32;
constexpr Duration kPatience = milliseconds(60'000);

int fail(const std::string& what) {
  std::fprintf(stderr, "lcore_writes: %s\n", what.c_str());
  return 1;
}

/// No two of the writes to one block have the same bytes.
uint8_t byte_of(uint64_t write, uint32_t at) { return static_cast<uint8_t>(write * 7 + write / 256 * 29 + at); }

class Application final : public EventListener {
 public:
  explicit Application(bool server) : server_(server), memory_(size_t{kBlock} * kBlocks) {}

  bool open(const std::string& address, std::string& error) {
    const auto local = parse_local_address(address);
    if (!local) return error = "not an address: " + address, false;
    EndpointOptions options;
    options.eal_running = true;  // the first port that EAL made
    options.addresses = {*local};
    endpoint_ = Endpoint::open(options, this, error);
    if (endpoint_ == nullptr) return false;
    const Endpoint::Ownership owner(*endpoint_);
    Engine& engine = endpoint_->engine();
    const PdId pd = engine.allocate_pd();
    cq_ = engine.create_cq(2 * kDepth);
    region_ = engine.register_memory(pd, memory_.data(), memory_.size(), kLocalWrite | kRemoteWrite);
    QueuePairOptions how{.pd = pd, .send_cq = &cq_, .recv_cq = &cq_};
    how.cap.max_send_wr = kDepth;
    qp_ = engine.create_qp(how);
    return (cq_ && region_ && qp_) || (error = "the engine has no room", false);
  }

  /// Each side tells the other where its queue pair and its memory are.
  bool meet(std::string& error) {
    const Endpoint::Ownership owner(*endpoint_);
    const QueuePairAddress own = qp_.address();
    std::printf("%s %u %u %" PRIu64 " %u\n", to_string(own.gid).c_str(), own.qp_num, own.psn.value(), region_.address(),
                region_.rkey());
    char gid[64];
    QueuePairAddress peer;
    uint32_t psn = 0;
    const int read = std::scanf("%63s %u %u %" SCNu64 " %u", gid, &peer.qp_num, &psn, &peer_memory_, &peer_rkey_);
    const auto ip = parse_ip(gid);
    if (read != 5 || !ip) return error = "the other side did not say where it is", false;
    peer.gid = *ip;
    peer.psn = Psn(psn);
    const ModifyResult result = qp_.connect(peer);
    return result == ModifyResult::kOk || (error = modify_result_text(result), false);
  }

  /// The lcore's loop.
  int run() {
    const Instant deadline = endpoint_->now() + kPatience;
    while (!done_ && failure_.empty() && endpoint_->now() < deadline) {
      const Endpoint::Ownership owner(*endpoint_);
      endpoint_->drive();
      if (server_) continue;
      post_more();
      take_completions();
    }
    if (!failure_.empty()) return fail(failure_);
    if (!done_) return fail("not done in time");
    if (server_ && !all_blocks_are_right()) return fail("the memory holds other bytes than were written");
    std::printf("done: %" PRIu64 " writes of %u bytes\n", kWrites, kBlock);
    return 0;
  }

  /// To the server's loop, from any thread: the client has had its last acknowledgement.
  void client_is_done() { done_ = true; }

  /// Under an Ownership, as every call to what the engine made.
  void close() {
    const Endpoint::Ownership owner(*endpoint_);
    qp_ = {};
    region_ = {};
    cq_ = {};
  }

  void on_error_completion(const Completion& completion) override { failure_ = cause_text(completion.cause); }

 private:
  void post_more() {
    for (; posted_ < kWrites && posted_ - completed_ < kDepth; posted_++) {
      const auto block = static_cast<uint32_t>(posted_ % kBlocks);
      uint8_t* const bytes = memory_.data() + size_t{block} * kBlock;
      for (uint32_t i = 0; i < kBlock; i++) bytes[i] = byte_of(posted_, i);
      const Sge sge = region_.sge(uint64_t{block} * kBlock, kBlock);
      SendWr wr;
      wr.wr_id = posted_;
      wr.opcode = WrOpcode::kRdmaWrite;
      wr.flags = kSendSignaled;
      wr.sges = &sge;
      wr.num_sge = 1;
      wr.remote_addr = peer_memory_ + uint64_t{block} * kBlock;
      wr.rkey = peer_rkey_;
      if (qp_.post_send(wr) != PostResult::kOk) return;
    }
  }

  void take_completions() {
    Completion completions[kDepth];
    const uint32_t count = cq_.poll(completions);
    for (uint32_t i = 0; i < count; i++) {
      if (completions[i].wr_id != completed_++) failure_ = "completions come out of order";
    }
    done_ = completed_ == kWrites;
  }

  bool all_blocks_are_right() const {
    for (uint64_t write = kWrites - kBlocks; write < kWrites; write++) {
      const uint8_t* const bytes = memory_.data() + write % kBlocks * kBlock;
      for (uint32_t i = 0; i < kBlock; i++) {
        if (bytes[i] != byte_of(write, i)) return false;
      }
    }
    return true;
  }

  bool server_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<Endpoint> endpoint_;
  CompletionQueue cq_;
  MemoryRegion region_;
  QueuePair qp_;
  uint64_t peer_memory_ = 0;
  uint32_t peer_rkey_ = 0;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  std::atomic<bool> done_ = false;
  std::string failure_;
};

int run_application(void* application) { return static_cast<Application*>(application)->run(); }

void read_to_the_end() {
  while (std::getchar() != EOF) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // somebody waits for each line
  const int used = rte_eal_init(argc, argv);
  if (used < 0) return fail("EAL does not start");
  if (argc - used != 3) return fail("usage: lcore_writes EAL-ARGUMENTS -- server|client ADDRESS/PREFIX");
  int code = 1;
  {
    const std::string role = argv[used + 1];
    Application application(role == "server");
    std::string error;
    if (!application.open(argv[used + 2], error) || !application.meet(error)) return fail(error);
    const unsigned lcore = rte_get_next_lcore(-1, 1, 0);
    if (lcore == RTE_MAX_LCORE) return fail("give EAL a second lcore: --lcores=0,1");
    rte_eal_remote_launch(run_application, &application, lcore);
    if (role == "server") {
      read_to_the_end();
      application.client_is_done();
    }
    // The lcores may share a CPU, and rte_eal_wait_lcore alone would spin on it.
    while (rte_eal_get_lcore_state(lcore) == RUNNING) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    code = rte_eal_wait_lcore(lcore);
    // net_memif takes the rings away from a peer that may be in the middle of a burst: who is done first stays.
    if (role == "client" && code == 0) read_to_the_end();
    application.close();
  }
  // No rte_eal_cleanup: that of DPDK 22.11 takes memory away from its own interrupt thread.
  return code;
}
