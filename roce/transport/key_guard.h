// Limits how many keys a peer can try on an unreliable connection, where a wrong key does not end the connection.
//
// A reliable connection ends with the first wrong key, so a guess costs a connection. An unreliable one drops the WRITE
// and lives on. So guesses have a budget: 64, and one more each second. When it is used up, keys that are new to the QP
// are not looked up, right or wrong, until there is budget again. Keys that were right before go on working, and a
// wrong key that comes again costs nothing, because it is no new guess: an honest program that uses one key for too
// long pays for it once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "uroce/time.h"

namespace uroce {

class KeyGuard {
 public:
  static constexpr uint32_t kGuesses = 64;
  static constexpr Duration kInterval = milliseconds(1000);
  static constexpr uint32_t kRemembered = 16;  // right keys, and as many wrong ones

  void reset() { *this = KeyGuard{}; }

  /// May `key` be looked up?
  bool allows(uint32_t key, Instant now) {
    refill(now);
    return left_ != 0 || good_.has(key) || wrong_.has(key);
  }
  /// The key was right.
  void on_good(uint32_t key) { good_.add(key); }
  /// The key was wrong. True when this guess used up the budget for the first time since it was full, which is worth
  /// reporting.
  bool on_wrong(uint32_t key, Instant now) {
    if (good_.has(key) || wrong_.has(key)) return false;
    if (left_ == kGuesses) refilled_ = now;
    wrong_.add(key);
    left_--;
    const bool news = left_ == 0 && !told_;
    told_ |= news;
    return news;
  }

 private:
  /// The last few keys, each once.
  class Keys {
   public:
    bool has(uint32_t key) const { return std::find(keys_.begin(), keys_.end(), key) != keys_.end(); }
    void add(uint32_t key) {
      if (keys_[last_] == key || has(key)) return;
      last_ = (last_ + 1) % kRemembered;
      keys_[last_] = key;
    }

   private:
    std::array<uint32_t, kRemembered> keys_{};  // 0 is no key
    uint32_t last_ = 0;
  };

  void refill(Instant now) {
    if (left_ == kGuesses) return;
    const auto more = std::min<int64_t>((now - refilled_).ns / kInterval.ns, kGuesses - left_);
    left_ += static_cast<uint32_t>(more);
    refilled_ = refilled_ + kInterval * more;
    if (left_ == kGuesses) told_ = false;
  }

  Keys good_;
  Keys wrong_;
  uint32_t left_ = kGuesses;
  bool told_ = false;  // since the budget was last full
  Instant refilled_{0};
};

}  // namespace uroce
