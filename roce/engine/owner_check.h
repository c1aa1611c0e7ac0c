// Asks whether who calls an engine is the thread that owns it.
#pragma once

#include "base/check.h"
#include "base/owner.h"

namespace uroce {

class OwnerCheck {
 public:
  /// Whoever passes the engine between threads notes in `owner` who has it. `owner` outlives this.
  void follow(const Owner& owner) { owner_ = &owner; }
  void check() const { ensure(owner_ == nullptr || owner_->is_me(), "an engine is used by the thread that owns it"); }

 private:
  const Owner* owner_ = nullptr;  // none: nobody says
};

}  // namespace uroce
