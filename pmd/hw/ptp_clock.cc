#include "pmd/hw/ptp_clock.h"

#include "pmd/hw/registers.h"

namespace mqnic {

namespace {

constexpr int64_t kSecond = kNanosecondsPerSecond;
// The offset register is for small corrections: above this the clock is read and set.
constexpr int64_t kOffsetMaxNs = 500000000;

}  // namespace

TimeOfDay PtpClock::time() const {
  // Not the current time, whose words go on between two reads.
  bus_.read32(block_ + ptp::kSnapshotFns);  // latches the rest
  TimeOfDay now;
  now.nanoseconds = bus_.read32(block_ + ptp::kSnapshotTodNs);
  now.seconds = bus_.read32(block_ + ptp::kSnapshotTodSecL);
  now.seconds |= uint64_t{bus_.read32(block_ + ptp::kSnapshotTodSecH) & 0xffff} << 32;
  return now;
}

bool PtpClock::pending() const {
  const uint32_t control = bus_.read32(block_ + ptp::kControl);
  return control != kAllOnes && (control & (ptp::kSetTodPending | ptp::kOffsetTodPending)) != 0;
}

void PtpClock::set_time(const TimeOfDay& time) {
  bus_.write32(block_ + ptp::kSetTodNs, time.nanoseconds);
  bus_.write32(block_ + ptp::kSetTodSecL, static_cast<uint32_t>(time.seconds));
  bus_.write32(block_ + ptp::kSetTodSecH, static_cast<uint32_t>(time.seconds >> 32) & 0xffff);
}

void PtpClock::adjust(int64_t nanoseconds) {
  if (nanoseconds > -kOffsetMaxNs && nanoseconds < kOffsetMaxNs) {
    bus_.write32(block_ + ptp::kOffsetTodNs, static_cast<uint32_t>(static_cast<int32_t>(nanoseconds)));
    return;
  }
  const TimeOfDay now = time();
  int64_t seconds = static_cast<int64_t>(now.seconds) + nanoseconds / kSecond;
  int64_t fraction = int64_t{now.nanoseconds} + nanoseconds % kSecond;
  if (fraction < 0) {
    fraction += kSecond;
    --seconds;
  } else if (fraction >= kSecond) {
    fraction -= kSecond;
    ++seconds;
  }
  if (seconds < 0) seconds = fraction = 0;
  set_time({static_cast<uint64_t>(seconds), static_cast<uint32_t>(fraction)});
}

}  // namespace mqnic
