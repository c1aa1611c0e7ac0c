// A cable that is slow, long or bad. It stands between the card and the real wire.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pmd/card/wire.h"
#include "pmd/card/wires/knobs.h"

namespace mqnic::card {

/// Its time is that passed to `flush`, so that with virtual time everything repeats. What happens to a frame depends
/// only on the seed and on the number of the frame.
///
/// All memory is allocated at the start: at most kSlots frames are on the way. When all slots are used, or when the
/// bandwidth is used up for some time ahead, the wire takes no more and the card keeps its packet.
class ImpairedWire final : public Wire {
 public:
  ImpairedWire(std::unique_ptr<Wire> inner, const WireKnobs& knobs);

  bool connected() override { return inner_->connected(); }
  unsigned end() const override { return inner_->end(); }
  void set_receiving(bool receiving) override { inner_->set_receiving(receiving); }
  std::string take_message() override { return inner_->take_message(); }
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t bytes) override;
  std::span<const uint8_t> front() override;
  void pop() override;
  void flush(uint64_t now_ns) override;

  struct Counts {
    uint64_t lost = 0, corrupted = 0, duplicated = 0, reordered = 0, pauses = 0;
  };
  const Counts& counts() const { return counts_; }

  static constexpr uint32_t kSlots = 4096;

 private:
  struct Frame {
    uint32_t slot = 0;
    uint32_t bytes = 0;
    uint64_t due_ns = 0;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  uint8_t* slot_bytes(uint32_t slot);
  uint64_t random(unsigned purpose) const;
  bool happens(double chance, unsigned purpose) const;
  uint64_t time_on_wire_ns(size_t bytes) const;
  void send(const Frame& frame);
  void queue(const Frame& frame);
  void set_times();
  bool deliver(const Frame& frame);

  std::unique_ptr<Wire> inner_;
  WireKnobs knobs_;
  Counts counts_;
  std::unique_ptr<uint8_t[]> memory_;
  std::vector<uint32_t> free_slots_;
  std::vector<Frame> queue_;  // a ring of kSlots, in the order of departure
  uint32_t queue_head_ = 0;
  uint32_t queue_tail_ = 0;
  uint32_t queue_timed_ = 0;  // frames behind this one were sent since the last flush, and have no time yet
  Frame held_;                // waits since due_ns until the next frame has gone first; slot kNone: there is none
  uint32_t open_slot_ = kNone;
  uint64_t frame_number_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t free_at_ns_ = 0;  // when the last bit of the last frame is out
  uint64_t fresh_ns_ = 0;    // how long it takes to send what was committed since the last flush
  uint64_t lost_ns_ = 0;     // the part of that for frames that are lost
  uint64_t backlog_ns_ = 0;  // how far ahead of the present time that may be
  uint64_t next_pause_ns_ = 0;
  bool pause_shown_ = false;
  std::vector<uint8_t> pause_frame_;
};

}  // namespace mqnic::card
