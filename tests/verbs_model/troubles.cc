// What befalls a program that is drawn already.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <utility>

#include "base/random.h"
#include "verbs_model/generate.h"

namespace uroce::model {

namespace {

constexpr const char* kNames[] = {"loss",   "reorder", "duplicate", "corrupt", "burst",  "jitter",   "flap",
                                  "pause",  "marks",   "late",      "queue",   "port",   "blackout", "reset",
                                  "vanish", "engine",  "clock",     "memory",  "spoofer"};
static_assert(std::size(kNames) == static_cast<size_t>(Trouble::kCount));

class Troubles {
 public:
  Troubles(Program& program, uint64_t seed, uint32_t without, uint32_t round)
      : program_(program),
        seed_(seed),
        without_(without),
        round_(round),
        length_(static_cast<uint32_t>(program.steps.size())) {
    for (const QueuePair& qp : program.qps) datagrams_ |= qp.type == QpType::kUd;
  }

  uint32_t draw() {
    SeededRandom random((seed_ << 8) + 0x7B0B1E);
    if (random.below(3) != 0 && (round_ == 0 || random.below(2) != 0)) return 0;
    draw_ways(random);
    draw_cables();
    draw_hosts();
    // In a course most rounds have none, so that connections last.
    if (round_ == 0 || SeededRandom((seed_ << 20) + round_).below(4) == 0) draw_moments();
    insert_moments();
    return drawn_;
  }

 private:
  /// Once in `often` programs; sets up the trouble's own random numbers.
  bool begin(Trouble trouble, uint32_t often) {
    const bool of_a_moment = trouble >= Trouble::kPort;
    const uint64_t round = of_a_moment ? uint64_t{round_} << 40 : 0;
    random_ = SeededRandom((seed_ << 8) + round + 0xFA0170u + static_cast<unsigned>(trouble));
    if (random_.below(often) != 0 || (without_ & bit(trouble)) != 0) return false;
    drawn_ |= bit(trouble);
    return true;
  }
  uint32_t below(uint32_t bound) { return random_.below(bound); }
  uint8_t any_endpoint() { return static_cast<uint8_t>(below(static_cast<uint32_t>(program_.endpoints.size()))); }
  uint8_t any_qp() { return static_cast<uint8_t>(below(static_cast<uint32_t>(program_.qps.size()))); }

  /// Either kind of address, and sometimes half the MTU; the longest datagram is still the port's MTU.
  void draw_ways(SeededRandom& random) {
    for (size_t pair = 0; pair < program_.qps.size(); pair += 2) {
      const bool ipv6 = random.below(2) == 0;
      const bool half = random.below(3) == 0;
      for (const size_t qp : {pair, pair + 1}) {
        program_.qps[qp].ipv6 = ipv6;
        if (half && program_.qps[qp].mtu > 256) program_.qps[qp].mtu /= 2;
      }
    }
  }

  [[gnu::format(printf, 2, 3)]] void on_a_cable(const char* format, ...) {
    char text[120];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    program_.faults.push_back({any_endpoint(), text});
  }

  void draw_cables() {
    // In hundredths of a per cent.
    const auto chance = [this](Trouble trouble, const char* word, uint32_t most, const char* rest) {
      if (!begin(trouble, 3)) return;
      const uint32_t part = 1 + below(most);
      on_a_cable("%s %u.%02u%%%s", word, part / 100, part % 100, rest);
    };
    chance(Trouble::kLoss, "loss", 150, "");
    const char* const late = SeededRandom((seed_ << 8) + 0x1A7E).below(4) == 0 ? " within 1500us" : " within 60us";
    chance(Trouble::kReorder, "reorder", 300, late);
    chance(Trouble::kDuplicate, "duplicate", 600, late);
    chance(Trouble::kCorrupt, "corrupt", 100, "");
    if (begin(Trouble::kBurst, 5)) {
      on_a_cable("burst-loss to-bad=%u%% to-good=%u%% bad=%u%%", 1 + below(8), 10 + below(70), 50 + below(50));
    }
    if (begin(Trouble::kJitter, 5)) on_a_cable("jitter %uus", 1 + below(40));
    if (begin(Trouble::kFlap, 6)) {
      const uint32_t length = 5 + below(300);
      const uint32_t period = length + 200 + below(3000);
      on_a_cable("down from %uus for %uus every %uus", below(500), length, period);
    }
    if (begin(Trouble::kPause, 6)) {
      const uint32_t length = 50 + below(5000);
      on_a_cable("pause-storm quanta=%u from %uus for %uus every %uus", 1 + below(65535), below(300), length,
                 10 + below(300));
      for (Endpoint& endpoint : program_.endpoints) endpoint.obeys_pauses = true;
    }
  }

  void draw_hosts() {
    if (begin(Trouble::kMarks, 4)) {
      const auto algorithm = static_cast<CongestionAlgorithm>(1 + below(3));
      for (Endpoint& endpoint : program_.endpoints) endpoint.congestion = algorithm;
      on_a_cable("mark every %u data", below(4) == 0 ? 1 : 2 + below(20));
    }
    if (begin(Trouble::kLate, 5)) program_.endpoints[any_endpoint()].turn_ns = 1000 + below(50'000);
    if (begin(Trouble::kQueue, 8)) program_.endpoints[any_endpoint()].rx_frames = 2 + below(30);
  }

  /// One end receives nothing any more, or neither does.
  void draw_blackout() {
    const uint32_t at = below(length_ + 1);
    const uint32_t ends = 1 + below(3);
    for (const uint32_t count : {0u, 1u}) {
      for (uint8_t i = 0; i < program_.endpoints.size(); i++) {
        if (i < 2 && (ends >> i & 1) != 0)
          moments_.emplace_back(at, Step{.what = Do::kCut, .endpoint = i, .count = count});
      }
      if (count == 0) moments_.emplace_back(at, Step{.what = Do::kRun, .count = 1'000'000 * (1 + below(15))});
    }
  }

  void at_any_moment(Step step) { moments_.emplace_back(below(length_ + 1), std::move(step)); }

  void draw_moments() {
    if (begin(Trouble::kPort, 6)) draw_spells(Do::kTxRoom, 8);
    if (begin(Trouble::kMemory, 6)) draw_spells(Do::kBuffers, 1);
    if (begin(Trouble::kBlackout, 8)) draw_blackout();
    if (begin(Trouble::kReset, 6)) {
      for (uint32_t count = 1 + below(3); count > 0; count--)
        at_any_moment({.what = Do::kConnect, .qp = static_cast<uint8_t>(any_qp() & ~1u), .count = 1});
    }
    if (begin(Trouble::kVanish, 6) && !datagrams_) {
      for (uint32_t count = 1 + below(2); count > 0; count--) come_again({.what = Do::kVanish, .qp = any_qp()});
    }
    if (begin(Trouble::kEngine, 8) && !datagrams_) {
      come_again({.what = Do::kRestart, .endpoint = any_endpoint(), .count = below(2)});
    }
    if (begin(Trouble::kClock, 6)) draw_leaps();
    if (!begin(Trouble::kSpoofer, 4)) return;
    for (uint32_t count = 1 + below(4); count > 0; count--) {
      const uint8_t qp = any_qp();
      if (program_.qps[qp].type != QpType::kRc) continue;
      at_any_moment({.what = Do::kSpoof, .qp = qp, .count = 1 + below(4)});
    }
  }

  /// None for a while, then some again.
  void draw_spells(Do what, uint32_t most) {
    for (uint32_t count = 1 + below(3); count > 0; count--) {
      const uint8_t endpoint = any_endpoint();
      at_any_moment({.what = what, .endpoint = endpoint, .count = 0});
      at_any_moment({.what = what, .endpoint = endpoint, .count = 1 + below(most)});
    }
  }

  /// One leap, or several so close together that no answer comes in between.
  void draw_leaps() {
    const uint8_t endpoint = any_endpoint();
    const uint32_t at = below(length_ + 1);
    for (uint32_t count = below(2) == 0 ? 1 : 1 + below(10); count > 0; count--) {
      const uint32_t by = below(3) == 0 ? 1'000'000 * (1 + below(4000)) : 1000 * (100 + below(5000));
      moments_.emplace_back(at, Step{.what = Do::kLeap, .endpoint = endpoint, .count = by});
      if (below(2) == 0) moments_.emplace_back(at, Step{.what = Do::kRun, .count = 1 + below(300'000)});
    }
  }

  /// What vanished is connected again some time later.
  void come_again(Step step) {
    const uint32_t at = below(length_ + 1);
    const uint32_t later = at + below(length_ + 1 - at);
    for (uint8_t qp = 0; qp < program_.qps.size(); qp += 2) {
      const bool concerned = step.what == Do::kVanish ? qp == (step.qp & ~1u)
                                                      : program_.qps[qp].endpoint == step.endpoint ||
                                                            program_.qps[qp + 1u].endpoint == step.endpoint;
      if (concerned) moments_.emplace_back(later, Step{.what = Do::kConnect, .qp = qp, .count = below(2)});
    }
    moments_.insert(moments_.begin(), {at, std::move(step)});
  }

  void insert_moments() {
    std::stable_sort(moments_.begin(), moments_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Step> all;
    size_t next = 0;
    for (uint32_t at = 0; at <= length_; at++) {
      for (; next < moments_.size() && moments_[next].first == at; next++) all.push_back(moments_[next].second);
      if (at < length_) all.push_back(std::move(program_.steps[at]));
    }
    program_.steps = std::move(all);
  }

  Program& program_;
  const uint64_t seed_;
  const uint32_t without_;
  const uint32_t round_;
  const uint32_t length_;  // without the troubles
  bool datagrams_ = false;
  uint32_t drawn_ = 0;
  SeededRandom random_{0};
  std::vector<std::pair<uint32_t, Step>> moments_;  // before which step
};

}  // namespace

std::string trouble_list(uint32_t bits) {
  std::string text;
  for (unsigned i = 0; i < std::size(kNames); i++) {
    if ((bits >> i & 1) != 0) text += (text.empty() ? "" : ",") + std::string(kNames[i]);
  }
  return text;
}

bool parse_troubles(std::string_view text, uint32_t& bits) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    const auto at = std::find(std::begin(kNames), std::end(kNames), name);
    if (at == std::end(kNames)) return false;
    bits |= 1u << (at - std::begin(kNames));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return true;
}

uint32_t draw_troubles(Program& program, uint64_t seed, uint32_t without, uint32_t round) {
  return Troubles(program, seed, without, round).draw();
}

}  // namespace uroce::model
