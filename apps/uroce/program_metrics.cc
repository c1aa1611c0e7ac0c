#include "program_metrics.h"

#include "common/prometheus.h"
#include "programs.h"

namespace uroce::launcher {
namespace {

metrics::EndpointSample sample_of(const Program& program) {
  metrics::EndpointSample sample;
  sample.pid = program.pid;
  sample.answers = program.answers;
  if (!program.answers) return sample;
  sample.program = text_at(program.endpoint, "program");
  sample.port = text_at(program.endpoint, "port");
  if (!program.is_only) sample.number = std::to_string(program.endpoint_number);
  sample.link_up = text_at(program.endpoint, "peer") == "there";
  sample.qps = number_at(program.endpoint, "qps");
  sample.regions = number_at(program.endpoint, "regions");
  for (const auto& [name, value] : program.counters.items()) {
    if (value.is_number_unsigned()) sample.counters.emplace_back(name, value.get<uint64_t>());
  }
  return sample;
}

}  // namespace

std::string text_of_programs(std::string& error) {
  std::vector<metrics::EndpointSample> samples;
  for (const Program& program : ask_programs(Ask::kSummary, std::nullopt, error)) samples.push_back(sample_of(program));
  return metrics::endpoints_text(samples);
}

}  // namespace uroce::launcher
