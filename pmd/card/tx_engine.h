// The TX engine of an interface: one block of descriptors becomes one frame on a cable and one completion.
#pragma once

#include <cstdint>
#include <span>

#include "pmd/card/completion_path.h"
#include "pmd/card/context.h"
#include "pmd/card/port.h"
#include "pmd/card/queue_manager.h"

namespace mqnic::card {

class TxEngine {
 public:
  enum class Result : uint8_t {
    kSent,
    kEmpty,    // the queue is empty or disabled
    kBlocked,  // not now, because the port is held or the cable is full
  };

  TxEngine(Context& context, CompletionPath& path) : context_(&context), path_(&path) {}

  /// Sends the next packet of a queue through `port`. When that is nullptr, the scheduler's destination has no port,
  /// and the frame is lost.
  Result send(RingManager::Queue& ring, uint16_t queue, Port* port, uint8_t destination);
  void reset() { wedged_ = false; }

 private:
  void wedge(uint16_t queue);
  void gather(std::span<const Descriptor> block, std::span<uint8_t> frame);
  void complete(const RingManager::Queue& ring, uint16_t queue, size_t bytes, uint8_t destination);

  Context* context_;
  CompletionPath* path_;
  bool wedged_ = false;
};

/// Inserts the checksum that `command` (of a descriptor) asks for.
void insert_checksum(std::span<uint8_t> frame, uint16_t command);

}  // namespace mqnic::card
