// Blocks of queue pair numbers from a list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/qpn_blocks.h"

namespace uroce::test {

struct ListedBlocks final : QpnBlocks {
  explicit ListedBlocks(std::vector<uint32_t> blocks) : list(std::move(blocks)) {}
  std::optional<uint32_t> take() override {
    if (next_ == list.size()) return std::nullopt;
    return list[next_++];
  }
  bool another_has(uint32_t qpn) override {
    return std::find(others.begin(), others.end(), qpn >> kQpnBlockBits) != others.end();
  }
  size_t taken() const { return next_; }

  std::vector<uint32_t> list;
  std::vector<uint32_t> others;  // blocks of other programs that live

 private:
  size_t next_ = 0;
};

}  // namespace uroce::test
