// The TX engine of an interface: one block of descriptors becomes one frame on a cable and one completion.
#pragma once

#include <cstdint>
#include <span>

#include "pmd/card/completion_path.h"
#include "pmd/card/context.h"
#include "pmd/card/port.h"
#include "pmd/card/queue_manager.h"
#include "pmd/card/taken_packets.h"

namespace mqnic::card {

class TxEngine {
 public:
  TxEngine(Context& context, CompletionPath& path, RingManager& rings)
      : context_(&context), path_(&path), rings_(&rings) {}

  /// Takes the next packet of a queue that is enabled and not empty: reads its descriptors, and moves the consumer
  /// pointer.
  void take(uint16_t queue, uint8_t destination, TakenPacket& packet);
  /// Sends a packet through `port`, and completes it. When that is nullptr, the scheduler's destination has no port,
  /// and the frame is lost. False: not now, because the port is held, the cable is full, or the engine is stuck.
  bool send(const TakenPacket& packet, Port* port);
  /// Takes and sends packets of a queue, up to `most`, as long as they are ordinary ones and leave at once. Returns how
  /// many. Any other packet stays in its ring, for the two functions above.
  uint32_t stream(uint16_t queue, uint8_t destination, Port& port, uint32_t most);
  void reset() { wedged_ = false; }

 private:
  void wedge(uint16_t queue);
  void gather(std::span<const Descriptor> block, std::span<uint8_t> frame);
  void complete(const TakenPacket& packet, size_t bytes);

  Context* context_;
  CompletionPath* path_;
  RingManager* rings_;
  bool wedged_ = false;
};

/// Inserts the checksum that `command` (of a descriptor) asks for.
void insert_checksum(std::span<uint8_t> frame, uint16_t command);

}  // namespace mqnic::card
