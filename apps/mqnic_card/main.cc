// mqnic-card: the card model in a process of its own, served over vfio-user.
//
//   mqnic-card --socket /run/card0.sock --wire shm:cable
//
// It does not use DPDK. See --help.
#include <sys/mman.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "options.h"
#include "pmd/card/vfio_user_server.h"
#include "pmd/card/wires/make_wire.h"

namespace mqnic::card {
namespace {

volatile std::sig_atomic_t g_stop = 0;
volatile std::sig_atomic_t g_report = 0;

void on_stop(int) { g_stop = 1; }
void on_report(int) { g_report = 1; }

/// A client may truncate a file whose memory the card uses. From then on the card reads zeros there, instead of
/// crashing.
void on_missing_page(int number, siginfo_t* info, void*) {
  constexpr uintptr_t kPageBytes = 4096;
  void* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(info->si_addr) & ~(kPageBytes - 1));
  const bool ours = info->si_code == BUS_ADRERR;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  if (ours && mmap(page, kPageBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0) == page) return;
  signal(number, SIG_DFL);  // the signal comes again at once, and ends the process
}

void catch_signals() {
  struct sigaction action {};  // without SA_RESTART, so that a server that sleeps wakes up
  action.sa_handler = on_stop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = on_report;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  struct sigaction missing {};
  missing.sa_sigaction = on_missing_page;
  missing.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &missing, nullptr);
}

void print_report(const CardReport& report) {
  const std::pair<const char*, uint64_t> lines[] = {
      {"tx_frames", report.tx_frames},
      {"tx_bytes", report.tx_bytes},
      {"rx_frames", report.rx_frames},
      {"rx_bytes", report.rx_bytes},
      {"rx_dropped_no_descriptor", report.rx_dropped_no_descriptor},
      {"rx_dropped_port_off", report.rx_dropped_port_off},
      {"rx_dropped_fifo_full", report.rx_dropped_fifo_full},
      {"rx_dropped_no_queue", report.rx_dropped_no_queue},
      {"rx_truncated_mtu", report.rx_truncated_mtu},
      {"rx_clamped_buffer", report.rx_clamped_buffer},
      {"tx_wedged", report.tx_wedged},
      {"completions_lost_cq_full", report.completions_lost_cq_full},
      {"events_lost_eq_full", report.events_lost_eq_full},
      {"dma_faults", report.dma_faults},
      {"pause_frames_sent", report.pause_frames_sent},
      {"pause_frames_received", report.pause_frames_received},
      {"doorbells_lost", report.doorbells_lost},
      {"bad_register_writes", report.bad_register_writes},
  };
  for (const auto& [name, value] : lines) std::printf("%-26s %lu\n", name, static_cast<unsigned long>(value));
  std::fflush(stdout);
}

std::vector<std::unique_ptr<Wire>> make_wires(const Options& options, std::string& error) {
  std::vector<std::unique_ptr<Wire>> wires;
  for (const std::string& text : options.wires) {
    wires.push_back(make_wire(text, options.knobs, error));
    if (wires.back() == nullptr) break;
  }
  return wires;
}

void print_ready(const Options& options) {
  std::string wires;
  for (const std::string& text : options.wires) wires += " " + text;
  std::printf("mqnic-card: ready on %s, wires:%s\n", options.socket.c_str(), wires.c_str());
  std::fflush(stdout);
}

void serve(VfioUserServer& server) {
  server.serve([&server] {
    for (const std::string& message : server.take_messages()) std::fprintf(stderr, "mqnic-card: %s\n", message.c_str());
    if (g_report != 0) {
      g_report = 0;
      print_report(server.report());
    }
    return g_stop != 0;
  });
  print_report(server.report());
}

int run(const Options& options) {
  std::string error;
  auto wires = make_wires(options, error);
  std::unique_ptr<VfioUserServer> server;
  if (error.empty()) server = VfioUserServer::listen(options.socket, options.card, std::move(wires), error);
  if (server == nullptr) {
    std::fprintf(stderr, "mqnic-card: %s\n", error.c_str());
    return 2;
  }
  print_ready(options);
  serve(*server);
  return 0;
}

}  // namespace
}  // namespace mqnic::card

int main(int argc, char** argv) {
  mqnic::card::Options options;
  int code = 0;
  if (!mqnic::card::parse_options(argc, argv, options, code)) return code;
  mqnic::card::catch_signals();
  try {
    return mqnic::card::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mqnic-card: there is no such card (%s): give fewer interfaces, ports or queues\n",
                 error.what());
    return 2;
  }
}
