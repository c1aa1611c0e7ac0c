#include "pmd/hw/block_list.h"

#include <algorithm>
#include <cerrno>

namespace mqnic {

namespace {

// Real cards have fewer than 20 blocks in a list.
constexpr size_t kBlocksMax = 256;

const char* known_name(BlockType type) {
  switch (type) {
    case BlockType::kNone:
      return "hole";
    case BlockType::kClockInfo:
      return "clock info";
    case BlockType::kPtp:
      return "PTP clock";
    case BlockType::kInterfaces:
      return "interfaces";
    case BlockType::kInterfaceControl:
      return "interface control";
    case BlockType::kPort:
      return "port";
    case BlockType::kPortControl:
      return "port control";
    case BlockType::kScheduler:
      return "scheduler block";
    case BlockType::kApp:
      return "application";
    case BlockType::kStats:
      return "statistics";
    case BlockType::kIrq:
      return "interrupts";
    case BlockType::kEventQueues:
      return "event queues";
    case BlockType::kCompletionQueues:
      return "completion queues";
    case BlockType::kTxQueues:
      return "TX queues";
    case BlockType::kRxQueues:
      return "RX queues";
    case BlockType::kRxQueueMap:
      return "RX queue map";
    case BlockType::kSchedulerRoundRobin:
      return "round-robin scheduler";
    case BlockType::kFirmwareId:
      return "firmware ID";
  }
  return "unknown";
}

}  // namespace

std::string block_name(BlockType type) {
  char text[64];
  snprintf(text, sizeof(text), "0x%04x (%s)", static_cast<unsigned>(type), known_name(type));
  return text;
}

Failure BlockList::read(Bus& bus, uint32_t base, uint32_t start, const std::string& place, BlockList& out) {
  out.where_ = bus.name() + ": " + place;
  out.blocks_.clear();
  std::vector<uint32_t> seen;
  uint32_t link = start;
  do {
    const uint64_t offset = uint64_t{base} + link;
    if (offset % 4 != 0 || offset + 12 > bus.bar_bytes()) {
      return failure(-ENODEV, "%s: the block list leads to 0x%llx, which is outside the card's registers",
                     out.where_.c_str(), static_cast<unsigned long long>(offset));
    }
    const auto at = static_cast<uint32_t>(offset);
    if (std::find(seen.begin(), seen.end(), at) != seen.end() || seen.size() == kBlocksMax) {
      return failure(-ENODEV, "%s: the block list is a loop: it leads to 0x%x again", out.where_.c_str(), at);
    }
    seen.push_back(at);
    const Block block{BlockType{bus.read32(at + kBlockType)}, bus.read32(at + kBlockVersion), at};
    if (block.version == kAllOnes) {
      return failure(-ENODEV, "%s: all-ones at 0x%x: the card is gone, or needs a reset", out.where_.c_str(),
                     at + kBlockVersion);
    }
    if (block.type != BlockType::kNone) out.blocks_.push_back(block);
    link = bus.read32(at + kBlockNext);
  } while (link != 0);
  return {};
}

const Block* BlockList::find(BlockType type) const {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.type == type; });
  return found == blocks_.end() ? nullptr : &*found;
}

Failure BlockList::check_version(const Block& block, uint32_t version) const {
  if (block.version == version) return {};
  return failure(-ENODEV,
                 "%s: block %s at 0x%x has version 0x%x; this driver speaks 0x%x only (register generation v4, "
                 "2023-07-10 and later)",
                 where_.c_str(), block_name(block.type).c_str(), block.offset, block.version, version);
}

Failure BlockList::require(BlockType type, uint32_t version, uint32_t& offset) const {
  const Block* block = find(type);
  if (block == nullptr) {
    return failure(-ENODEV, "%s: block %s is missing; this driver needs version 0x%x of it (register generation v4)",
                   where_.c_str(), block_name(type).c_str(), version);
  }
  offset = block->offset;
  return check_version(*block, version);
}

}  // namespace mqnic
