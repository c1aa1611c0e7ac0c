// This program in the segment's directory: its record, and its blocks of queue pair numbers.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "segment/block_claims.h"
#include "segment/directory.h"
#include "segment/mailbox.h"
#include "segment/service_claims.h"
#include "uroce/time.h"

namespace uroce::segment {

class Registration {
 public:
  /// Returns false, with one line in `error`, when that fails.
  bool join(const std::string& path, const MemberRecord& record, std::string& error) {
    return directory_.open(path, error) && claims_.open(directory_, record.mac, error) &&
           services_.open(directory_, record.mac, error) && membership_.join(directory_, record, error);
  }
  Directory& directory() { return directory_; }
  MemberId id() const { return membership_.id(); }
  const MemberRecord& record() const { return membership_.record(); }
  /// A further block. Nothing when there is none; or, with one line in `error`, when the others cannot be told.
  std::optional<uint32_t> take_block(std::string& error) {
    if (record().blocks.size() >= kBlocksMax) return std::nullopt;
    const auto block = claims_.take(random_);
    if (!block) return std::nullopt;
    MemberRecord record = membership_.record();
    record.blocks.push_back(*block);
    if (note(membership_.update(std::move(record), error), error) == 0) return block;
    claims_.give_back(*block);
    return std::nullopt;
  }
  /// The claims on services of this member's host.
  ServiceClaims& services() { return services_; }

  // The following changes are published to the others. A directory without room is reported once: `error` has one line
  // the first time, and nothing more until writing has succeeded again.
  /// Changes the record by `change`. False when it cannot be published now; then `tell_again` publishes it.
  bool update(const std::function<void(MemberRecord&)>& change, std::string& error) {
    return note(membership_.become(change, error), error) == 0;
  }
  /// Tries now and then to publish what could not be published. True when that has just succeeded.
  bool tell_again(Instant now) {
    std::string error;
    if (!membership_.untold() || now < next_try_) return false;
    next_try_ = now + kTryAgain;
    return note(membership_.tell_again(error), error) == 0;
  }
  // What others send to this member beside frames for its queue pairs.
  /// Requests for these services. Returns an errno: then nothing has changed.
  int listen(const Listening& listening, std::string& error) {
    if (record().listens.size() >= kListensMax) {
      error = "more than " + std::to_string(kListensMax) + " services of one program: others would not find this one";
      return note(ENOBUFS, error);
    }
    MemberRecord record = membership_.record();
    record.listens.push_back(listening);
    return note(membership_.update(std::move(record), error), error);
  }
  bool unlisten(const Listening& listening, std::string& error) {
    const auto remove = [&](MemberRecord& record) {
      const auto found = std::find(record.listens.begin(), record.listens.end(), listening);
      if (found != record.listens.end()) record.listens.erase(found);
    };
    return update(remove, error);
  }
  /// RoCE frames to this multicast MAC, or no longer. Also false when there are too many already.
  bool want_group(const MacAddress& group, bool wanted, std::string& error) {
    if (wanted && record().groups.size() >= kGroupsMax) {
      error =
          "more than " + std::to_string(kGroupsMax) + " multicast groups of one program: it gets nothing of this one";
      return note(ENOBUFS, error) == 0;
    }
    const auto change = [&](MemberRecord& record) {
      std::erase(record.groups, group);
      if (wanted) record.groups.push_back(group);
    };
    return update(change, error);
  }
  /// Copies of frames of other protocols: to these MACs, or to all.
  bool want_raw(const std::vector<MacAddress>& macs, bool all, std::string& error) {
    const auto change = [&](MemberRecord& record) {
      record.raw.macs = macs;
      record.raw.all = all;
    };
    return update(change, error);
  }
  /// Checks now and then whether the directory, or what this member and `mailbox` have in it, was removed, and makes it
  /// anew. Each event is reported once: a line for the log, or "".
  std::string look_after_directory(Mailbox& mailbox, Instant now);
  /// In the child of a fork.
  void forget() {
    membership_.forget();
    claims_.forget();
    services_.forget();
    directory_.forget();
  }

 private:
  static constexpr Duration kTryAgain = milliseconds(250);

  static constexpr Duration kLookAgain = milliseconds(500);

  bool is_whole(const Mailbox& mailbox) const;
  bool make_whole(Mailbox& mailbox, std::string& error);

  int note(int code, std::string& error) {
    if (std::exchange(failed_, code != 0) && code != 0) error.clear();
    return code;
  }

  SystemRandom random_;
  Directory directory_;
  Membership membership_;
  BlockClaims claims_;
  ServiceClaims services_;
  Instant next_try_{0};
  Instant next_look_{0};
  bool said_barred_ = false;
  bool torn_ = false;    // the last attempt to make the directory anew failed
  bool failed_ = false;  // the last attempt to write the record failed
};

}  // namespace uroce::segment
