// A daemon has closed its standard input: the next descriptor to be opened is number 0, and one like any other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>

#include "host/hugepages.h"
#include "host/netdev.h"
#include "host/port_plan.h"

namespace uroce {
namespace {

/// Calls `f` without standard input. Whether descriptor 0 is free afterwards.
bool gives_back_zero(const std::function<void()>& f) {
  const int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  close(STDIN_FILENO);
  f();
  const bool closed = fcntl(STDIN_FILENO, F_GETFD) == -1;
  if (saved >= 0) dup2(saved, STDIN_FILENO);
  close(saved);
  return closed;
}

TEST(ClosedInput, InterfacesAreReadAllTheSame) {
  std::optional<Netdev> lo;
  EXPECT_TRUE(gives_back_zero([&] { lo = read_netdev("lo"); }));
  ASSERT_TRUE(lo);
  EXPECT_GT(lo->index, 0);
}

TEST(ClosedInput, HugepagesAreFoundAllTheSame) {
  const bool before = hugepages_usable(0);
  bool after = !before;
  EXPECT_TRUE(gives_back_zero([&] { after = hugepages_usable(0); })) << "of no bytes, so that it is tried everywhere";
  EXPECT_EQ(after, before);
}

TEST(ClosedInput, RightsAreTheSame) {
  EndpointConfig config;
  config.port = "net_af_packet0,iface=lo";
  PortPlan plan;
  std::string before;
  std::string after;
  const bool planned = plan_port(config, WireEndUse::kLook, plan, before);
  bool planned_after = !planned;
  EXPECT_TRUE(gives_back_zero([&] { planned_after = plan_port(config, WireEndUse::kLook, plan, after); }));
  EXPECT_EQ(planned_after, planned) << after;
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace uroce
