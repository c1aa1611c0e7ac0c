// A DPDK application that sends RDMA WRITEs from its own lcore loop.
//
//   lcore_writes EAL-ARGUMENTS -- ADDRESS/PREFIX             server
//   lcore_writes EAL-ARGUMENTS -- ADDRESS/PREFIX SERVER      client
//
// The client connects, hears where the server's memory is, and writes numbered blocks into it. The server, once the
// connection has ended, compares all of them. The client stays until its standard input ends.
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <uroce/uroce.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

/// No two writes to a block have the same bytes.
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
    Device& device = endpoint_->device();
    const PdId pd = device.allocate_pd();
    cq_ = device.create_cq(2 * kDepth);
    region_ = device.register_memory(pd, memory_.data(), memory_.size(), kLocalWrite | kRemoteWrite);
    QueuePairOptions how{.pd = pd, .send_cq = &cq_, .recv_cq = &cq_};
    how.cap.max_send_wr = kDepth;
    qp_ = device.create_qp(how);
    return (cq_ && region_ && qp_) || (error = "the device has no room", false);
  }

  /// The server tells the client where its memory is.
  bool meet(const char* peer, std::string& error) {
    const Endpoint::Ownership owner(*endpoint_);
    if (peer == nullptr) {
      Listener listener = endpoint_->connections().listen(7471, error);
      const RemoteMemory own = region_.remote();
      if (listener) connection_ = listener.accept(qp_, error, {.private_data = bytes_of(own)});
      return bool(connection_);
    }
    connection_ = endpoint_->connections().connect(qp_, peer, 7471, error);
    if (connection_) peer_memory_ = *connection_.private_data_as<RemoteMemory>();
    return bool(connection_);
  }

  /// The lcore's loop.
  int run() {
    const Instant deadline = endpoint_->now() + kPatience;
    while (!done_ && failure_.empty() && endpoint_->now() < deadline) {
      const Endpoint::Ownership owner(*endpoint_);
      endpoint_->drive();
      if (server_) {
        done_ = !connection_;
      } else {
        post_more();
        take_completions();
      }
    }
    if (!failure_.empty()) return fail(failure_);
    if (!done_) return fail("not done in time");
    if (server_ && !all_blocks_are_right()) return fail("the memory holds other bytes than were written");
    std::printf("done: %" PRIu64 " writes of %u bytes\n", kWrites, kBlock);
    return 0;
  }

  /// Under an Ownership, like every use of the device's objects.
  void close() {
    const Endpoint::Ownership owner(*endpoint_);
    connection_ = {};
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
      const RemoteMemory to = peer_memory_.at(block * kBlock);
      if (qp_.post(RdmaWrite{.from = sge, .to = to, .wr_id = posted_}) != PostResult::kOk) return;
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
  Connection connection_;
  RemoteMemory peer_memory_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  bool done_ = false;
  std::string failure_;
};

int run_application(void* application) { return static_cast<Application*>(application)->run(); }

void read_to_the_end() {
  while (std::getchar() != EOF) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a reader waits for each line
  const int used = rte_eal_init(argc, argv);
  if (used < 0) return fail("EAL does not start");
  if (argc - used < 2 || argc - used > 3) return fail("usage: lcore_writes EAL-ARGUMENTS -- ADDRESS/PREFIX [SERVER]");
  int code = 1;
  {
    const char* const peer = argc - used == 3 ? argv[used + 2] : nullptr;
    Application application(peer == nullptr);
    std::string error;
    if (!application.open(argv[used + 1], error) || !application.meet(peer, error)) return fail(error);
    const unsigned lcore = rte_get_next_lcore(-1, 1, 0);
    if (lcore == RTE_MAX_LCORE) return fail("give EAL a second lcore: --lcores=0,1");
    rte_eal_remote_launch(run_application, &application, lcore);
    // The lcores may share a CPU, and rte_eal_wait_lcore alone would spin on it.
    while (rte_eal_get_lcore_state(lcore) == RUNNING) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    code = rte_eal_wait_lcore(lcore);
    application.close();
    // net_memif takes the rings away from a peer that may be in the middle of a burst, so the first one done waits
    // here.
    if (peer != nullptr && code == 0) read_to_the_end();
  }
  // No rte_eal_cleanup: in DPDK 22.11 it frees memory that its own interrupt thread uses.
  return code;
}
