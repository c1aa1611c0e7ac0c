// Who may try keys where a wrong key ends nothing: on an unreliable connection.
//
// A reliable connection ends with the first wrong key, so a guess costs a connection. An unreliable one drops the WRITE
// and lives on. So guesses have a budget: 64, and one more a second. When it is used up, keys that are new to the QP
// are not looked at, right or wrong, until there is budget again. Keys that it used before go on as ever, and a wrong
// key that comes again costs nothing, as it is no new guess: an honest program that holds on to one key too long pays
// once for it.
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
  static constexpr uint32_t kRemembered = 16;  // keys of either kind

  void reset() { *this = KeyGuard{}; }

  /// May `key` be looked up?
  bool allows(uint32_t key, Instant now) {
    refill(now);
    return left_ != 0 || good_.has(key) || wrong_.has(key);
  }
  /// It opened what it was to open.
  void on_good(uint32_t key) { good_.add(key); }
  /// It did not. True when this guess was the last for now: somebody should hear of it.
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
  /// The last few, each once.
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
