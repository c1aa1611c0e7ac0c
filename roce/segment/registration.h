// This program in the segment's directory: its card, and its blocks of queue pair numbers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/random.h"
#include "segment/block_claims.h"
#include "segment/directory.h"

namespace uroce::segment {

class Registration {
 public:
  /// Returns false, with one line in `error`, when that fails.
  bool join(const std::string& path, const MemberCard& card, std::string& error) {
    return directory_.open(path, error) && claims_.open(directory_, card.mac, error) &&
           membership_.join(directory_, card, error);
  }
  Directory& directory() { return directory_; }
  MemberId id() const { return membership_.id(); }
  const MemberCard& card() const { return membership_.card(); }
  /// A further block. Nothing when there is none; or, with one line in `error`, when that cannot be told to the others.
  std::optional<uint32_t> take_block(std::string& error) {
    const auto block = claims_.take(random_);
    if (!block) return std::nullopt;
    MemberCard card = membership_.card();
    card.blocks.push_back(*block);
    return membership_.update(card, error) ? block : std::nullopt;
  }
  /// Tells the others what `change` makes of the card. Returns false, with one line in `error`, when that fails.
  bool update(const std::function<void(MemberCard&)>& change, std::string& error) {
    MemberCard card = membership_.card();
    change(card);
    return membership_.update(card, error);
  }
  /// In the child of a fork.
  void forget() {
    membership_.forget();
    claims_.forget();
    directory_.forget();
  }

 private:
  SystemRandom random_;
  Directory directory_;
  Membership membership_;
  BlockClaims claims_;
};

}  // namespace uroce::segment
