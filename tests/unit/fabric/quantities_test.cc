// Rates, bytes and thresholds, as users write them.
#include "fabric/quantities.h"

#include <gtest/gtest.h>

namespace uroce::fabric {
namespace {

TEST(Quantities, Rates) {
  EXPECT_EQ(parse_rate("1G"), 1'000'000'000u);
  EXPECT_EQ(parse_rate("2.5g"), 2'500'000'000u);
  EXPECT_EQ(parse_rate("500M"), 500'000'000u);
  EXPECT_EQ(parse_rate("1K"), 1000u);
  EXPECT_EQ(parse_rate("9600"), 9600u);
  for (const char* text : {"", "G", "0", "999", "-1G", "1X", "1GB", "1 G", "nan", "inf", "1e40"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(Quantities, Ecn) {
  std::optional<EcnConfig> ecn;
  EXPECT_EQ(parse_ecn("on", ecn), "");
  ASSERT_TRUE(ecn);
  EXPECT_NE(ecn->per_bits_per_second, 0u) << "thresholds that grow with the rate";
  EXPECT_EQ(parse_ecn("kmin=5K,kmax=1.5M,pmax=0.1", ecn), "");
  EXPECT_EQ(ecn->kmin_bytes, 5000u);
  EXPECT_EQ(ecn->kmax_bytes, 1'500'000u);
  EXPECT_EQ(ecn->pmax, 0.1);
  EXPECT_EQ(ecn->per_bits_per_second, 0u) << "thresholds as they are";
  EXPECT_EQ(parse_ecn("kmin=900K", ecn), "");
  EXPECT_EQ(ecn->kmax_bytes, 900'000u) << "never below kmin";
  for (const char* text :
       {"", "off", "kmin", "kmin=", "kmin=x", "kmin=9G", "pmax=2", "kmax=1K", "kmin=1,", "pmax=1K"}) {
    EXPECT_NE(parse_ecn(text, ecn), "") << text;
  }
}

}  // namespace
}  // namespace uroce::fabric
