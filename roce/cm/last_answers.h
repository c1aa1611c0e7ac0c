// The last answers that a program sent to its peers, which are not acknowledged. If one is lost, the peer repeats its
// message seconds later, in vain if the program has ended by then. So a program that ends sends them again.
#pragma once

#include <array>
#include <cstdint>

#include "cm/connection.h"
#include "cm/mad.h"
#include "uroce/time.h"

namespace uroce::cm {

class LastAnswers {
 public:
  static constexpr uint32_t kMost = 32;  // the newest
  /// An answer is then lost only if it is lost three times.
  static constexpr uint32_t kTimes = 2;

  void note(const AddressVector& av, const MadBytes& mad, Instant now) { answers_[count_++ % kMost] = {av, mad, now}; }
  /// Calls `say(av, mad)` kTimes for each answer that a peer may still wait for, once and for all. Returns how many
  /// calls.
  template <typename F>
  uint32_t repeat(Instant now, F&& say) {
    uint32_t calls = 0;
    for (uint32_t i = count_ > kMost ? count_ - kMost : 0; i < count_; i++) {
      const Answer& answer = answers_[i % kMost];
      if (now - answer.said > Outgoing{}.timeout) continue;
      for (uint32_t time = 0; time < kTimes; time++) say(answer.av, answer.mad);
      calls += kTimes;
    }
    count_ = 0;
    return calls;
  }

 private:
  struct Answer {
    AddressVector av;
    MadBytes mad;
    Instant said;
  };
  std::array<Answer, kMost> answers_{};
  uint32_t count_ = 0;
};

}  // namespace uroce::cm
