// The PTP hardware clock: time of day and relative time, with a common fraction, which advance with the card's time
// scaled by the period register. The registers behave as in mqnic_ptp_clock.v and ptp_td_phc.v: an update crosses into
// another clock domain, so it takes effect later; until then it is pending, and what is written to its registers is
// lost.
#pragma once

#include <array>
#include <cstdint>

namespace mqnic::card {

class PtpClock {
 public:
  /// `update_ns`: how long an update is pending; 0: it takes effect at once.
  explicit PtpClock(uint64_t update_ns) : update_ns_(update_ns) { reset(); }
  /// Power comes on: the times start at 0 here.
  void begin(uint64_t now_ns) { now_ns_ = now_ns; }

  /// Time stamps of completions: nanoseconds, and the low 16 bits of the seconds.
  struct Stamp {
    uint32_t ns;
    uint16_t seconds;
  };
  Stamp stamp(uint64_t now_ns) {
    if (now_ns > now_ns_) advance(now_ns);
    return {tod_.ns, static_cast<uint16_t>(tod_.seconds)};
  }

  /// `offset` is from the start of the block. False when there is no such register.
  bool read(uint32_t offset, uint64_t now_ns, uint32_t& value);
  bool write(uint32_t offset, uint32_t value, uint64_t now_ns);

  /// Both times start at 0 again, from the card's time that was seen last.
  void reset();

 private:
  __extension__ using Wide = unsigned __int128;

  struct Time {
    uint64_t seconds = 0;      // 48 bits
    uint32_t ns = 0;           // below 10^9 unless software set it to more
    uint64_t relative_ns = 0;  // 48 bits
    uint32_t fraction = 0;     // of a nanosecond, in 2^-32
  };

  /// What can be pending; bit 24 and following of the control register.
  enum Update : uint8_t { kSetTod, kOffsetTod, kSetRelative, kOffsetRelative, kSetPeriod, kOffsetFraction, kUpdates };
  static constexpr uint64_t kNever = UINT64_MAX;

  static uint32_t time_register(const Time& time, uint32_t index);
  uint32_t control() const;
  bool pending(Update update) const { return due_ns_[update] != kNever; }
  void request(Update update);
  void apply(Update update);
  /// Lets time pass until `now_ns`, and applies the updates that become due.
  void advance(uint64_t now_ns);
  void pass(uint64_t now_ns);
  void add(uint64_t ns);
  void offset_tod(int32_t ns);
  void offset_fraction(int32_t fraction);

  Time tod_, snapshot_;
  const uint64_t update_ns_;
  std::array<uint64_t, kUpdates> due_ns_{};
  bool had_second_ = false;  // since the reset
  uint64_t now_ns_ = 0;
  uint64_t period_ = 0;     // the current one: nanoseconds and 32 bits of fraction
  uint64_t remainder_ = 0;  // of the division by the nominal period
  /// What was written last.
  struct Asked {
    uint32_t tod_ns = 0, offset_tod_ns = 0, offset_relative_ns = 0, offset_fraction = 0;
    uint32_t period_fraction = 0, period_ns = 0;
    uint64_t tod_seconds = 0, relative_ns = 0;
  };
  Asked asked_;
};

}  // namespace mqnic::card
