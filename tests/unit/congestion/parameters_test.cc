// Parameters by name.
#include "congestion/parameters.h"

#include <gmock/gmock.h>

#include <iterator>
#include <sstream>

#include "congestion/algorithms.h"

namespace uroce::test {
namespace {

using testing::HasSubstr;

TEST(Parameters, Algorithms) {
  for (const char* name : {"none", "dcqcn", "timely", "swift"}) {
    CongestionAlgorithm algorithm{};
    EXPECT_TRUE(parse_congestion_algorithm(name, algorithm));
    EXPECT_STREQ(congestion_algorithm_name(algorithm), name);
  }
  CongestionAlgorithm algorithm = CongestionAlgorithm::kSwift;
  EXPECT_FALSE(parse_congestion_algorithm("DCQCN", algorithm));
  EXPECT_FALSE(parse_congestion_algorithm("", algorithm));
  EXPECT_EQ(algorithm, CongestionAlgorithm::kSwift);
  EXPECT_EQ(congestion_algorithm_names(" or "), "none, dcqcn, timely or swift");
}

TEST(Parameters, EveryKind) {
  CongestionConfig config;
  std::string error;
  EXPECT_TRUE(set_congestion_parameter(config, "rpg_ai_rate=17", error));
  EXPECT_EQ(config.dcqcn.rpg_ai_rate, 17u);
  EXPECT_TRUE(set_congestion_parameter(config, "clamp_tgt_rate=0", error));
  EXPECT_FALSE(config.dcqcn.clamp_tgt_rate);
  EXPECT_TRUE(set_congestion_parameter(config, "timely_beta=0.25", error));
  EXPECT_EQ(config.timely.beta, 0.25);
  EXPECT_TRUE(set_congestion_parameter(config, "base_rtt", "13", error));
  EXPECT_EQ(config.base_rtt, microseconds(13));
  EXPECT_EQ(error, "");
}

TEST(Parameters, EachNameSetsAFieldOfItsOwn) {
  std::istringstream names(congestion_parameter_names());
  std::string error;
  CongestionConfig config;
  int count = 0;
  for (std::string name; names >> name; count++) {
    if (name == "profile") continue;
    EXPECT_TRUE(set_congestion_parameter(config, name, "1", error)) << error;
  }
  EXPECT_GE(count, 40);
  // All fields are 1 now, except those that no parameter sets.
  EXPECT_EQ(config.dcqcn.rpg_byte_reset, 1u);
  EXPECT_EQ(config.dcqcn.dce_tcp_g, 1u);
  EXPECT_EQ(config.swift.fs_max_cwnd, 1.0);
  EXPECT_EQ(config.notification.cnp_dscp, 1u);
  EXPECT_EQ(config.burst_bytes, 1u);
}

TEST(Parameters, WhatIsRefused) {
  CongestionConfig config;
  const struct {
    const char* assignment;
    const char* says;
  } kCases[] = {
      {"rpg_ai_rat=1", "there is no congestion parameter 'rpg_ai_rat'"},
      {"rpg_ai_rate=0", "rpg_ai_rate is '0': it is a whole number from 1 to 4000000"},
      {"rpg_ai_rate=1.5", "whole number"},
      {"rpg_ai_rate=5x", "rpg_ai_rate is '5x'"},
      {"rpg_ai_rate=", "rpg_ai_rate is ''"},
      {"rpg_ai_rate=nan", "rpg_ai_rate is 'nan'"},
      {"rpg_ai_rate=1e300", "rpg_ai_rate is '1e300'"},
      {"dce_tcp_g=1024", "from 0 to 1023"},
      {"timely_beta=1.1", "timely_beta is '1.1': it is a number from 0 to 1"},
      {"rpg_ai_rate", "'rpg_ai_rate' is not NAME=VALUE"},
      {"profile=best", "profile is 'best': it is paper, nic or hpcc"},
  };
  for (const auto& c : kCases) {
    std::string error;
    EXPECT_FALSE(set_congestion_parameter(config, c.assignment, error)) << c.assignment;
    EXPECT_THAT(error, HasSubstr(c.says));
  }
  EXPECT_EQ(config.dcqcn.rpg_ai_rate, 40u);
}

/// Each bound is accepted, and what lies beyond it is not.
TEST(Parameters, EveryBound) {
  const struct {
    const char* name;
    const char* least;
    const char* most;
  } kBounds[] = {
      {"dce_tcp_g", "0", "1023"},
      {"dce_tcp_rtt", "1", "1000000"},
      {"initial_alpha_value", "0", "1024"},
      {"alpha_by_interval", "0", "1"},
      {"rpg_gd", "0", "15"},
      {"rpg_min_dec_fac", "1", "100"},
      {"rate_reduce_monitor_period", "0", "1000000"},
      {"cut_by_interval", "0", "1"},
      {"rpg_time_reset", "1", "1000000"},
      {"rpg_byte_reset", "0", "4000000000"},
      {"rpg_threshold", "1", "31"},
      {"rpg_ai_rate", "1", "4000000"},
      {"rpg_hai_rate", "1", "4000000"},
      {"rpg_min_rate", "1", "4000000"},
      {"rpg_max_rate", "0", "4000000"},
      {"rate_to_set_on_first_cnp", "0", "4000000"},
      {"clamp_tgt_rate", "0", "1"},
      {"clamp_tgt_rate_after_time_inc", "0", "1"},
      {"timely_ewma", "0", "1"},
      {"timely_beta", "0", "1"},
      {"timely_t_low", "0", "1000000"},
      {"timely_t_high", "1", "1000000"},
      {"timely_min_rtt", "1", "1000000"},
      {"timely_ai_rate", "1", "4000000"},
      {"timely_hai_rate", "1", "4000000"},
      {"timely_hai_threshold", "1", "1000"},
      {"timely_patched", "0", "1"},
      {"timely_patched_beta", "0", "1"},
      {"timely_hai_below_t_low", "0", "1"},
      {"swift_target", "1", "1000000"},
      {"swift_ai", "0.001", "1000"},
      {"swift_beta", "0", "1"},
      {"swift_max_mdf", "0", "1"},
      {"swift_fs_range", "0", "1000000"},
      {"swift_fs_min_cwnd", "0.001", "1000"},
      {"swift_fs_max_cwnd", "0.01", "100000"},
      {"min_time_between_cnps", "0", "1000000"},
      {"cnp_dscp", "0", "63"},
      {"cnp_802p_prio", "0", "7"},
      {"has_win", "0", "1"},
      {"var_win", "0", "1"},
      {"base_rtt", "0", "1000000"},
      {"burst_bytes", "0", "10000000"},
  };
  std::istringstream names(congestion_parameter_names());
  EXPECT_EQ(std::distance(std::istream_iterator<std::string>(names), {}), std::ssize(kBounds) + 1);  // and `profile`
  for (const auto& bound : kBounds) {
    CongestionConfig config;
    std::string error;
    EXPECT_TRUE(set_congestion_parameter(config, bound.name, bound.least, error)) << error;
    EXPECT_TRUE(set_congestion_parameter(config, bound.name, bound.most, error)) << error;
    for (const char* const beyond : {"-1", "5000000000"}) {
      EXPECT_FALSE(set_congestion_parameter(config, bound.name, beyond, error)) << bound.name;
      EXPECT_THAT(error + "$", HasSubstr(std::string("from ") + bound.least + " to " + bound.most + "$"));
    }
  }
}

/// What a profile has to overwrite: the defaults, or other values.
CongestionConfig before(bool defaults) {
  CongestionConfig config;
  config.link_bits_per_second = 25'000'000'000;
  std::istringstream names(congestion_parameter_names());
  std::string error;
  for (std::string name; !defaults && names >> name;) {
    if (name == "profile" || name == "rpg_max_rate") continue;
    EXPECT_TRUE(set_congestion_parameter(config, name, "1", error)) << error;
  }
  return config;
}

TEST(Parameters, NicProfileSetsEveryField) {
  for (const bool defaults : {false, true}) {
    CongestionConfig config = before(defaults);
    std::string error;
    EXPECT_TRUE(set_congestion_parameter(config, "profile=nic", error));
    EXPECT_EQ(config.dcqcn.dce_tcp_rtt, 1u);
    EXPECT_EQ(config.dcqcn.initial_alpha_value, 1023u);
    EXPECT_TRUE(config.dcqcn.alpha_by_interval);
    EXPECT_EQ(config.dcqcn.rate_reduce_monitor_period, 4u);
    EXPECT_EQ(config.dcqcn.rpg_time_reset, 300u);
    EXPECT_EQ(config.dcqcn.rpg_byte_reset, 32767u);
    EXPECT_EQ(config.dcqcn.rpg_threshold, 1u);
    EXPECT_EQ(config.dcqcn.rpg_ai_rate, 5u);
    EXPECT_EQ(config.dcqcn.rpg_hai_rate, 50u);
    EXPECT_EQ(config.dcqcn.rpg_min_rate, 1u);
    EXPECT_FALSE(config.dcqcn.clamp_tgt_rate);
    EXPECT_EQ(config.notification.min_time_between_cnps, 4u);
  }
}

TEST(Parameters, HpccProfileSetsEveryField) {
  for (const bool defaults : {false, true}) {
    CongestionConfig config = before(defaults);
    std::string error;
    EXPECT_TRUE(set_congestion_parameter(config, "profile=hpcc", error));
    EXPECT_EQ(config.dcqcn.dce_tcp_g, 1020u);
    EXPECT_EQ(config.dcqcn.dce_tcp_rtt, 1u);
    EXPECT_EQ(config.dcqcn.initial_alpha_value, 1024u);
    EXPECT_TRUE(config.dcqcn.alpha_by_interval);
    EXPECT_EQ(config.dcqcn.rate_reduce_monitor_period, 4u);
    EXPECT_EQ(config.dcqcn.rpg_time_reset, 300u);
    EXPECT_EQ(config.dcqcn.rpg_byte_reset, 0u);
    EXPECT_EQ(config.dcqcn.rpg_threshold, 1u);
    EXPECT_EQ(config.dcqcn.rpg_ai_rate, 5u);
    EXPECT_EQ(config.dcqcn.rpg_hai_rate, 50u);
    EXPECT_EQ(config.dcqcn.rpg_min_rate, 1000u);
    EXPECT_FALSE(config.dcqcn.clamp_tgt_rate);
    EXPECT_EQ(config.timely.ai_rate, 25u);
    EXPECT_EQ(config.timely.hai_rate, 125u);
    EXPECT_TRUE(config.timely.hai_below_t_low);
    EXPECT_EQ(config.notification.min_time_between_cnps, 0u);
    EXPECT_EQ(config.burst_bytes, 0u);
  }
}

TEST(Parameters, Profiles) {
  CongestionConfig config;
  config.link_bits_per_second = 100'000'000'000;
  std::string error;
  EXPECT_TRUE(set_congestion_parameter(config, "profile=hpcc", error));
  EXPECT_EQ(config.dcqcn.rpg_ai_rate, 20u);
  EXPECT_EQ(config.dcqcn.rpg_hai_rate, 200u);
  EXPECT_EQ(config.timely.ai_rate, 100u);
  EXPECT_TRUE(config.dcqcn.cut_by_interval);
  EXPECT_TRUE(set_congestion_parameter(config, "profile=nic", error));
  EXPECT_EQ(config.dcqcn.dce_tcp_g, 1019u);
  EXPECT_FALSE(config.dcqcn.cut_by_interval);
  EXPECT_TRUE(set_congestion_parameter(config, "profile=paper", error));
  EXPECT_EQ(config.dcqcn.dce_tcp_g, 1020u);
  EXPECT_EQ(config.dcqcn.rpg_time_reset, 55u);
}

}  // namespace
}  // namespace uroce::test
