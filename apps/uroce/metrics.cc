// `uroce metrics`: what all programs count, for Prometheus.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "common/metrics_server.h"
#include "common/prometheus.h"
#include "programs.h"
#include "quit_signals.h"

namespace uroce::launcher {
namespace {

metrics::EndpointSample sample_of(const Program& program) {
  metrics::EndpointSample sample;
  sample.pid = program.pid;
  sample.answers = program.answers;
  if (!program.answers) return sample;
  sample.program = text_at(program.endpoint, "program");
  sample.port = text_at(program.endpoint, "port");
  sample.link_up = text_at(program.endpoint, "peer") == "there";
  sample.qps = number_at(program.endpoint, "qps");
  sample.regions = number_at(program.endpoint, "regions");
  for (const auto& [name, value] : program.counters.items()) {
    if (value.is_number_unsigned()) sample.counters.emplace_back(name, value.get<uint64_t>());
  }
  return sample;
}

std::string text_of_all(std::string& error) {
  std::vector<metrics::EndpointSample> samples;
  for (const Program& program : ask_programs(Ask::kSummary, std::nullopt, error)) samples.push_back(sample_of(program));
  return metrics::endpoints_text(samples);
}

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
          return text_of_all(ignored);
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
  const std::string text = text_of_all(error);
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
