// `uroce metrics`: what all programs count, for Prometheus.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "common/metrics_server.h"
#include "program_metrics.h"
#include "quit_signals.h"

namespace uroce::launcher {
namespace {

int serve(const std::string& address) {
  take_quit_signals();
  std::string error;
  std::unique_ptr<metrics::MetricsServer> server;
  {
    const QuitSignalsBlocked blocked;
    server = metrics::MetricsServer::start(
        address,
        [] {
          std::string ignored;  // of a runtime directory that is gone: there are no programs then
          return text_of_programs(ignored);
        },
        error);
  }
  if (!server) return fail(error);
  std::fprintf(stderr, "uroce: /metrics on port %u\n", server->port());
  const QuitSignalsBlocked blocked;
  sigset_t none;
  sigemptyset(&none);
  while (quit_asked() == 0) ppoll(nullptr, 0, nullptr, &none);
  return 0;
}

int print_once() {
  std::string error;
  const std::string text = text_of_programs(error);
  if (!error.empty()) return fail(error);
  std::printf("%s", text.c_str());
  return 0;
}

}  // namespace

void add_metrics(CLI::App& app, int& exit_code) {
  auto address = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("metrics", "their counters in Prometheus' text format");
  command->add_option("--listen", *address, "serve it at http://ADDRESS:PORT/metrics until ended: 127.0.0.1:9464");
  command->callback([address, &exit_code] { exit_code = address->empty() ? print_once() : serve(*address); });
}

}  // namespace uroce::launcher
