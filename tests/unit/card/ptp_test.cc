// The PTP clock's registers. Which read latches and which write applies is from the documentation of the block (C080)
// and the RTL (mqnic_ptp_clock.v).
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

class CardPtp : public Rig {
 protected:
  static constexpr uint32_t kBlock = 0x100;
  static constexpr uint64_t kSecond = 1'000'000'000;

  CardPtp() {
    CardConfig config;
    config.ptp_update_ns = 0;
    build(config);
  }
  uint32_t ptp(uint32_t offset) { return read(kBlock + offset); }
  void set_ptp(uint32_t offset, uint32_t value) { write(kBlock + offset, value); }
  void to_time(uint64_t ns) {
    now_ns = ns;
    card->set_time(ns);
  }
  /// Whole nanoseconds of the time of day.
  uint64_t tod() { return (uint64_t{ptp(0x1c)} << 32 | ptp(0x18)) * kSecond + ptp(0x14); }
  uint64_t relative() { return uint64_t{ptp(0x24)} << 32 | ptp(0x20); }
};

TEST_F(CardPtp, RunsWithTheCardsTime) {
  to_time(12'345'678'901);
  EXPECT_EQ(ptp(0x14), 345'678'901u);
  EXPECT_EQ(ptp(0x18), 12u);
  EXPECT_EQ(ptp(0x1c), 0u);
  EXPECT_EQ(relative(), 12'345'678'901u);
  EXPECT_EQ(ptp(0x28), 0u);
  EXPECT_EQ(ptp(0x2c), 0u);
  to_time(100);  // the clock never goes back
  EXPECT_EQ(tod(), 12'345'678'901u);
}

TEST_F(CardPtp, ControlSaysLockedAndThePulse) {
  to_time(kSecond);
  EXPECT_EQ(ptp(0x0c), 0x00010100u);
  to_time(kSecond + (1u << 29));
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
  to_time(2 * kSecond);
  EXPECT_EQ(ptp(0x0c), 0x00010100u);
}

TEST_F(CardPtp, CurrentIsNotLatchedSnapshotIs) {
  to_time(1000);
  EXPECT_EQ(ptp(0x30), 0u);
  to_time(5 * kSecond + 7);
  EXPECT_EQ(ptp(0x14), 7u);
  EXPECT_EQ(ptp(0x34), 1000u);
  EXPECT_EQ(ptp(0x38), 0u);
  EXPECT_EQ(ptp(0x40), 1000u);
  ptp(0x30);  // latches again
  EXPECT_EQ(ptp(0x34), 7u);
  EXPECT_EQ(ptp(0x38), 5u);
  EXPECT_EQ(ptp(0x3c), 0u);
  EXPECT_EQ(ptp(0x40), 705'032'711u);  // 5000000007 modulo 2^32
  EXPECT_EQ(ptp(0x44), 1u);
}

TEST_F(CardPtp, SetTimeOfDayIsAppliedByTheUpperSeconds) {
  to_time(1000);
  set_ptp(0x54, 999'999'990);
  set_ptp(0x58, 0x89abcdef);
  EXPECT_EQ(tod(), 1000u) << "not yet";
  set_ptp(0x5c, 0x0123);
  EXPECT_EQ(ptp(0x14), 999'999'990u);
  EXPECT_EQ(ptp(0x18), 0x89abcdefu);
  EXPECT_EQ(ptp(0x1c), 0x0123u);
  EXPECT_EQ(relative(), 1000u) << "the relative time goes its own way";
  to_time(1020);
  EXPECT_EQ(ptp(0x14), 10u);
  EXPECT_EQ(ptp(0x18), 0x89abcdf0u);
  EXPECT_EQ(ptp(0x54), 999'999'990u);
  EXPECT_EQ(ptp(0x58), 0x89abcdefu);
}

TEST_F(CardPtp, SetRelativeIsAppliedByItsUpperHalf) {
  to_time(1000);
  set_ptp(0x60, 0xfffffff0);
  EXPECT_EQ(relative(), 1000u);
  set_ptp(0x64, 0xffff);
  EXPECT_EQ(relative(), 0xfffffffffff0u);
  EXPECT_EQ(tod(), 1000u);
  to_time(1032);
  EXPECT_EQ(relative(), 16u) << "48 bits";
}

TEST_F(CardPtp, OffsetsOfTheTimeOfDay) {
  to_time(10 * kSecond);
  set_ptp(0x50, 500'000'000);
  EXPECT_EQ(tod(), 10 * kSecond + 500'000'000);
  set_ptp(0x50, static_cast<uint32_t>(-500'000'001));
  EXPECT_EQ(tod(), 10 * kSecond - 1);
  set_ptp(0x50, 0);
  EXPECT_EQ(tod(), 10 * kSecond - 1);
  set_ptp(0x50, 0xc0000001);  // 30 bits with a sign: bits 31 and 30 do not count
  EXPECT_EQ(tod(), 10 * kSecond);
  EXPECT_EQ(relative(), 10 * kSecond);
}

TEST_F(CardPtp, OffsetsOfTheRelativeTime) {
  to_time(1000);
  set_ptp(0x68, 24);
  EXPECT_EQ(relative(), 1024u);
  set_ptp(0x68, static_cast<uint32_t>(-2000));
  EXPECT_EQ(relative(), (uint64_t{1} << 48) - 976);
  EXPECT_EQ(tod(), 1000u);
}

TEST_F(CardPtp, OffsetsOfAFraction) {
  to_time(1000);
  set_ptp(0x6c, 0x40000000);  // a quarter of a nanosecond
  EXPECT_EQ(ptp(0x10), 0x40000000u);
  EXPECT_EQ(tod(), 1000u);
  set_ptp(0x6c, static_cast<uint32_t>(-0x60000000));
  EXPECT_EQ(ptp(0x10), 0xe0000000u);
  EXPECT_EQ(tod(), 999u);
  EXPECT_EQ(relative(), 999u);
  set_ptp(0x6c, 0x20000000);
  EXPECT_EQ(tod(), 1000u);
  EXPECT_EQ(relative(), 1000u);
}

TEST_F(CardPtp, PeriodScalesTheClock) {
  EXPECT_EQ(ptp(0x74), 6u);
  EXPECT_EQ(ptp(0x70), 885'023'564u) << "34/165 of 2^32";
  EXPECT_EQ(ptp(0x78), ptp(0x70));
  EXPECT_EQ(ptp(0x7c), 6u);
  to_time(kSecond);
  set_ptp(0x78, 0);
  to_time(2 * kSecond);
  EXPECT_EQ(tod(), 2 * kSecond) << "applied by the nanoseconds";
  set_ptp(0x7c, 12);
  to_time(2 * kSecond + 1'024'000);
  // 12 ns for every 1024/165 ns.
  EXPECT_NEAR(static_cast<double>(tod()), 2e9 + 1'024'000.0 * 12 * 165 / 1024, 1.5);
  EXPECT_EQ(relative(), tod());
}

TEST_F(CardPtp, AFewPartsPerBillionDoNotDrift) {
  // +1 ppm for an hour in steps of a microsecond and more: 3.6 ms ahead.
  const uint64_t nominal = uint64_t{6} << 32 | 885'023'564;
  const uint64_t period = nominal + nominal / 1'000'000;
  set_ptp(0x78, static_cast<uint32_t>(period));
  set_ptp(0x7c, static_cast<uint32_t>(period >> 32));
  const uint64_t start = now_ns;
  card->set_time(start);
  const uint64_t begin = tod();
  uint64_t time = start;
  for (unsigned i = 0; i < 100'000; ++i) {
    time += 1000 + i % 7;
    card->set_time(time);
    ptp(0x10);
  }
  card->set_time(start + 3600 * kSecond);
  const double wanted = 3600e9 + 3600e9 * (static_cast<double>(period - nominal) / static_cast<double>(nominal));
  EXPECT_NEAR(static_cast<double>(tod() - begin), wanted, 1.5);
}

// "PPS bit 8: not set in the first half second."
TEST_F(CardPtp, NoPulseBeforeTheFirstSecond) {
  to_time(1000);
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
  to_time(kSecond - 1);
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
  to_time(kSecond);
  EXPECT_EQ(ptp(0x0c), 0x00010100u);
  card->reset();
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
}

TEST_F(CardPtp, StartsNearZeroWhateverTheHostsTimeIs) {
  card = std::make_unique<Card>(CardConfig{}, memory, std::span<Wire* const>{});
  card->set_time(77 * kSecond);
  card->set_time(77 * kSecond + 5);
  EXPECT_EQ(tod(), 5u);
  EXPECT_EQ(relative(), 5u);
}

// "Set and offset take effect late, an offset written while one is pending is dropped (bits 24-29)."
class CardPtpLate : public CardPtp {
 protected:
  CardPtpLate() { build({}); }
};

TEST_F(CardPtpLate, ASetIsPendingAndWhatIsWrittenMeanwhileIsLost) {
  to_time(1000);
  set_ptp(0x54, 7);
  set_ptp(0x58, 5);
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
  set_ptp(0x5c, 0);
  EXPECT_EQ(ptp(0x0c), 0x01010000u);
  set_ptp(0x54, 100);
  set_ptp(0x58, 200);
  set_ptp(0x5c, 300);
  EXPECT_EQ(tod(), 1000u);
  to_time(2999);
  EXPECT_EQ(ptp(0x0c), 0x01010000u);
  EXPECT_EQ(tod(), 2999u);
  to_time(3001);
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
  EXPECT_EQ(tod(), 5 * kSecond + 7 + 1);
  EXPECT_EQ(relative(), 3001u);
  to_time(kSecond / 2);
  EXPECT_EQ(ptp(0x18), 5u) << "nothing else comes";
}

TEST_F(CardPtpLate, OffsetsAreAppliedOnce) {
  const uint32_t registers[] = {0x50, 0x68, 0x6c};
  const uint32_t bits[] = {1u << 25, 1u << 27, 1u << 29};
  for (unsigned i = 0; i < 3; ++i) {
    build({});
    to_time(10'000);
    set_ptp(registers[i], 0);
    EXPECT_EQ(ptp(0x0c), 0x00010000u) << "an offset of 0 is none";
    set_ptp(registers[i], 40);
    set_ptp(registers[i], 4000);
    EXPECT_EQ(ptp(0x0c), 0x00010000u | bits[i]);
    EXPECT_EQ(tod(), 10'000u);
    to_time(20'000);
    EXPECT_EQ(ptp(0x0c), 0x00010000u);
    EXPECT_EQ(tod(), i == 0 ? 20'040u : 20'000u);
    EXPECT_EQ(relative(), i == 1 ? 20'040u : 20'000u);
  }
}

TEST_F(CardPtpLate, EachHasItsTime) {
  to_time(10'000);
  set_ptp(0x78, 0);
  set_ptp(0x7c, 0);  // the clock stands still, as soon as this is applied
  EXPECT_EQ(ptp(0x0c), 0x10010000u);
  to_time(11'000);
  set_ptp(0x60, 500);
  set_ptp(0x64, 0);
  EXPECT_EQ(ptp(0x0c), 0x14010000u);
  to_time(20'000);
  EXPECT_EQ(ptp(0x0c), 0x00010000u);
  EXPECT_EQ(tod(), 12'000u);
  EXPECT_EQ(relative(), 500u);
}

TEST_F(CardPtp, ReadOnlyRegistersRefuse) {
  const uint64_t before = card->report().bad_register_writes;
  for (const uint32_t offset : {0x00u, 0x0cu, 0x10u, 0x34u, 0x70u, 0x74u, 0x80u}) set_ptp(offset, 1);
  EXPECT_EQ(card->report().bad_register_writes, before + 7);
}

TEST_F(CardPtp, StampsOfCompletionsAreTheTimeOfDay) {
  bring_up();
  set_ptp(0x54, 123);
  set_ptp(0x58, 0x00054321);
  set_ptp(0x5c, 0);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(60));
  card->run(now_ns += 877, 1);
  EXPECT_EQ(u32(kTxCq + 8), ptp(0x14));
  EXPECT_EQ(u16(kTxCq + 0x0c), 0x4321u) << "the low 16 bits of the seconds";
  EXPECT_EQ(u32(kRxCq + 8), ptp(0x14));
  EXPECT_EQ(u16(kRxCq + 0x0c), 0x4321u);
}

}  // namespace
}  // namespace mqnic::card::test
