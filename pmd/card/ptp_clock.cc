#include "pmd/card/ptp_clock.h"

#include <utility>

#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

constexpr uint32_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kMask48 = (uint64_t{1} << 48) - 1;
// 1024/165 ns: the 161.1328125 MHz of 100G builds.
constexpr uint32_t kNominalNs = 6;
constexpr uint32_t kNominalFraction = static_cast<uint32_t>((uint64_t{1024 - 6 * 165} << 32) / 165);
constexpr uint64_t kNominal = uint64_t{kNominalNs} << 32 | kNominalFraction;

}  // namespace

void PtpClock::reset() {
  const uint64_t now_ns = now_ns_;
  tod_ = snapshot_ = {};
  now_ns_ = now_ns;
  period_ = kNominal;
  remainder_ = 0;
  set_tod_ns_ = offset_tod_ns_ = offset_relative_ns_ = offset_fraction_ = 0;
  set_period_fraction_ = kNominalFraction;
  set_period_ns_ = kNominalNs;
  set_tod_seconds_ = set_relative_ns_ = 0;
}

/// Advances by (now - then) * period / nominal, exact to 2^-32 ns; the remainder of the division is carried over.
void PtpClock::advance(uint64_t now_ns) {
  if (now_ns <= now_ns_) return;
  const Wide product = Wide{now_ns - now_ns_} * period_;
  now_ns_ = now_ns;
  const Wide rest = (Wide{static_cast<uint64_t>(product % kNominal)} << 32) + remainder_;
  const Wide ticks = ((product / kNominal) << 32) + rest / kNominal + tod_.fraction;
  remainder_ = static_cast<uint64_t>(rest % kNominal);
  tod_.fraction = static_cast<uint32_t>(ticks);
  add(static_cast<uint64_t>(ticks >> 32));
}

void PtpClock::add(uint64_t ns) {
  const uint64_t total = tod_.ns + ns % kNsPerSecond;
  tod_.seconds = (tod_.seconds + ns / kNsPerSecond + total / kNsPerSecond) & kMask48;
  tod_.ns = static_cast<uint32_t>(total % kNsPerSecond);
  tod_.relative_ns = (tod_.relative_ns + ns) & kMask48;
}

void PtpClock::offset_tod(int32_t ns) {
  int64_t total = int64_t{tod_.ns} + ns;
  if (total < 0) {
    total += kNsPerSecond;
    tod_.seconds = (tod_.seconds - 1) & kMask48;
  } else if (total >= kNsPerSecond) {
    total -= kNsPerSecond;
    tod_.seconds = (tod_.seconds + 1) & kMask48;
  }
  tod_.ns = static_cast<uint32_t>(total);
}

/// Moves both times by less than a nanosecond.
void PtpClock::offset_fraction(int32_t fraction) {
  const int64_t total = int64_t{tod_.fraction} + fraction;
  tod_.fraction = static_cast<uint32_t>(total);
  if (total < 0) {
    offset_tod(-1);
    tod_.relative_ns = (tod_.relative_ns - 1) & kMask48;
  } else {
    add(static_cast<uint64_t>(total >> 32));
  }
}

/// The registers of a group "fraction, ToD ns, seconds L and H, relative ns L and H", by their index in it.
uint32_t PtpClock::time_register(const Time& time, uint32_t index) {
  switch (index) {
    case 0:
      return time.fraction & 0xffff0000u;
    case 1:
      return time.ns;
    case 2:
      return static_cast<uint32_t>(time.seconds);
    case 3:
      return static_cast<uint32_t>(time.seconds >> 32);
    case 4:
      return static_cast<uint32_t>(time.relative_ns);
    case 5:
      return static_cast<uint32_t>(time.relative_ns >> 32);
    default:
      return 0;  // PTM, which is not in this design
  }
}

bool PtpClock::read(uint32_t offset, uint64_t now_ns, uint32_t& value) {
  advance(now_ns);
  if (offset >= ptp::kCurrentFns && offset < ptp::kSnapshotFns) {  // not latched: every read returns the present time
    value = time_register(tod_, (offset - ptp::kCurrentFns) / 4);
    return true;
  }
  if (offset >= ptp::kSnapshotFns && offset < ptp::kOffsetTodNs) {  // latched by reading the fraction
    if (offset == ptp::kSnapshotFns) snapshot_ = tod_;
    value = time_register(snapshot_, (offset - ptp::kSnapshotFns) / 4);
    return true;
  }
  switch (offset) {
    case ptp::kControl:
      // The pulse per second is stretched to the time in which bit 29 of the nanoseconds is clear; always locked.
      value = ((tod_.ns >> 29 & 1) == 0 ? 1u << 8 : 0) | 1u << 16;
      return true;
    case ptp::kOffsetTodNs:
      value = offset_tod_ns_;
      return true;
    case ptp::kSetTodNs:
      value = set_tod_ns_;
      return true;
    case ptp::kSetTodSecL:
      value = static_cast<uint32_t>(set_tod_seconds_);
      return true;
    case ptp::kSetTodSecH:
      value = static_cast<uint32_t>(set_tod_seconds_ >> 16);  // the RTL gives bits 47:16, not 47:32
      return true;
    case ptp::kSetRelNsL:
      value = static_cast<uint32_t>(set_relative_ns_);
      return true;
    case ptp::kSetRelNsH:
      value = static_cast<uint32_t>(set_relative_ns_ >> 16);  // likewise
      return true;
    case ptp::kOffsetRelNs:
      value = offset_relative_ns_;
      return true;
    case ptp::kOffsetFns:
      value = offset_fraction_;
      return true;
    case ptp::kNominalPeriodFns:
      value = kNominalFraction;
      return true;
    case ptp::kNominalPeriodNs:
      value = kNominalNs;
      return true;
    case ptp::kPeriodFns:
      value = set_period_fraction_;
      return true;
    case ptp::kPeriodNs:
      value = set_period_ns_;
      return true;
    default:
      return false;
  }
}

bool PtpClock::write(uint32_t offset, uint32_t value, uint64_t now_ns) {
  advance(now_ns);
  switch (offset) {
    case ptp::kOffsetTodNs:
      offset_tod_ns_ = value;
      offset_tod(static_cast<int32_t>(value << 2) >> 2);  // 30 bits with a sign
      return true;
    case ptp::kSetTodNs:
      set_tod_ns_ = value & 0x3fffffff;
      return true;
    case ptp::kSetTodSecL:
      set_tod_seconds_ = (set_tod_seconds_ & ~uint64_t{0xffffffffu}) | value;
      return true;
    case ptp::kSetTodSecH:  // the last of the group: applies it
      set_tod_seconds_ = (set_tod_seconds_ & 0xffffffffu) | uint64_t{value & 0xffff} << 32;
      tod_.seconds = set_tod_seconds_;
      tod_.ns = set_tod_ns_;
      return true;
    case ptp::kSetRelNsL:
      set_relative_ns_ = (set_relative_ns_ & ~uint64_t{0xffffffffu}) | value;
      return true;
    case ptp::kSetRelNsH:
      set_relative_ns_ = (set_relative_ns_ & 0xffffffffu) | uint64_t{value & 0xffff} << 32;
      tod_.relative_ns = set_relative_ns_;
      return true;
    case ptp::kOffsetRelNs:
      offset_relative_ns_ = value;
      tod_.relative_ns = (tod_.relative_ns + static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)})) & kMask48;
      return true;
    case ptp::kOffsetFns:
      offset_fraction_ = value;
      offset_fraction(static_cast<int32_t>(value));
      return true;
    case ptp::kPeriodFns:
      set_period_fraction_ = value;
      return true;
    case ptp::kPeriodNs:
      set_period_ns_ = value & 0xff;
      period_ = uint64_t{set_period_ns_} << 32 | set_period_fraction_;
      return true;
    default:
      return false;
  }
}

}  // namespace mqnic::card
