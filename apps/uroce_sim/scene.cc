#include "scene.h"

#include <algorithm>
#include <cinttypes>
#include <ctime>

#include "congestion/algorithms.h"
#include "congestion/parameters.h"

namespace uroce::simulate {

namespace {

constexpr uint32_t kFrameOverheadMax = 128;
constexpr uint32_t kQpsMax = 4096;

fabric::SwitchConfig switch_config(const Options& options) {
  fabric::SwitchConfig config;
  for (fabric::PriorityConfig& priority : config.priorities) {
    priority.ecn.enabled = options.ecn;
    priority.ecn.kmin_bytes = static_cast<uint32_t>(options.kmin);
    priority.ecn.kmax_bytes = static_cast<uint32_t>(options.kmax);
    priority.ecn.pmax = options.pmax;
  }
  config.set_lossless(options.pfc ? priority_bit(options.dscp / 8) : uint8_t{0});
  config.buffer_bytes = options.buffer;
  config.pfc_alpha = options.alpha;
  config.pfc_watchdog = options.watchdog;
  config.watchdog_restore = options.watchdog_restore;
  config.learning = config.flood_unknown = false;
  return config;
}

}  // namespace

/// The window: as many packets as fit on the longest path there and back, and some more because ACKs come in groups.
uint32_t Scene::window() const {
  if (options_.window != 0) return options_.window;
  const auto ports = sim::ports_of(topology_);
  const auto hosts = topology_.hosts();
  int64_t longest = 0;
  for (const uint32_t to : {hosts.front(), hosts.back()}) {
    for (const uint32_t from : hosts) {
      std::vector<sim::TopologyLink> path;
      for (const uint32_t link : sim::a_path(topology_, ports, from, to)) path.push_back(topology_.links[link]);
      const sim::FlowShape shape{options_.mtu, static_cast<uint32_t>(options_.piece)};
      const int64_t ns = sim::ideal_time(path, shape, sim::FlowKind::kWrite, options_.mtu).ns;
      uint64_t slowest = UINT64_MAX;
      for (const sim::TopologyLink& link : path) slowest = std::min(slowest, link.bits_per_second);
      if (path.empty()) continue;
      longest = std::max(longest, static_cast<int64_t>(static_cast<double>(ns) * static_cast<double>(slowest) / 8e9));
    }
  }
  return static_cast<uint32_t>(longest / options_.mtu + 32);
}

/// Sets which hosts obey pauses, which send them, and which react late.
std::string Scene::set_flow_control(sim::NetworkConfig& config) const {
  const uint8_t lossless = options_.pfc ? priority_bit(options_.dscp / 8) : uint8_t{0};
  config.nic.obeys_pause = options_.nic_pfc == "hardware";
  config.nic.rx_frames = options_.nic_rx_frames;
  if (options_.nic_pfc == "hardware") config.nic.pfc.lossless = lossless;
  if (options_.nic_pfc == "engine") config.engine.pfc.lossless = lossless;
  config.engine.pfc.watchdog = options_.host_watchdog;
  config.engine.pfc.watchdog_restore = options_.watchdog_restore;
  for (const std::string& text : options_.slow_hosts) {
    const size_t equals = text.find('=');
    Duration delay{};
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || !sim::parse_duration(text.substr(equals + 1), delay) ||
        topology_.find(name) == topology_.nodes.size()) {
      return "--slow '" + text + "': expected HOST=TIME";
    }
    config.slow_hosts.emplace_back(name, delay);
  }
  return "";
}

std::string Scene::make_network() {
  std::string error;
  if (options_.topology_file.empty()) {
    topology_ = sim::build_topology(options_.topology, {options_.host_rate, options_.core_rate, options_.delay}, error);
  } else {
    std::string text;
    if (!read_file(options_.topology_file, text)) return "cannot read " + options_.topology_file;
    topology_ = sim::parse_topology(text, error);
    if (!error.empty()) error = options_.topology_file + ", " + error;
  }
  if (!error.empty()) return error;
  sim::NetworkConfig config;
  config.engine.max_frame_bytes = options_.mtu + kFrameOverheadMax;
  config.engine.max_qps = kQpsMax;
  config.engine.max_regions = 64;
  config.engine.ack_delay = options_.ack_delay;
  config.engine.ack_every = options_.ack_every;
  config.engine.window_packets = window();
  config.engine.loss_recovery = options_.loss_recovery == "auto"        ? LossRecovery::kAuto
                                : options_.loss_recovery == "selective" ? LossRecovery::kSelective
                                                                        : LossRecovery::kGoBackN;
  // Four times the window, because a single queue pair may use only half of the pool and may need twice the window.
  config.engine.reorder_packets = std::max(config.engine.reorder_packets, 4 * config.engine.window_packets);
  config.engine.congestion.link_bits_per_second = options_.host_rate;
  parse_congestion_algorithm(options_.cc, config.engine.congestion.algorithm);
  for (const std::string& setting : options_.cc_settings) {
    if (!set_congestion_parameter(config.engine.congestion, setting, error)) return "--set " + setting + ": " + error;
  }
  config.nic.tx_frames = options_.nic_frames;
  config.nic.tx_bytes = options_.nic_frames * config.engine.max_frame_bytes;
  config.nic.ack_dscp = options_.ack_dscp;
  config.turn_delay = options_.turn_delay;
  config.switches = switch_config(options_);
  if (error = set_flow_control(config); !error.empty()) return error;
  if (error = fabric::parse_impairments(options_.faults, config.faults); !error.empty()) return "--faults: " + error;
  network_ = std::make_unique<sim::Network>(topology_, config, options_.seed, error);
  return error;
}

/// Reads "h0_s0=loss 1%", or for one direction "h0>s0=loss 1%".
std::string Scene::set_faults() {
  for (const std::string& text : options_.cable_faults) {
    const size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    const size_t arrow = name.find('>');
    if (arrow != std::string::npos) name[arrow] = '_';
    const uint32_t cable = network_->find_cable(name);
    if (equals == std::string::npos || cable == topology_.links.size()) {
      return "--fault '" + text + "': expected NODE_NODE=FAULTS or NODE>NODE=FAULTS of a cable that is there";
    }
    fabric::ImpairmentConfig faults;
    if (const std::string why = fabric::parse_impairments(text.substr(equals + 1), faults); !why.empty()) {
      return "--fault '" + text + "': " + why;
    }
    if (arrow == std::string::npos) {
      network_->cable(cable).set(faults);
    } else {
      const sim::Cable& it = network_->cable(cable);
      (network_->cable_name(cable) == name ? it.a_to_b : it.b_to_a)->set_impairments(faults);
    }
  }
  return "";
}

std::string Scene::open_files() {
  if (options_.csv_dir.empty()) return "";
  if (!make_directory(options_.csv_dir)) return "cannot make the directory " + options_.csv_dir;
  const struct {
    OutputFile& file;
    const char* name;
    const char* columns;
  } files[] = {
      {flows_csv_, "flows.csv", "flow,from,to,kind,bytes,start_us,end_us,fct_us,ideal_us,slowdown,status\n"},
      {queues_csv_, "queues.csv", "time_us,port,bytes\n"},
      {rates_csv_, "rates.csv", "time_us,flow,from,to,gbps\n"},
      {samples_csv_, "samples.csv", "time_us,flows,gbps,jain,queued_bytes,ecn_marked,dropped,pauses\n"},
      {cables_csv_, "cables.csv", "cable,frames,bytes,pauses,paused_us\n"},
  };
  for (const auto& [file, name, columns] : files) {
    if (!file.open(options_.csv_dir + "/" + name)) return "cannot write " + options_.csv_dir + "/" + name;
    file.print("%s", columns);
  }
  return "";
}

std::string Scene::open_captures() {
  captures_.resize(topology_.links.size());
  if (options_.pcapng_dir.empty()) {
    return options_.capture_cables.empty() ? "" : "--capture needs --pcapng DIRECTORY";
  }
  if (!make_directory(options_.pcapng_dir)) return "cannot make the directory " + options_.pcapng_dir;
  std::vector<uint32_t> wanted;
  for (const std::string& name : options_.capture_cables) {
    wanted.push_back(network_->find_cable(name));
    if (wanted.back() == topology_.links.size()) return "--capture: there is no cable " + name;
  }
  for (uint32_t cable = 0; cable < topology_.links.size() && options_.capture_cables.empty(); cable++) {
    wanted.push_back(cable);
  }
  for (const uint32_t cable : wanted) {
    const std::string path = options_.pcapng_dir + "/" + network_->cable_name(cable) + ".pcapng";
    captures_[cable] = std::make_unique<PcapngFile>();
    if (!captures_[cable]->open(path, network_->cable_name(cable))) return "cannot write " + path;
  }
  return "";
}

std::string Scene::prepare() {
  if (std::string why = make_network(); !why.empty()) return why;
  if (std::string why = set_faults(); !why.empty()) return why;
  for (uint32_t i = 0; i < topology_.links.size(); i++) {
    network_->cable(i).a_to_b->set_tap(this, 2 * i);
    network_->cable(i).b_to_a->set_tap(this, 2 * i + 1);
  }
  start_ = network_->world().now();
  if (std::string why = open_files(); !why.empty()) return why;
  if (std::string why = open_captures(); !why.empty()) return why;
  std::string error;
  workload_ = sim::make_workload(options_.workload,
                                 {network_.get(), start_, options_.duration, options_.seed, read_file}, error);
  if (!error.empty()) return error;
  sim::FlowOptions flows;
  flows.shape = {options_.mtu, static_cast<uint32_t>(options_.piece)};
  flows.traffic_class = static_cast<uint8_t>(options_.dscp << 2);
  flows.timeout = static_cast<uint8_t>(options_.timeout);
  flows.retry_cnt = static_cast<uint8_t>(options_.retry);
  runner_ = std::make_unique<sim::FlowRunner>(*network_, *workload_, flows);
  const Duration sample =
      options_.sample.ns != 0 ? options_.sample : Duration{std::max<int64_t>(options_.duration.ns / 1000, 1)};
  sampler_ = std::make_unique<sim::Sampler>(*network_, *runner_, *this, sample);
  return "";
}

void Scene::run() {
  const std::clock_t before = std::clock();
  sim::World& world = network_->world();
  world.run_for(options_.duration);
  complete_ = runner_->done();
  if (!complete_ && !runner_->has_endless()) {
    complete_ = world.run_until([this] { return runner_->done(); }, options_.drain);
  }
  ended_ = world.now();
  sampler_->stop();
  cpu_seconds_ = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

void Scene::write_flows() {
  for (const sim::FlowRecord& flow : runner_->flows()) {
    flows_csv_.print("%" PRIu64 ",%s,%s,%s,", flow.id, network_->host_name(flow.spec.from).c_str(),
                     network_->host_name(flow.spec.to).c_str(),
                     flow.spec.kind == sim::FlowKind::kWrite ? "write" : "read");
    if (flow.spec.bytes != sim::FlowSpec::kEndless) flows_csv_.print("%" PRIu64, flow.spec.bytes);
    flows_csv_.print(",%.3f,", microseconds_since_start(flow.spec.start));
    if (flow.finished() && !flow.sized()) {
      flows_csv_.print("%.3f,,,,done\n", microseconds_since_start(flow.end));
    } else if (flow.finished()) {
      flows_csv_.print("%.3f,%.3f,%.3f,%.4f,done\n", microseconds_since_start(flow.end),
                       static_cast<double>((flow.end - flow.spec.start).ns) / 1e3,
                       static_cast<double>(flow.ideal.ns) / 1e3, flow.slowdown());
    } else {
      flows_csv_.print(",,,,%s\n", flow.failed ? "failed" : "running");
    }
  }
}

void Scene::write_cables() {
  for (const sim::Network::Direction& it : network_->directions()) {
    cables_csv_.print("%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f\n", it.name.c_str(), it.frames, it.bytes, it.pauses,
                      static_cast<double>(it.paused.ns) / 1e3);
  }
}

std::string Scene::finish() {
  bool written = true;
  write_flows();
  write_cables();
  for (OutputFile* file : {&flows_csv_, &queues_csv_, &rates_csv_, &samples_csv_, &cables_csv_}) {
    written &= file->close();
  }
  for (const auto& capture : captures_) {
    if (capture != nullptr) written &= capture->close();
  }
  return written ? "" : "not everything could be written: is the disk full?";
}

void Scene::on_queue(Instant now, const sim::Network::Egress& egress, uint64_t bytes) {
  queues_csv_.print("%.3f,%s,%" PRIu64 "\n", microseconds_since_start(now), egress.name.c_str(), bytes);
}

void Scene::on_rate(Instant now, const sim::FlowRecord& flow, double bits_per_second) {
  rates_csv_.print("%.3f,%" PRIu64 ",%s,%s,%.4f\n", microseconds_since_start(now), flow.id,
                   network_->host_name(flow.spec.from).c_str(), network_->host_name(flow.spec.to).c_str(),
                   bits_per_second / 1e9);
}

void Scene::on_sample(Instant now, const sim::NetworkTotals& totals, uint64_t measured, double bits_per_second,
                      double jain) {
  samples_.samples++;
  samples_.queued_sum += static_cast<double>(totals.queued_bytes);
  samples_.max_queued = std::max(samples_.max_queued, totals.queued_bytes);
  if (measured > 1) {
    samples_.jain_sum += jain;
    samples_.jain_samples++;
    samples_.last_jain = jain;
  }
  samples_csv_.print("%.3f,%" PRIu64 ",%.4f,%.4f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                     microseconds_since_start(now), measured, bits_per_second / 1e9, jain, totals.queued_bytes,
                     totals.ecn_marked, totals.dropped, totals.pauses_sent);
}

// A cable is captured at its first end: frames from there when they leave, frames to there when they arrive.

void Scene::on_departure(uint32_t link, Instant now, std::span<const uint8_t> frame) {
  if (link % 2 == 0 && captures_[link / 2] != nullptr) captures_[link / 2]->add(now, false, frame);
}

void Scene::on_arrival(uint32_t link, Instant now, std::span<const uint8_t> frame) {
  const sim::TopologyLink& cable = topology_.links[link / 2];
  if (topology_.nodes[link % 2 == 0 ? cable.b : cable.a].is_host) {
    hash_.on_arrival(link, now, frame);
  } else {
    hash_.on_passing(link, now, frame);
  }
  if (link % 2 == 1 && captures_[link / 2] != nullptr) captures_[link / 2]->add(now, true, frame);
}

}  // namespace uroce::simulate
