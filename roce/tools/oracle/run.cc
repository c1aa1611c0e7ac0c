#include "oracle/run.h"

#include <algorithm>
#include <cstring>

namespace uroce::oracle {

std::unique_ptr<MixedBed> make_testbed(const MixedOptions& options, RandomSource& random) {
  EngineConfig config = sim::simple_config(1);
  constexpr uint32_t kWindows[] = {1, 2, 8, 16, 64, 128};
  config.window_packets = kWindows[random.below(6)];
  config.ack_delay = microseconds(random.below(2) == 0 ? 0 : 20);
  config.grant_credits = random.below(4) != 0;
  config.reorder_packets = options.reorder_packets;
  config.congestion.algorithm = options.congestion;
  config.congestion.link_bits_per_second = 100'000'000'000;
  config.congestion.dcqcn.rpg_min_rate = 1000;  // virtual time is not free either
  if (options.has(Fault::kPause)) config.pfc.lossless = 0xff;
  sim::LinkConfig link;
  link.impairments = options.impairments;
  link.impairments.duplicate_span = options.impairments.reorder_span;
  link.delay = microseconds(1 + random.below(5));
  auto bed = std::make_unique<MixedBed>(random.next_u64(), link, config);
  bed->a.set_turn_delay(nanoseconds(random.below(3000)));
  bed->b.set_turn_delay(nanoseconds(random.below(3000)));
  if (options.turn_delay.ns != 0) {
    bed->a.set_turn_delay(nanoseconds(random.below(static_cast<uint32_t>(options.turn_delay.ns))));
    bed->b.set_turn_delay(nanoseconds(random.below(static_cast<uint32_t>(options.turn_delay.ns))));
  }
  // Ports that take a few frames at a time.
  if (random.below(3) == 0) bed->a.port().set_tx_room(1 + random.below(8));
  if (random.below(3) == 0) bed->b.port().set_tx_room(1 + random.below(8));
  if (options.trace) {
    bed->a.engine().set_capture(&bed->trace_a);
    bed->b.engine().set_capture(&bed->trace_b);
  }
  return bed;
}

sim::QpOptions draw_qp(const MixedOptions& options, RandomSource& random) {
  sim::QpOptions qp;
  qp.type = options.type;
  qp.ipv6 = random.below(2) != 0;
  qp.attributes.path_mtu_bytes = options.mtu != 0 ? options.mtu : 256u << random.below(5);
  qp.attributes.timeout = static_cast<uint8_t>(7 + random.below(3));
  qp.attributes.min_rnr_timer = static_cast<uint8_t>(1 + random.below(5));
  const auto depth = static_cast<uint8_t>(1 + random.below(16));
  qp.attributes.max_rd_atomic = qp.attributes.max_dest_rd_atomic = depth;
  const auto psn = [&] { return random.below(2) == 0 ? Psn(random.next_u32()) : Psn(0xFFFFFF - random.below(200)); };
  qp.psn_a = psn();
  qp.psn_b = psn();
  qp.recovery_a = options.recovery_a;
  qp.recovery_b = options.recovery_b;
  if (options.has(Fault::kReceives))
    qp.attributes.rnr_retry = static_cast<uint8_t>(random.below(3) == 0 ? random.below(3) : 7);
  return qp;
}

uint64_t ops_of_each_end(const MixedOptions& options) { return std::max<uint64_t>(options.ops / (2 * options.qps), 1); }

bool run_with_nudges(sim::Testbed& bed, const std::function<bool()>& done, const std::function<uint64_t()>& progress) {
  constexpr Duration kPatience = milliseconds(5'000);
  uint64_t reached = progress();
  Instant since = bed.world.now();
  while (!bed.world.run_until(done, microseconds(100))) {
    bed.world.run_for(microseconds(10));
    if (progress() != reached) {
      reached = progress();
      since = bed.world.now();
    } else if (bed.world.now() - since > kPatience) {
      return false;
    }
  }
  return true;
}

std::string drops(sim::Testbed& bed) {
  std::string text;
  for (sim::Host* host : {&bed.a, &bed.b}) {
    for_each_counter(host->engine().counters(), [&](const char* name, uint64_t value) {
      if (value != 0 && std::strncmp(name, "rx_drop", 7) == 0)
        text += std::string("\n  ") + name + " " + std::to_string(value);
    });
  }
  return text;
}

MixedReport summarize(sim::Testbed& bed, const Verdict& verdict, Instant start) {
  MixedReport report;
  report.failure = verdict.text();
  if (verdict.failed()) report.failure += drops(bed);
  for (sim::Host* host : {&bed.a, &bed.b}) {
    const Counters& counters = host->engine().counters();
    report.retransmits += counters.retransmits;
    report.naks += counters.sent_naks;
    report.sacks += counters.tx_sack;
    report.rnr_naks += counters.sent_rnr_naks;
    report.timeouts += counters.local_ack_timeout_err;
    report.icrc_errors += counters.rx_icrc_encapsulated;
    report.rx_dropped += host->port().counters().rx_dropped;
  }
  for (sim::Link* link : {bed.cable.a_to_b, bed.cable.b_to_a}) report.lost_frames += link->faults().lost;
  report.events = bed.world.events().handled();
  report.virtual_seconds = static_cast<double>((bed.world.now() - start).ns) / 1e9;
  return report;
}

MixedReport run_mixed(const MixedOptions& options) {
  return options.type == QpType::kRc ? run_rc(options) : run_unacked(options);
}

}  // namespace uroce::oracle
