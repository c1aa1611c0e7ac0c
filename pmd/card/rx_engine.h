// The RX engine of an interface: writes a frame to one block of descriptors of the queue that the map gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pmd/card/completion_path.h"
#include "pmd/card/context.h"
#include "pmd/card/queue_manager.h"
#include "pmd/card/rss.h"

namespace mqnic::card {

class RxEngine {
 public:
  RxEngine(Context& context, CompletionPath& path, RingManager& rings, RxQueueMap& map)
      : context_(&context), path_(&path), rings_(&rings), map_(&map) {}

  /// Delivers or drops the frame. The card has no counter for drops.
  void receive(std::span<const uint8_t> frame, uint8_t port, uint32_t mtu);

 private:
  uint16_t deliver(const RingManager::Queue& ring, std::span<const uint8_t> frame, size_t kept);
  uint16_t scatter(std::span<const Descriptor> block, std::span<const uint8_t> frame, size_t kept);

  Context* context_;
  CompletionPath* path_;
  RingManager* rings_;
  RxQueueMap* map_;
  FrameHasher hasher_;
};

}  // namespace mqnic::card
