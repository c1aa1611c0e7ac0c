// uroced: the programs of a machine share one DPDK port, with its MAC and one address.
//
//   uroced -l 1 -a 0000:03:00.0 -- --addr 10.0.0.1/24
//   uroced --port net_af_packet0,iface=eth0
//
// It is the uplink of a segment (doc/uroced.md): programs find it by themselves, and frames between them never come
// here. One thread passes on what goes out and comes in, and answers for the host.
#include <rte_eal.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>

#include "common/metrics_server.h"
#include "dpdk/eal.h"
#include "dpdk/endpoint.h"
#include "dpdk/interrupt_guard.h"
#include "dpdk/log.h"
#include "host/endpoint_options.h"
#include "host/segment_plan.h"
#include "options.h"
#include "transport/observer.h"
#include "uroce/program_metrics.h"
#include "while_needed.h"

namespace uroce::daemon {
namespace {

volatile sig_atomic_t stop = 0;

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop = 1; };
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool start_given_eal(Options& options, std::string& error) {
  const QuietDpdk quiet;
  std::vector<char*> argv;
  for (std::string& word : options.eal_arguments) argv.push_back(word.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
    error = "EAL did not start";
    if (const std::string why = quiet.first_error(); !why.empty()) error += " (" + why + ")";
    error += "; its arguments come first, then --, then those of uroced";
    return false;
  }
  return publish_note(error);
}

/// Sleeps when nothing has happened for a while, longer each time. A frame that comes meanwhile waits for at most
/// kNapMost, so that an idle machine costs little.
class Rest {
 public:
  void after(uint32_t work, Instant now) {
    if (work != 0) {
      last_work_ = now;
      nap_ = kNapLeast;
    } else if (now - last_work_ > kAwake) {
      const timespec time{0, nap_.ns};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
      nap_ = std::min(nap_ * 2, kNapMost);
    }
  }

 private:
  static constexpr Duration kAwake = milliseconds(1);
  static constexpr Duration kNapLeast = microseconds(20);
  static constexpr Duration kNapMost = milliseconds(1);

  Instant last_work_{0};
  Duration nap_ = kNapLeast;
};

/// Serves the counters of uroced and of all programs of its user. The thread takes no signals.
std::unique_ptr<metrics::MetricsServer> serve_metrics(const std::string& address, std::string& error) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto server = metrics::MetricsServer::start(
      address,
      [] {
        std::string ignored;  // of a runtime directory that is gone: there are no programs then
        return launcher::text_of_programs(ignored);
      },
      error);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return server;
}

void greet(const Endpoint& endpoint, const UplinkConfig& uplink) {
  std::string addresses;
  for (const LocalAddress& address : endpoint.identity().addresses) addresses += ", " + to_string(address);
  const std::string port = uplink.segment.empty() ? "" : "--port shmlan:" + uplink.segment + " ";
  std::printf("port %s, MAC %s%s\nprograms share it: uroce run %s-- PROGRAM\nuroced is ready\n",
              endpoint.port_name().c_str(), to_string(endpoint.identity().mac).c_str(), addresses.c_str(),
              port.c_str());
  std::fflush(stdout);
}

/// `need`: nullptr: until a signal comes.
void serve(Endpoint& endpoint, bool busy, WhileNeeded* need) {
  constexpr int kTurns = 16;
  Rest rest;
  while (stop == 0 && (need == nullptr || !need->is_over(endpoint.now()))) {
    uint32_t work = 0;
    {
      const EngineLock owner(endpoint);
      for (int i = 0; i < kTurns; i++) work += endpoint.drive();
    }
    if (!busy) rest.after(work, endpoint.now());
  }
}

bool run(Options& options, bool& eal_started, std::string& error) {
  EndpointConfig& config = options.config;
  if (config.uplink->while_needed) signal(SIGPIPE, SIG_IGN);  // whoever started this may be gone
  if (config.eal_running && !start_given_eal(options, error)) return false;
  eal_started = config.eal_running;
  Observer nobody;
  std::optional<WhileNeeded> need;  // ends after the endpoint: whoever asks for a way out meanwhile waits
  const auto endpoint = Endpoint::open(config, nobody, error);
  if (!endpoint) return false;
  eal_started = true;
  if (endpoint->identity().addresses.empty()) {
    error = "port " + endpoint->port_name() + " has no address: say --addr IP/PREFIX";
    return false;
  }
  std::unique_ptr<metrics::MetricsServer> server;
  if (!options.metrics.empty() && !(server = serve_metrics(options.metrics, error))) return false;
  catch_signals();
  prctl(PR_SET_TIMERSLACK, 1000UL);
  UniqueFd log;
  if (config.uplink->while_needed) {
    need.emplace(config.uplink->host, endpoint->now());
    const std::string place = make_segment_directory(config.uplink->segment, config.uplink->group, error);
    if (place.empty() || !need->open(place, error)) return false;
    log = open_log(config.uplink->host);
  }
  greet(*endpoint, *config.uplink);
  // Whoever started it reads no more.
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    if (log) dup2(log.get(), stream);
  }
  serve(*endpoint, options.busy, need ? &*need : nullptr);
  return true;
}

}  // namespace
}  // namespace uroce::daemon

int main(int argc, char** argv) {
  using namespace uroce;
  daemon::Options options;
  std::string error;
  int code = 0;
  if (!endpoint_config_from_environment(options.config, error)) {
    std::fprintf(stderr, "uroced: %s\n", error.c_str());
    return 2;
  }
  if (!daemon::parse_options(argc, argv, options, code)) return code;
  options.config.progress = Progress::kInline;
  bool eal_started = false;
  if (!daemon::run(options, eal_started, error)) {
    std::fprintf(stderr, "uroced: %s\n", error.c_str());
    code = 1;
  }
  if (!eal_started) return code;
  park_interrupt_thread();
  rte_eal_cleanup();
  if (!options.config.eal_running) remove_eal_directory();
  return code;
}
