// Packets that the TX engine has taken from their rings and that have not left yet: their port is held, or the cable is
// full. As in the RTL (tx_engine.v): their descriptors have been read, their data have not; the ring's consumer pointer
// is past them; and neither disabling their queue nor configuring it anew takes them back. They leave when the port may
// send, with what their buffers contain then, and complete into the completion queue that their ring named when they
// were taken, whichever ring has that one by then.
#pragma once

#include <array>
#include <cstdint>

#include "pmd/card/descriptor_block.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {

struct TakenPacket {
  DescriptorBlock block;
  uint8_t pieces = 0;  // descriptors of the block; 0: they are not in mapped memory
  uint8_t destination = 0;
  // The ring's values when the packet was taken; the index was its consumer pointer.
  uint16_t queue = 0, index = 0, completion_queue = 0;
};

/// The packets of one scheduler, in the order in which they were taken.
class TakenPackets {
 public:
  static constexpr size_t kMost = kTxTakenMost;  // as observed with the RTL

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kMost; }
  const TakenPacket& front() const { return packets_[first_]; }
  void pop() {
    first_ = (first_ + 1) % kMost;
    --count_;
  }
  void push(const TakenPacket& packet) { packets_[(first_ + count_++) % kMost] = packet; }
  void clear() { first_ = count_ = 0; }

 private:
  std::array<TakenPacket, kMost> packets_{};
  size_t first_ = 0, count_ = 0;
};

}  // namespace mqnic::card
