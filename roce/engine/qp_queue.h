// QPs that wait for the engine, in the order in which they came, each once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ring.h"
#include "transport/qp.h"

namespace uroce {

/// Used by the engine only. QPs are known by their index; they must be removed before they are destroyed.
class QpQueue {
 public:
  /// `capacity`: how many may wait, of QPs with indices below `qps_max`.
  QpQueue(uint32_t capacity, uint32_t qps_max) : ring_(capacity), queued_(qps_max) {}

  bool empty() const { return ring_.empty(); }
  bool full() const { return ring_.full(); }
  uint32_t size() const { return ring_.size(); }
  bool contains(const Qp& qp) const { return queued_[qp.index()] != 0; }

  /// `qp` must not be queued, and there must be room.
  void push(Qp& qp) {
    ensure(!contains(qp), "a QP stands in a queue once");
    queued_[qp.index()] = 1;
    ring_.push(&qp);
  }
  /// The first; there must be one.
  Qp& front() { return *ring_.front(); }
  void pop() {
    queued_[ring_.front()->index()] = 0;
    ring_.pop();
  }
  /// Removes `qp` wherever it is in the queue; the others keep their order.
  void remove(const Qp& qp) {
    if (!contains(qp)) return;
    for (uint32_t n = ring_.size(); n != 0; n--) {
      Qp* other = ring_.front();
      ring_.pop();
      if (other != &qp) ring_.push(other);
    }
    queued_[qp.index()] = 0;
  }

  /// Moves `qp`, which is queued, to the head; the others keep their order.
  void put_first(Qp& qp) {
    remove(qp);
    push(qp);
    for (uint32_t n = ring_.size(); n > 1; n--) {
      Qp* other = ring_.front();
      ring_.pop();
      ring_.push(other);
    }
  }

 private:
  Ring<Qp*> ring_;
  std::vector<uint8_t> queued_;
};

}  // namespace uroce
