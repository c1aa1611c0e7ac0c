// This program in the segment's directory: its card, and its blocks of queue pair numbers.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "segment/block_claims.h"
#include "segment/directory.h"
#include "segment/service_claims.h"

namespace uroce::segment {

class Registration {
 public:
  /// Returns false, with one line in `error`, when that fails.
  bool join(const std::string& path, const MemberCard& card, std::string& error) {
    return directory_.open(path, error) && claims_.open(directory_, card.mac, error) &&
           services_.open(directory_, card.mac, error) && membership_.join(directory_, card, error);
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
  /// Of the services of this member's host.
  ServiceClaims& services() { return services_; }
  /// Tells the others what `change` makes of the card. Returns false, with one line in `error`, when that fails.
  bool update(const std::function<void(MemberCard&)>& change, std::string& error) {
    MemberCard card = membership_.card();
    change(card);
    return membership_.update(card, error);
  }
  // What others send to this member beside frames for its queue pairs. Each returns false, with one line in `error`,
  // when that cannot be told to them.
  /// Requests for these services.
  bool listen(const Listening& listening, std::string& error) {
    if (card().listens.size() >= kListensMax) {
      error = "more than " + std::to_string(kListensMax) + " services of one program: others do not find this one";
      return false;
    }
    return update([&](MemberCard& card) { card.listens.push_back(listening); }, error);
  }
  bool unlisten(const Listening& listening, std::string& error) {
    const auto remove = [&](MemberCard& card) {
      const auto found = std::find(card.listens.begin(), card.listens.end(), listening);
      if (found != card.listens.end()) card.listens.erase(found);
    };
    return update(remove, error);
  }
  /// RoCE frames to this multicast MAC, or none any more.
  bool want_group(const MacAddress& group, bool wanted, std::string& error) {
    if (wanted && card().groups.size() >= kGroupsMax) {
      error =
          "more than " + std::to_string(kGroupsMax) + " multicast groups of one program: it gets nothing of this one";
      return false;
    }
    const auto change = [&](MemberCard& card) {
      std::erase(card.groups, group);
      if (wanted) card.groups.push_back(group);
    };
    return update(change, error);
  }
  /// Copies of frames of other protocols: to these MACs, or to all.
  bool want_raw(const std::vector<MacAddress>& macs, bool all, std::string& error) {
    const auto change = [&](MemberCard& card) {
      card.raw = macs;
      card.raw_all = all;
    };
    return update(change, error);
  }
  /// In the child of a fork.
  void forget() {
    membership_.forget();
    claims_.forget();
    services_.forget();
    directory_.forget();
  }

 private:
  SystemRandom random_;
  Directory directory_;
  Membership membership_;
  BlockClaims claims_;
  ServiceClaims services_;
};

}  // namespace uroce::segment
