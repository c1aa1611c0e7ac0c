// Checks that the thread that calls an engine owns it.
#pragma once

#include "base/check.h"
#include "base/lock_holder.h"

namespace uroce {

class LockCheck {
 public:
  /// A caller that passes the engine between threads notes its owner in `owner`. `owner` outlives this.
  void follow(const LockHolder& owner) { owner_ = &owner; }
  void check() const { ensure(owner_ == nullptr || owner_->is_me(), "an engine is used by the thread that owns it"); }

 private:
  const LockHolder* owner_ = nullptr;  // nullptr: not checked
};

}  // namespace uroce
