#include "common/prometheus.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace uroce::metrics {
namespace {

/// Makes a text a valid name of a metric or a label.
std::string fit_name(std::string_view name) {
  std::string fit;
  for (const char c : name) fit += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (fit.empty() || std::isdigit(static_cast<unsigned char>(fit.front())) != 0) fit.insert(0, "_");
  return fit;
}

std::string escaped(std::string_view text, bool quotes) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\\\";
    } else if (c == '\n') {
      safe += "\\n";
    } else if (c == '"' && quotes) {
      safe += "\\\"";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

void Exposition::add_sample(Type type, std::string_view name, std::string_view help, const Labels& labels,
                            const std::string& value) {
  const std::string fit = fit_name(name);
  const auto [metric, fresh] = metrics_.try_emplace(fit);
  if (fresh) metric->second = {type, escaped(help, false), {}};
  std::string line = fit;
  for (const auto& [key, text] : labels) {
    line += (line.size() == fit.size() ? "{" : ",") + fit_name(key) + "=\"" + escaped(text, true) + "\"";
  }
  metric->second.samples.push_back(line + (labels.empty() ? " " : "} ") + value + "\n");
}

void Exposition::add(Type type, std::string_view name, std::string_view help, const Labels& labels, double value) {
  add_sample(type, name, help, labels, number(value));
}

void Exposition::add(Type type, std::string_view name, std::string_view help, const Labels& labels, uint64_t value) {
  add_sample(type, name, help, labels, std::to_string(value));
}

std::string Exposition::text() const {
  std::string text;
  for (const auto& [name, metric] : metrics_) {
    text += "# HELP " + name + " " + metric.help + "\n";
    text += "# TYPE " + name + (metric.type == Type::kCounter ? " counter\n" : " gauge\n");
    for (const std::string& sample : metric.samples) text += sample;
  }
  return text;
}

std::string endpoints_text(const std::vector<EndpointSample>& endpoints) {
  Exposition all;
  int last_pid = 0;
  for (const EndpointSample& endpoint : endpoints) {
    const std::string pid = std::to_string(endpoint.pid);
    if (std::exchange(last_pid, endpoint.pid) != endpoint.pid) {
      all.add(Type::kGauge, "uroce_up", "1 for a program with an open device that answers, 0 for one that does not",
              {{"pid", pid}}, uint64_t{endpoint.answers});
    }
    if (!endpoint.answers) continue;
    Labels labels{{"pid", pid}, {"program", endpoint.program}, {"port", endpoint.port}};
    if (!endpoint.number.empty()) labels.emplace_back("endpoint", endpoint.number);
    all.add(Type::kGauge, "uroce_link_up", "1 when the port's peer is there", labels, uint64_t{endpoint.link_up});
    all.add(Type::kGauge, "uroce_queue_pairs", "Queue pairs that exist now", labels, endpoint.qps);
    all.add(Type::kGauge, "uroce_memory_regions", "Memory regions that are registered now", labels, endpoint.regions);
    for (const auto& [name, value] : endpoint.counters) {
      all.add(Type::kCounter, "uroce_" + name + "_total", "Counter " + name + ", see doc/debugging.md", labels, value);
    }
  }
  return all.text();
}

}  // namespace uroce::metrics
