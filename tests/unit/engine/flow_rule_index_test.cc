// The flows that match a frame, found by tables, against their definition: all of them looked at, one by one.
#include "engine/flow_rule_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/steering.h"

namespace uroce::test {
namespace {

/// Few bits, so that frames match often: in each byte that a mask may cover, only the lowest two bits vary.
constexpr size_t kOffsets[] = {0, 5, 11, 14, 17, 19, 30, 46, 65, 67, 71};

using KeyBytes = std::array<uint8_t, sizeof(FlowKey)>;

FlowKey drawn_key(RandomSource& random) {
  KeyBytes bytes{};
  for (const size_t at : kOffsets) bytes[at] = random.next_u32() & 3;
  return std::bit_cast<FlowKey>(bytes);
}

/// One of `masks` masks; the first matches everything.
FlowKey drawn_mask(RandomSource& random, uint32_t masks) {
  const uint32_t which = random.next_u32() % masks;
  SeededRandom its(which);
  KeyBytes bytes{};
  for (const size_t at : kOffsets) {
    if (which != 0 && its.next_u32() % 3 == 0) bytes[at] = static_cast<uint8_t>(its.next_u32() & 3);
  }
  return std::bit_cast<FlowKey>(bytes);
}

std::unique_ptr<FlowRule> drawn_flow(RandomSource& random, uint32_t masks) {
  auto flow = std::make_unique<FlowRule>();
  flow->priority = static_cast<uint16_t>(random.next_u32() % 4);
  flow->match.mask = drawn_mask(random, masks);
  KeyBytes bytes = std::bit_cast<KeyBytes>(drawn_key(random));
  const KeyBytes mask = std::bit_cast<KeyBytes>(flow->match.mask);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] &= mask[i];
  flow->match.value = std::bit_cast<FlowKey>(bytes);
  return flow;
}

/// The definition: by priority, then by age.
std::vector<const FlowRule*> one_by_one(const std::vector<std::unique_ptr<FlowRule>>& flows, const FlowKey& key) {
  std::vector<const FlowRule*> matching;
  for (const auto& flow : flows) {
    if (flow->match.matches(key)) matching.push_back(flow.get());
  }
  std::stable_sort(matching.begin(), matching.end(),
                   [](const FlowRule* a, const FlowRule* b) { return a->priority < b->priority; });
  return matching;
}

std::vector<const FlowRule*> by_index(FlowRuleIndex& index, const FlowKey& key, size_t most = SIZE_MAX) {
  std::vector<const FlowRule*> matching;
  index.for_each_match(key, [&](const FlowRule& flow) {
    matching.push_back(&flow);
    return matching.size() < most;
  });
  return matching;
}

TEST(FlowRuleIndex, FindsWhatTheDefinitionFinds) {
  uint64_t found = 0;
  for (uint32_t seed = 1; seed <= 30; seed++) {
    SeededRandom random(seed);
    const uint32_t masks = 1 + random.next_u32() % 40;
    std::vector<std::unique_ptr<FlowRule>> flows;
    FlowRuleIndex index;
    for (int step = 0; step < 600; step++) {
      if (flows.empty() || random.next_u32() % 3 != 0) {
        flows.push_back(drawn_flow(random, masks));
        index.add(*flows.back());
      } else {
        const size_t which = random.next_u32() % flows.size();
        index.remove(*flows[which]);
        flows.erase(flows.begin() + static_cast<ptrdiff_t>(which));
      }
      const FlowKey key = drawn_key(random);
      const auto expected = one_by_one(flows, key);
      found += expected.size();
      ASSERT_EQ(by_index(index, key), expected) << "seed " << seed << ", step " << step;
    }
    for (const auto& flow : flows) index.remove(*flow);
    EXPECT_EQ(index.masks(), 0u);
  }
  EXPECT_GT(found, 50'000u) << "else hardly anything was compared";
}

TEST(FlowRuleIndex, EndsWhenItIsTold) {
  SeededRandom random(1);
  std::vector<std::unique_ptr<FlowRule>> flows;
  FlowRuleIndex index;
  for (int i = 0; i < 200; i++) {
    flows.push_back(drawn_flow(random, 2));
    index.add(*flows.back());
  }
  const FlowKey key = drawn_key(random);
  const auto all = one_by_one(flows, key);
  ASSERT_GT(all.size(), 5u);
  for (size_t most = 1; most <= all.size(); most++)
    EXPECT_EQ(by_index(index, key, most),
              (std::vector<const FlowRule*>(all.begin(), all.begin() + static_cast<ptrdiff_t>(most))));
}

}  // namespace
}  // namespace uroce::test
