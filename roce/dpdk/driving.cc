#include "dpdk/driving.h"

#include <algorithm>
#include <utility>

namespace uroce {

Driving::Next Driving::before(Instant now, bool called) const {
  if (progress_ == Progress::kInline) return {Do::kNap, kLongest};
  // A thread that was rung always makes a turn: only that tells what the ring was for, and clears the NIC's bell.
  if (progress_ == Progress::kThread || called || !program_drives(now)) return {Do::kDrive, {}};
  if (wakes_ != Wakes::kLeftLying) return {Do::kNap, polls_memory(now) ? kCatnap : kLookUnwoken};
  if (polls_memory(now)) return {Do::kNap, kCatnap};
  return {Do::kStandBack, std::clamp(nanoseconds((now - polls_since()).ns / 2), kLookFirst, kLookLast)};
}

/// The program may just have lost its CPU: the longer it has polled, the longer that is assumed.
Instant Driving::expected_until() const {
  const Instant last = last_driven();
  return last + std::clamp(nanoseconds((last - polls_since()).ns / 4), kDrivenRecently, kPreempted);
}

void Driving::note_turns(Instant now, bool rung, bool found) {
  if (rung && !found) lay_ = 0;
  if (!found) return;
  turns_a_find_ = (turns_a_find_ + std::exchange(program_turns_, 0)) / 2;
  if (polls_memory(now)) {
    if (turns_a_find_ <= kFewTurns) memory_until_ = now + kMemory;
    return;
  }
  if (now - last_driven() > kPreempted || last_driven() == lay_after_) return;
  lay_after_ = last_driven();
  lay_ = now - lay_since_ < kLeftLyingWithin ? lay_ + 1 : 1;
  if (lay_ == 1) lay_since_ = now;
  if (lay_ >= kLeftLying) memory_until_ = now + kMemory;
}

Driving::Next Driving::after(const Burst& burst) {
  const Instant now = burst.at;
  if (burst.work != 0) {
    last_work_ = now;
    nap_ = kSleepMin;
  }
  if (progress_ == Progress::kThread) return {burst.work != 0 ? Do::kDrive : Do::kYield, {}};
  if (now - last_work_ > kUnpolled) memory_until_ = {0};
  const bool can_sleep = wakes_ != Wakes::kNever && !burst.waiting;
  if (polls_memory(now) && now - last_work_ >= kAwake) return {Do::kNap, kCatnap};
  if (now - last_work_ < kAwake) {
    if (!crowded(now)) return {Do::kYield, {}};
    if (burst.program_busy || polls_memory(now)) return {Do::kNap, kCatnap};
    if (!can_sleep) return {Do::kYield, {}};
  }
  if (!can_sleep) return nap_after(burst);
  if (wakes_ == Wakes::kLeftLying && now < expected_until())
    return {Do::kStandBack, std::max(std::min(expected_until() - now, burst.next_timeout - now), kShortest)};
  return {Do::kSleep, kLongest};
}

Driving::Next Driving::nap_after(const Burst& burst) {
  const bool awaited = burst.at - last_work_ < kBusyPatience && burst.program_busy;
  const Duration most = burst.waiting || awaited ? kSleepMin : burst.has_qps ? kSleepMax : kSleepNoQps;
  const Duration until_timeout = std::max(burst.next_timeout - burst.at, kShortest);
  const Next next{Do::kNap, std::min({nap_, most, until_timeout})};
  nap_ = std::min(nap_ * 2, most);
  return next;
}

/// Each further long yield makes the assumption hold for longer.
void Driving::note_yielded(Instant before, Instant after) {
  if (after - before <= kYieldWasLong) return;
  const bool again = before - crowded_until_ < crowded_for_;
  crowded_for_ = again ? std::min(crowded_for_ * 2, kCrowdedMost) : kCrowdedFirst;
  crowded_until_ = after + crowded_for_;
}

}  // namespace uroce
