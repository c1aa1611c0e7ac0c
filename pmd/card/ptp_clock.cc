#include "pmd/card/ptp_clock.h"

#include <algorithm>

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
  asked_ = {};
  asked_.period_fraction = kNominalFraction;
  asked_.period_ns = kNominalNs;
  due_ns_.fill(kNever);
  had_second_ = false;
}

void PtpClock::request(Update update) {
  due_ns_[update] = now_ns_ + update_ns_;
  advance(now_ns_);
}

void PtpClock::apply(Update update) {
  due_ns_[update] = kNever;
  switch (update) {
    case kSetTod:
      tod_.seconds = asked_.tod_seconds;
      tod_.ns = asked_.tod_ns;
      break;
    case kOffsetTod:
      offset_tod(static_cast<int32_t>(asked_.offset_tod_ns << 2) >> 2);  // 30 bits with a sign
      break;
    case kSetRelative:
      tod_.relative_ns = asked_.relative_ns;
      break;
    case kOffsetRelative:
      tod_.relative_ns += static_cast<uint64_t>(int64_t{static_cast<int32_t>(asked_.offset_relative_ns)});
      tod_.relative_ns &= kMask48;
      break;
    case kSetPeriod:
      period_ = uint64_t{asked_.period_ns} << 32 | asked_.period_fraction;
      break;
    case kOffsetFraction:
      offset_fraction(static_cast<int32_t>(asked_.offset_fraction));
      break;
    case kUpdates:
      break;
  }
}

void PtpClock::advance(uint64_t now_ns) {
  for (;;) {
    const auto next = std::min_element(due_ns_.begin(), due_ns_.end());
    if (*next > std::max(now_ns, now_ns_)) break;
    pass(*next);
    apply(static_cast<Update>(next - due_ns_.begin()));
  }
  pass(now_ns);
}

/// Advances by (now - then) * period / nominal, exact to 2^-32 ns; the remainder of the division is carried over.
void PtpClock::pass(uint64_t now_ns) {
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
  had_second_ |= ns >= kNsPerSecond || total >= kNsPerSecond;
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

/// The pulse per second is stretched to the time in which bit 29 of the nanoseconds is clear; the clock is always
/// locked.
uint32_t PtpClock::control() const {
  uint32_t value = (had_second_ && (tod_.ns >> 29 & 1) == 0 ? 1u << 8 : 0) | 1u << 16;
  for (unsigned i = 0; i < kUpdates; ++i) value |= pending(static_cast<Update>(i)) ? 1u << (24 + i) : 0;
  return value;
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
      value = control();
      return true;
    case ptp::kOffsetTodNs:
      value = asked_.offset_tod_ns;
      return true;
    case ptp::kSetTodNs:
      value = asked_.tod_ns;
      return true;
    case ptp::kSetTodSecL:
      value = static_cast<uint32_t>(asked_.tod_seconds);
      return true;
    case ptp::kSetTodSecH:
      value = static_cast<uint32_t>(asked_.tod_seconds >> 16);  // the RTL gives bits 47:16, not 47:32
      return true;
    case ptp::kSetRelNsL:
      value = static_cast<uint32_t>(asked_.relative_ns);
      return true;
    case ptp::kSetRelNsH:
      value = static_cast<uint32_t>(asked_.relative_ns >> 16);  // likewise
      return true;
    case ptp::kOffsetRelNs:
      value = asked_.offset_relative_ns;
      return true;
    case ptp::kOffsetFns:
      value = asked_.offset_fraction;
      return true;
    case ptp::kNominalPeriodFns:
      value = kNominalFraction;
      return true;
    case ptp::kNominalPeriodNs:
      value = kNominalNs;
      return true;
    case ptp::kPeriodFns:
      value = asked_.period_fraction;
      return true;
    case ptp::kPeriodNs:
      value = asked_.period_ns;
      return true;
    default:
      return false;
  }
}

bool PtpClock::write(uint32_t offset, uint32_t value, uint64_t now_ns) {
  advance(now_ns);
  /// Stores what was written to a register; `asks`: the write asks for the update.
  const auto put = [&](Update update, auto& field, auto kept, bool asks) {
    if (pending(update)) return true;  // taken, and lost
    field = kept;
    if (asks) request(update);
    return true;
  };
  const auto low = [value](uint64_t field) { return (field & ~uint64_t{0xffffffffu}) | value; };
  const auto high = [value](uint64_t field) { return (field & 0xffffffffu) | uint64_t{value & 0xffff} << 32; };
  switch (offset) {
    case ptp::kOffsetTodNs:
      return put(kOffsetTod, asked_.offset_tod_ns, value, value != 0);
    case ptp::kSetTodNs:
      return put(kSetTod, asked_.tod_ns, value & 0x3fffffff, false);
    case ptp::kSetTodSecL:
      return put(kSetTod, asked_.tod_seconds, low(asked_.tod_seconds), false);
    case ptp::kSetTodSecH:  // the last of the group
      return put(kSetTod, asked_.tod_seconds, high(asked_.tod_seconds), true);
    case ptp::kSetRelNsL:
      return put(kSetRelative, asked_.relative_ns, low(asked_.relative_ns), false);
    case ptp::kSetRelNsH:
      return put(kSetRelative, asked_.relative_ns, high(asked_.relative_ns), true);
    case ptp::kOffsetRelNs:
      return put(kOffsetRelative, asked_.offset_relative_ns, value, value != 0);
    case ptp::kOffsetFns:
      return put(kOffsetFraction, asked_.offset_fraction, value, value != 0);
    case ptp::kPeriodFns:
      return put(kSetPeriod, asked_.period_fraction, value, false);
    case ptp::kPeriodNs:
      return put(kSetPeriod, asked_.period_ns, value & 0xff, true);
    default:
      return false;
  }
}

}  // namespace mqnic::card
