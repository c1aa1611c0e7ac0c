// How many endpoints a process may have.
#include "dpdk/endpoint_registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dpdk/endpoint_impl.h"
#include "transport/observer.h"

namespace uroce {
namespace {

TEST(EndpointRegistry, AsManyFitAgainWhenAllHaveGone) {
  EndpointRegistry registry;  // not the one of the process
  Observer observer;
  std::vector<std::unique_ptr<EndpointImpl>> endpoints;  // never opened
  for (size_t i = 0; i <= EndpointRegistry::kMaxEndpoints; i++) {
    endpoints.push_back(std::make_unique<EndpointImpl>(EndpointConfig{}, observer));
  }
  EndpointImpl& one_more = *endpoints.back();
  for (int life = 0; life < 2; life++) {
    std::string error;
    for (size_t i = 0; i < EndpointRegistry::kMaxEndpoints; i++) {
      EXPECT_TRUE(registry.add(*endpoints[i], error)) << "endpoint " << i << ", life " << life << ": " << error;
    }
    EXPECT_FALSE(registry.add(one_more, error));
    EXPECT_EQ(error, "this process has 32 endpoints already, as many as DPDK has ports");
    for (size_t i = 0; i < EndpointRegistry::kMaxEndpoints; i++) {
      registry.remove(*endpoints[i]);
      EXPECT_TRUE(registry.add(one_more, error)) << "the place of endpoint " << i << " is free: " << error;
      registry.remove(one_more);
      EXPECT_TRUE(registry.add(*endpoints[i], error)) << error;
    }
    for (size_t i = 0; i < EndpointRegistry::kMaxEndpoints; i++) registry.remove(*endpoints[i]);
  }
}

}  // namespace
}  // namespace uroce
