// Prometheus' text exposition format, version 0.0.4: what endpoints count, as text.
//
//   # HELP uroce_tx_packets_total Counter tx_packets of a uroce endpoint
//   # TYPE uroce_tx_packets_total counter
//   uroce_tx_packets_total{pid="1234",program="ib_write_bw",port="shmlan"} 17
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace uroce::metrics {

/// In the order in which they are shown.
using Labels = std::vector<std::pair<std::string, std::string>>;

enum class Type : uint8_t { kCounter, kGauge };

/// Samples, gathered in any order; the text has those of one metric together, as the format asks.
class Exposition {
 public:
  /// Name and help are those of the first call with this name. A name has letters, digits and '_'; other characters
  /// become '_'.
  void add(Type type, std::string_view name, std::string_view help, const Labels& labels, double value);
  void add(Type type, std::string_view name, std::string_view help, const Labels& labels, uint64_t value);
  std::string text() const;

 private:
  struct Metric {
    Type type = Type::kGauge;
    std::string help;
    std::vector<std::string> samples;
  };
  void add_sample(Type type, std::string_view name, std::string_view help, const Labels& labels,
                  const std::string& value);

  std::map<std::string, Metric> metrics_;
};

/// What is known of one endpoint.
struct EndpointSample {
  int pid = 0;
  bool answers = true;  // false: nothing of what follows is known
  std::string program;
  std::string port;
  std::string number;  // of the endpoint, where its process has several; else ""
  bool link_up = false;
  uint64_t qps = 0;
  uint64_t regions = 0;
  std::vector<std::pair<std::string, uint64_t>> counters;  // of engine and device, as `uroce stats --all` names them
};

/// The text for all of them, those of a process side by side: uroce_up, uroce_link_up, uroce_queue_pairs,
/// uroce_memory_regions, and uroce_COUNTER_total for each counter.
std::string endpoints_text(const std::vector<EndpointSample>& endpoints);

inline constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace uroce::metrics
