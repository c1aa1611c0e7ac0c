#include "engine/flow_rule_index.h"

#include <array>
#include <bit>

#include "base/check.h"
#include "engine/steering.h"

namespace uroce {
namespace {

constexpr size_t kKeyWords = sizeof(FlowKey) / 8;
using KeyWords = std::array<uint64_t, kKeyWords>;

KeyWords words_of(const FlowKey& key) { return std::bit_cast<KeyWords>(key); }

FlowKey masked(const FlowKey& key, const FlowKey& mask) {
  KeyWords words = words_of(key);
  const KeyWords bits = words_of(mask);
  for (size_t i = 0; i < kKeyWords; i++) words[i] &= bits[i];
  return std::bit_cast<FlowKey>(words);
}

}  // namespace

/// The program that makes flows chooses their values; if it chooses ones that collide, it slows down only itself.
size_t FlowRuleIndex::Hash::operator()(const FlowKey& key) const {
  uint64_t hash = 0;
  for (const uint64_t word : words_of(key)) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

void FlowRuleIndex::add(const FlowRule& flow) {
  const auto same_mask = [&](const auto& table) { return Equal()(table->mask, flow.match.mask); };
  auto table = std::find_if(tables_.begin(), tables_.end(), same_mask);
  if (table == tables_.end()) {
    found_.reserve(tables_.size() + 1);
    tables_.push_back(std::make_unique<Table>(flow.match.mask));
    table = tables_.end() - 1;
  }
  Chain& chain = (*table)->chains[flow.match.value];
  const Entry entry{flow.priority, ++last_number_, &flow};
  chain.insert(std::upper_bound(chain.begin(), chain.end(), entry, comes_before), entry);
}

void FlowRuleIndex::remove(const FlowRule& flow) {
  const auto same_mask = [&](const auto& table) { return Equal()(table->mask, flow.match.mask); };
  const auto table = std::find_if(tables_.begin(), tables_.end(), same_mask);
  ensure(table != tables_.end(), "a flow that is removed has a table");
  auto& chains = (*table)->chains;
  const auto chain = chains.find(flow.match.value);
  ensure(chain != chains.end(), "a flow that is removed has a chain");
  std::erase_if(chain->second, [&](const Entry& entry) { return entry.flow == &flow; });
  if (chain->second.empty()) chains.erase(chain);
  if (chains.empty()) tables_.erase(table);
}

void FlowRuleIndex::find_chains(const FlowKey& key) {
  found_.clear();
  for (const auto& table : tables_) {
    const auto chain = table->chains.find(masked(key, table->mask));
    if (chain == table->chains.end() || chain->second.empty()) continue;
    const Chain& entries = chain->second;
    found_.push_back({entries.data(), entries.data() + entries.size()});
  }
  std::make_heap(found_.begin(), found_.end(), comes_later);
}

}  // namespace uroce
