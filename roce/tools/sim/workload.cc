#include "sim/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "sim/portable_math.h"
#include "sim/size_distribution.h"

namespace uroce::sim {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text = text.substr(at + 1);
  }
}

bool parse_count(std::string_view text, uint32_t least, uint32_t& value) {
  const char* const end = text.data() + text.size();
  const auto [at, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && at == end && value >= least;
}

/// "0.3" or "30%".
bool parse_share(std::string_view text, double& share) {
  uint64_t millionths = 0;
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  if (!parse_rate(std::string(text) + "M", millionths)) return false;
  share = static_cast<double>(millionths) / (percent ? 1e8 : 1e6);
  return true;
}

/// Flows that are known from the beginning.
class ListedFlows : public Workload {
 public:
  explicit ListedFlows(std::vector<FlowSpec> flows) : flows_(std::move(flows)) {
    std::stable_sort(flows_.begin(), flows_.end(),
                     [](const FlowSpec& a, const FlowSpec& b) { return a.start < b.start; });
  }
  Instant next_start() const override { return next_ < flows_.size() ? flows_[next_].start : Instant::never(); }
  FlowSpec take() override {
    ensure(next_ < flows_.size(), "the flow that is taken was announced");
    return flows_[next_++];
  }

 private:
  std::vector<FlowSpec> flows_;
  size_t next_ = 0;
};

using Parameters = std::vector<std::string_view>;
using Made = std::unique_ptr<Workload>;

uint32_t hosts_of(const WorkloadContext& context) { return context.network->host_count(); }

/// The flows of the topology; if it has none, every host sends to the host that is half of all hosts further.
Made make_long(const Parameters& parameters, const WorkloadContext& context, std::string& error) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const uint32_t hosts = hosts_of(context);
  if (parameters.size() > 4) {
    error = "expected long[:HOST>HOST,...[:APART[:LASTING]]]";
    return nullptr;
  }
  if (parameters.size() > 1) {
    for (const std::string_view word : split(parameters[1], ',')) {
      const size_t arrow = word.find('>');
      const uint32_t from = context.network->find_host(word.substr(0, arrow));
      const uint32_t to = arrow == std::string_view::npos ? hosts : context.network->find_host(word.substr(arrow + 1));
      if (from == hosts || to == hosts || from == to) {
        error = "'" + std::string(word) + "' is not HOST>HOST";
        return nullptr;
      }
      pairs.emplace_back(from, to);
    }
  } else {
    pairs = context.network->flows();
    for (uint32_t i = 0; pairs.size() < hosts && context.network->flows().empty(); i++) {
      pairs.emplace_back(i, (i + std::max(hosts / 2, 1u)) % hosts);
    }
  }
  Duration apart{};
  Duration lasting{};
  for (size_t i = 2; i < parameters.size(); i++) {
    if (parse_duration(parameters[i], i == 2 ? apart : lasting)) continue;
    error = "'" + std::string(parameters[i]) + "' is not a time";
    return nullptr;
  }
  std::vector<FlowSpec> flows;
  Instant start = context.start;
  for (const auto& [from, to] : pairs) {
    FlowSpec flow{start, from, to, FlowSpec::kEndless, FlowKind::kWrite, 0};
    if (lasting.ns != 0) flow.stop = start + lasting;
    flows.push_back(flow);
    start = start + apart;
  }
  return std::make_unique<ListedFlows>(std::move(flows));
}

Made make_incast(const Parameters& parameters, const WorkloadContext& context, std::string& error) {
  uint32_t senders = 0;
  uint64_t bytes = 64 * 1024;
  Duration every{};
  const uint32_t hosts = hosts_of(context);
  if (parameters.size() < 2 || !parse_count(parameters[1], 1, senders) ||
      (parameters.size() > 2 && (!parse_bytes(parameters[2], bytes) || bytes == 0)) ||
      (parameters.size() > 3 && (!parse_duration(parameters[3], every) || every.ns == 0)) || parameters.size() > 4) {
    error = "expected incast:SENDERS[:BYTES[:EVERY]]";
    return nullptr;
  }
  std::vector<FlowSpec> flows;
  const Instant end = context.start + context.duration;
  for (Instant start = context.start; start < end; start = start + every) {
    for (uint32_t i = 0; i < senders; i++) flows.push_back({start, 1 + i % (hosts - 1), 0, bytes, FlowKind::kWrite, 0});
    if (every.ns == 0) break;
  }
  return std::make_unique<ListedFlows>(std::move(flows));
}

Made make_all_to_all(const Parameters& parameters, const WorkloadContext& context, std::string& error) {
  uint64_t bytes = 0;
  if (parameters.size() != 2 || !parse_bytes(parameters[1], bytes) || bytes == 0) {
    error = "expected all-to-all:BYTES";
    return nullptr;
  }
  std::vector<FlowSpec> flows;
  const uint32_t hosts = hosts_of(context);
  for (uint32_t step = 1; step < hosts; step++) {
    for (uint32_t i = 0; i < hosts; i++) {
      flows.push_back({context.start, i, (i + step) % hosts, bytes, FlowKind::kWrite, 0});
    }
  }
  return std::make_unique<ListedFlows>(std::move(flows));
}

/// Lines: START FROM TO BYTES [write|read], hosts by name or number, START from the run's own start.
Made make_trace(const Parameters& parameters, const WorkloadContext& context, std::string& error) {
  std::string text;
  if (parameters.size() != 2 || !context.read_file || !context.read_file(std::string(parameters[1]), text)) {
    error = parameters.size() == 2 ? "cannot read '" + std::string(parameters[1]) + "'" : "expected trace:FILE";
    return nullptr;
  }
  const uint32_t hosts = hosts_of(context);
  const auto host = [&](std::string_view word) {
    uint32_t number = 0;
    if (parse_count(word, 0, number)) return std::min(number, hosts);
    return context.network->find_host(word);
  };
  std::vector<FlowSpec> flows;
  uint32_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    number++;
    Parameters words;
    for (const std::string_view word : split(line.substr(0, line.find('#')), ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.empty()) continue;
    FlowSpec flow;
    Duration after{};
    const bool read = words.size() == 5 && words[4] == "read";
    if ((words.size() != 4 && !(words.size() == 5 && (read || words[4] == "write"))) ||
        !parse_duration(words[0], after) || !parse_bytes(words[3], flow.bytes) || flow.bytes == 0 ||
        host(words[1]) >= hosts || host(words[2]) >= hosts || host(words[1]) == host(words[2])) {
      error = std::string(parameters[1]) + ", line " + std::to_string(number) +
              ": expected START FROM TO BYTES [write|read]";
      return nullptr;
    }
    flow.start = context.start + after;
    flow.from = host(words[1]);
    flow.to = host(words[2]);
    flow.kind = read ? FlowKind::kRead : FlowKind::kWrite;
    flows.push_back(flow);
  }
  return std::make_unique<ListedFlows>(std::move(flows));
}

/// Every host begins flows to others chosen by chance, at exponential intervals, so that all together offer `load` of
/// what their NICs can send. One process for all hosts is the same as one for each.
class Poisson final : public Workload {
 public:
  Poisson(const WorkloadContext& context, SizeDistribution sizes, double load, uint64_t host_bits_per_second)
      : hosts_(hosts_of(context)),
        end_(context.start + context.duration),
        sizes_(std::move(sizes)),
        random_(context.seed),
        at_ns_(static_cast<double>(context.start.ns)) {
    const double bytes_per_ns = load * static_cast<double>(host_bits_per_second) / 8e9 * hosts_;
    interval_ns_ = sizes_.mean_bytes() / bytes_per_ns;
    advance();
  }
  Instant next_start() const override { return next_; }
  FlowSpec take() override {
    ensure(next_ < end_, "the flow that is taken was announced");
    FlowSpec flow;
    flow.start = next_;
    flow.from = random_.below(hosts_);
    flow.to = (flow.from + 1 + random_.below(hosts_ - 1)) % hosts_;
    flow.bytes = sizes_.draw(random_);
    advance();
    return flow;
  }

 private:
  void advance() {
    at_ns_ += exponential(random_, interval_ns_);
    next_ = {static_cast<int64_t>(at_ns_)};
    if (next_ >= end_) next_ = Instant::never();
  }

  uint32_t hosts_;
  Instant end_;
  SizeDistribution sizes_;
  SeededRandom random_;
  double at_ns_;
  double interval_ns_ = 0;
  Instant next_ = Instant::never();
};

Made make_poisson(const Parameters& parameters, const WorkloadContext& context, std::string& error) {
  double load = 0;
  SizeDistribution sizes;
  if (parameters.size() != 3 || !parse_share(parameters[2], load) || load <= 0) {
    error = "expected poisson:SIZES:LOAD";
    return nullptr;
  }
  if (!SizeDistribution::named(parameters[1], sizes)) {
    std::string text;
    if (!context.read_file || !context.read_file(std::string(parameters[1]), text)) {
      error = "'" + std::string(parameters[1]) + "' is neither websearch, hadoop, a size, nor a file that can be read";
      return nullptr;
    }
    sizes = SizeDistribution::parse(text, error);
    if (!error.empty()) return nullptr;
  }
  const uint64_t rate = context.network->path(0, 1).front().bits_per_second;
  return std::make_unique<Poisson>(context, std::move(sizes), load, rate);
}

/// Clients that keep so many reads and writes under way, each to a server chosen by chance. Every other host is a
/// server.
class Storage final : public Workload {
 public:
  Storage(const WorkloadContext& context, uint32_t depth, double reads, uint64_t bytes)
      : hosts_(hosts_of(context)),
        end_(context.start + context.duration),
        reads_(reads),
        bytes_(bytes),
        random_(context.seed) {
    for (uint32_t i = 0; i < depth; i++) {
      for (uint32_t client = 0; client < hosts_; client += 2) waiting_.push_back({context.start, client});
    }
  }
  Instant next_start() const override { return head_ < waiting_.size() ? waiting_[head_].start : Instant::never(); }
  FlowSpec take() override {
    ensure(head_ < waiting_.size(), "the flow that is taken was announced");
    const auto [start, client] = waiting_[head_++];
    if (head_ == waiting_.size()) {
      waiting_.clear();
      head_ = 0;
    }
    const uint32_t server = 1 + 2 * random_.below(hosts_ / 2);
    const bool read = uniform(random_) <= reads_;
    return {start, read ? server : client, read ? client : server, bytes_, read ? FlowKind::kRead : FlowKind::kWrite,
            0};
  }
  void on_flow_end(const FlowRecord& flow, Instant now) override {
    // A flow that failed is not repeated: it would fail again at once, and for ever.
    if (now < end_ && !flow.failed)
      waiting_.push_back({now, flow.spec.kind == FlowKind::kRead ? flow.spec.to : flow.spec.from});
  }

 private:
  struct Waiting {
    Instant start;
    uint32_t client;
  };
  uint32_t hosts_;
  Instant end_;
  double reads_;
  uint64_t bytes_;
  SeededRandom random_;
  std::vector<Waiting> waiting_;
  size_t head_ = 0;
};

Made make_storage(const Parameters& parameters, const WorkloadContext& context, std::string& error) {
  uint32_t depth = 8;
  double reads = 0.7;
  uint64_t bytes = 4096;
  if (parameters.size() > 4 || (parameters.size() > 1 && !parse_count(parameters[1], 1, depth)) ||
      (parameters.size() > 2 && (!parse_share(parameters[2], reads) || reads > 1)) ||
      (parameters.size() > 3 && (!parse_bytes(parameters[3], bytes) || bytes == 0))) {
    error = "expected storage[:DEPTH[:READS[:BYTES]]]";
    return nullptr;
  }
  return std::make_unique<Storage>(context, depth, reads, bytes);
}

struct WorkloadKind {
  const char* name;
  const char* parameters;
  const char* what;
  Made (*make)(const Parameters& parameters, const WorkloadContext& context, std::string& error);
};

constexpr WorkloadKind kWorkloadKinds[] = {
    {"long", "[:A>B,C>D...[:APART[:LASTING]]]", "endless flows; default: the topology's own", make_long},
    {"incast", ":SENDERS[:BYTES[:EVERY]]", "all to the first host at once", make_incast},
    {"poisson", ":SIZES:LOAD", "SIZES: websearch, hadoop, bytes, or a file of BYTES:PERCENT", make_poisson},
    {"all-to-all", ":BYTES", "every host to every other at once", make_all_to_all},
    {"storage", "[:DEPTH[:READS[:BYTES]]]", "clients that read and write in a closed loop", make_storage},
    {"trace", ":FILE", "lines of START FROM TO BYTES [write|read]", make_trace},
};

/// Several workloads at the same time.
class Together final : public Workload {
 public:
  explicit Together(std::vector<Made> parts) : parts_(std::move(parts)) {}
  Instant next_start() const override { return parts_[first()]->next_start(); }
  FlowSpec take() override {
    const uint32_t owner = first();
    FlowSpec flow = parts_[owner]->take();
    flow.owner = owner;
    return flow;
  }
  void on_flow_end(const FlowRecord& flow, Instant now) override { parts_[flow.spec.owner]->on_flow_end(flow, now); }

 private:
  uint32_t first() const {
    const auto at = std::min_element(parts_.begin(), parts_.end(),
                                     [](const Made& a, const Made& b) { return a->next_start() < b->next_start(); });
    return static_cast<uint32_t>(at - parts_.begin());
  }
  std::vector<Made> parts_;
};

Made make_one(std::string_view spec, const WorkloadContext& context, std::string& error) {
  const Parameters parameters = split(spec, ':');
  for (const WorkloadKind& kind : kWorkloadKinds) {
    if (parameters[0] == kind.name) return kind.make(parameters, context, error);
  }
  error = "'" + std::string(parameters[0]) + "' is not a workload";
  return nullptr;
}

}  // namespace

std::unique_ptr<Workload> make_workload(std::string_view spec, const WorkloadContext& context, std::string& error) {
  error.clear();
  if (hosts_of(context) < 2) {
    error = "a workload needs two hosts";
    return nullptr;
  }
  std::vector<Made> parts;
  WorkloadContext own = context;
  for (const std::string_view one : split(spec, '+')) {
    parts.push_back(make_one(one, own, error));
    if (parts.back() == nullptr) return nullptr;
    own.seed = own.seed * 0x9E3779B97F4A7C15u + 1;  // each has a random stream of its own
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Together>(std::move(parts));
}

std::string workload_help() {
  std::string text;
  for (const WorkloadKind& kind : kWorkloadKinds) {
    std::string line = std::string("  ") + kind.name + kind.parameters;
    line.resize(line.size() < 40 ? 40 : line.size() + 1, ' ');
    text += line + kind.what + "\n";
  }
  return text + "  A+B                                   both at the same time\n";
}

}  // namespace uroce::sim
