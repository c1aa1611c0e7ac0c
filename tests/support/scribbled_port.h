// A port whose frames lie in memory that a peer writes to: when the engine looks, all headers there are 0xFF already,
// and right only in the private copy. Code that reads a header in place is found out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "packet/packet.h"
#include "uroce/port.h"

namespace uroce::test {

class ScribbledPort final : public Port {
 public:
  explicit ScribbledPort(Port& port) : port_(port) {}

  uint32_t receive(RxFrame* frames, uint32_t max) override {
    const uint32_t count = port_.receive(frames, max);
    copies_.assign(count, {});
    for (uint32_t i = 0; i < count; i++) scribble(frames[i], copies_[i]);
    return count;
  }
  void release_rx(RxFrame* frames, uint32_t count) override {
    copies_.clear();
    port_.release_rx(frames, count);
  }
  uint32_t rx_backlog() override { return port_.rx_backlog(); }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override { return port_.acquire_tx(frames, max); }
  void send(TxFrame* frames, uint32_t count) override { port_.send(frames, count); }

 private:
  /// Each in a block of exactly its size, so that the address sanitizer sees a read behind it.
  struct Copy {
    std::vector<uint8_t> headers;
    std::vector<uint8_t> data;
  };

  static void scribble(RxFrame& frame, Copy& copy) {
    const uint32_t head = std::min(frame.bytes, RxFrame::kHeaderBytes);
    copy.headers.assign(frame.data, frame.data + head);
    copy.data.assign(frame.data, frame.data + frame.bytes);
    PacketView packet;
    const bool good = parse_frame({frame.data, frame.bytes}, packet) == ParseResult::kOk;
    // Payload and iCRC are read in place, wherever they begin.
    const auto scribbled = good ? static_cast<uint32_t>(packet.payload - frame.data) : head;
    std::fill_n(copy.data.begin(), scribbled, uint8_t{0xFF});
    frame.data = copy.data.data();
    frame.headers = copy.headers.data();
  }

  Port& port_;
  std::vector<Copy> copies_;
};

}  // namespace uroce::test
