// The PTP hardware clock: time of day and relative time, with a common fraction, which advance with the card's time
// scaled by the period register. The registers behave as in mqnic_ptp_clock.v and ptp_td_phc.v, but updates are applied
// at once, so that the pending bits are never set.
#pragma once

#include <cstdint>

namespace mqnic::card {

class PtpClock {
 public:
  PtpClock() { reset(); }

  /// Time stamps of completions: nanoseconds, and the low 16 bits of the seconds.
  struct Stamp {
    uint32_t ns;
    uint16_t seconds;
  };
  Stamp stamp(uint64_t now_ns) {
    advance(now_ns);
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

  static uint32_t time_register(const Time& time, uint32_t index);
  void advance(uint64_t now_ns);
  void add(uint64_t ns);
  void offset_tod(int32_t ns);
  void offset_fraction(int32_t fraction);

  Time tod_, snapshot_;
  uint64_t now_ns_ = 0;
  uint64_t period_ = 0;     // the current one: nanoseconds and 32 bits of fraction
  uint64_t remainder_ = 0;  // of the division by the nominal period
  uint32_t set_tod_ns_ = 0, offset_tod_ns_ = 0, offset_relative_ns_ = 0, offset_fraction_ = 0;
  uint32_t set_period_fraction_ = 0, set_period_ns_ = 0;
  uint64_t set_tod_seconds_ = 0, set_relative_ns_ = 0;
};

}  // namespace mqnic::card
