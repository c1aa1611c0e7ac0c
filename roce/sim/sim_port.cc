#include "sim/sim_port.h"

#include <algorithm>
#include <utility>

namespace uroce::sim {

SimPort::SimPort(uint32_t max_frame_bytes, Waker& waker) : waker_(waker), max_frame_bytes_(max_frame_bytes) {
  for (auto& buffer : tx_buffers_) buffer.resize(max_frame_bytes);
}

uint32_t SimPort::receive(RxFrame* frames, uint32_t max) {
  const auto count = std::min(max, static_cast<uint32_t>(received_.size()));
  for (uint32_t i = 0; i < count; i++) {
    frames[i] = {received_[i].data(), static_cast<uint32_t>(received_[i].size()), nullptr};
  }
  lent_ = count;
  return count;
}

void SimPort::release_rx(RxFrame* /*frames*/, uint32_t count) {
  received_.erase(received_.begin(), received_.begin() + std::min(count, lent_));
  lent_ = 0;
}

uint32_t SimPort::acquire_tx(TxFrame* frames, uint32_t max) {
  const uint32_t count = std::min({max, tx_room_, kMaxBurst});
  for (uint32_t i = 0; i < count; i++) frames[i] = {tx_buffers_[i].data(), max_frame_bytes_, 0, nullptr};
  return count;
}

void SimPort::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (frames[i].bytes == 0 || to_ == nullptr) continue;
    to_->deliver(Frame(frames[i].data, frames[i].data + frames[i].bytes));
  }
}

void SimPort::deliver(Frame&& frame) {
  received_.push_back(std::move(frame));
  waker_.wake();
}

}  // namespace uroce::sim
