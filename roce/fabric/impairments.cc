#include "fabric/impairments.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::fabric {
namespace {

FrameFields fields_of(const FabricFrame& frame) {
  return frame.bytes >= kEthernetBytes ? inspect(frame.view()) : FrameFields{};
}

/// An address that no host has, because the frames of a storm have no real sender.
constexpr MacAddress kStormMac{{0x02, 0x00, 0x5f, 0xff, 0xff, 0xff}};

}  // namespace

bool Interval::contains(Duration since_start) const {
  if (since_start < from) return false;
  int64_t into_ns = since_start.ns - from.ns;
  if (period.ns > 0) into_ns %= period.ns;
  return into_ns < length.ns;
}

bool ImpairmentConfig::empty() const {
  return loss <= 0 && burst.to_bad <= 0 && burst.loss_when_good <= 0 && corrupt <= 0 && duplicate <= 0 &&
         reorder <= 0 && jitter.ns <= 0 && down.empty() && pause_storms.empty() && rules.empty();
}

Impairments::Chance::Chance(double probability)
    : threshold_(probability >= 1  ? uint64_t{1} << 32
                 : probability > 0 ? static_cast<uint64_t>(probability * 4294967296.0)
                                   : 0) {}

Impairments::Impairments(const ImpairmentConfig& config, FramePool& pool, RandomSource& random, Instant start)
    : pool_(pool),
      config_(config),
      rules_(config.rules.size()),
      start_(start),
      last_out_(start),
      loss_(config.loss),
      corrupt_(config.corrupt),
      duplicate_(config.duplicate),
      reorder_(config.reorder),
      to_bad_(config.burst.to_bad),
      to_good_(config.burst.to_good),
      loss_when_good_(config.burst.loss_when_good),
      loss_when_bad_(config.burst.loss_when_bad),
      loss_random_(random.next_u64()),
      burst_random_(random.next_u64()),
      corrupt_random_(random.next_u64()),
      rule_random_(random.next_u64()),
      duplicate_random_(random.next_u64()),
      reorder_random_(random.next_u64()),
      jitter_random_(random.next_u64()),
      active_(!config.empty()) {
  for (const FaultRule& rule : config.rules) {
    rules_need_roce_ |= rule.filter.needs_roce();
  }
  for (const PauseStorm& storm : config.pause_storms) storm_next_.push_back(start_ + storm.from);
  for (const Instant next : storm_next_) next_storm_ = std::min(next_storm_, next);
}

Duration Impairments::up_to(Duration span, SeededRandom& random) {
  if (span.ns <= 0) return {};
  return nanoseconds(1 + static_cast<int64_t>(random.next_u64() % static_cast<uint64_t>(span.ns)));
}

bool Impairments::is_down(Instant now) const {
  return std::any_of(config_.down.begin(), config_.down.end(),
                     [since = now - start_](const Interval& down) { return down.contains(since); });
}

Impairments::Verdict Impairments::apply_rules(FabricFrame& frame) {
  Verdict verdict;
  if (rules_.empty()) return verdict;
  const FrameFields fields = fields_of(frame);
  const std::optional<RoceFields> roce = rules_need_roce_ ? roce_fields(frame.view(), fields) : std::nullopt;
  for (size_t i = 0; i < rules_.size(); i++) {
    const FaultRule& rule = config_.rules[i];
    if (!rule.filter.fits(roce) || !rule.acts_on(++rules_[i].fits)) continue;
    rules_[i].hits++;
    ensure(rules_[i].hits <= rules_[i].fits, "a rule acts on what fits it");
    switch (rule.action) {
      case FaultRule::Action::kDrop:
        verdict.drop = true;
        break;
      case FaultRule::Action::kDelay:
        counters_.delayed_by_rule++;
        verdict.delay = {verdict.delay.ns + rule.delay.ns};
        break;
      case FaultRule::Action::kDuplicate:
        verdict.copies++;
        verdict.copy_delay = std::max(verdict.copy_delay, rule.delay);
        break;
      case FaultRule::Action::kCorrupt:
        counters_.corrupted_by_rule++;
        corrupt(frame, rule_random_);
        break;
      case FaultRule::Action::kMark:
        if (mark_congestion(frame.view(), fields)) counters_.marked_by_rule++;
        break;
    }
  }
  return verdict;
}

bool Impairments::burst_loses() {
  if (config_.burst.to_bad <= 0 && config_.burst.loss_when_good <= 0) return false;
  bad_ = bad_ ? !to_good_.happens(burst_random_) : to_bad_.happens(burst_random_);
  return (bad_ ? loss_when_bad_ : loss_when_good_).happens(burst_random_);
}

bool Impairments::is_lost(Instant now) {
  if (is_down(now)) {
    counters_.lost_while_down++;
    return true;
  }
  if (!config_.active.contains(now - start_)) return false;
  if (loss_.happens(loss_random_)) {
    counters_.lost++;
    return true;
  }
  if (burst_loses()) {
    counters_.lost_in_burst++;
    return true;
  }
  return false;
}

void Impairments::corrupt(FabricFrame& frame, SeededRandom& random) {
  if (frame.bytes == 0) return;
  uint32_t flipped[3];
  const uint32_t flips = 1 + random.below(3);
  for (uint32_t i = 0; i < flips; i++) {
    do {
      flipped[i] = random.below(frame.bytes * 8);
    } while (std::find(flipped, flipped + i, flipped[i]) != flipped + i);  // flipping a bit twice would do no damage
    uint8_t& byte = frame.data[flipped[i] / 8];
    byte = static_cast<uint8_t>(byte ^ (1u << (flipped[i] % 8)));
  }
}

uint32_t Impairments::on_frame(FabricFrame frame, Instant now, std::span<Delivery, kMaxDeliveries> out) {
  counters_.frames++;
  counters_.bytes += frame.bytes;
  out[0] = {frame, {}};
  if (!active_) return 1;
  const Verdict verdict = apply_rules(frame);
  if (verdict.drop) counters_.dropped_by_rule++;
  if (verdict.drop || is_lost(now)) {
    pool_.release(frame);
    return 0;
  }
  const bool chances = config_.active.contains(now - start_);
  if (chances && corrupt_.happens(corrupt_random_) && fields_of(frame).ip_version != 0) {
    counters_.corrupted++;
    corrupt(frame, corrupt_random_);
  }
  Duration delay{};
  if (chances && config_.jitter.ns > 0) {
    delay = up_to(config_.jitter, jitter_random_);
    delay = std::max(delay, last_out_ - now);  // without overtaking
    last_out_ = now + delay;
  }
  uint32_t count = 1;
  const auto copy = [&](Duration later, uint64_t& counter) {
    if (count == kMaxDeliveries) return;
    const FabricFrame twin = pool_.clone(frame);
    if (!twin) {
      counters_.no_frame_memory++;
      return;
    }
    counter++;
    out[count++] = {twin, {delay.ns + later.ns}};
  };
  for (uint32_t i = 0; i < verdict.copies; i++) copy(verdict.copy_delay, counters_.duplicated_by_rule);
  if (chances && duplicate_.happens(duplicate_random_)) {
    copy(up_to(config_.duplicate_span, duplicate_random_), counters_.duplicated);
  }
  delay = {delay.ns + verdict.delay.ns};
  if (chances && reorder_.happens(reorder_random_)) {
    counters_.reordered++;
    delay = {delay.ns + up_to(config_.reorder_span, reorder_random_).ns};
  }
  ensure(delay.ns >= 0, "no frame comes before it was sent");
  out[0] = {frame, delay};
  return count;
}

FabricFrame Impairments::poll_injected(Instant now) {
  if (now < next_storm_) return {};
  FabricFrame frame;
  next_storm_ = Instant::never();
  for (size_t i = 0; i < storm_next_.size(); i++) {
    const PauseStorm& storm = config_.pause_storms[i];
    Instant& next = storm_next_[i];
    if (!frame && next <= now) {
      frame = pool_.allocate(kPauseFrameBytes);
      if (frame) {
        Pause pause;
        pause.src_mac = kStormMac;
        pause.priorities = storm.priorities;
        pause.quanta.fill(storm.quanta);
        encode_pause(frame.view(), pause);
        counters_.pauses_injected++;
      } else {
        counters_.no_frame_memory++;
      }
      // Counts from now, so that a loop that was late does not send the missed frames at once.
      next = now + storm.every;
      const bool over = !Interval{storm.from, storm.length, {}}.contains(next - start_);
      if (over) next = Instant::never();
    }
    next_storm_ = std::min(next_storm_, next);
  }
  return frame;
}

}  // namespace uroce::fabric
