// The directory in which the members of a segment find each other.
//
//   m-<id>   the record of a member, locked by the member as long as it lives.
//            After that the record stays for a while: its numbers rest until the connections
//            that used them are forgotten
//   s-<id>   its mailbox, a socket (mailbox.h); while it is there no member has noticed yet that this one is gone
//   q-<mac>  one byte per block of a host's queue pair numbers, locked by the member whose block it is (block_claims.h)
//   l-<mac>  the same for the services that members of a host listen to (service_claims.h)
//
// Locks tell which members live: the kernel releases them when the last descriptor is closed. Process IDs mean nothing
// here, since containers that share the directory have their own. Every scan tidies up behind members that were killed.
// No member ever waits for a lock.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/root_mark.h"
#include "segment/member_record.h"

namespace uroce::segment {

class Directory {
 public:
  /// How long the numbers of a member that is gone are not given out: longer than a peer retries that has the longest
  /// timeouts in common use (timeout 14 to 18, seven retries).
  static constexpr int64_t kRestSeconds = 60;
  /// The end of the line about a directory that cannot be used.
  static constexpr const char* kRemedy = "; name another place with UROCE_RUNTIME_DIR";

  /// The line about one that this process may not look into any more.
  static constexpr const char* kBarred =
      "this program may not look into the directory where programs meet any more, since it changed its user: it and "
      "programs that it does not know yet do not reach each other";

  Directory() = default;
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  /// Makes it, for this user alone, if necessary. Returns false, with one line in `error`, when this user cannot use
  /// it, or when it belongs to another user than this one and root, who could then change what is in it: only root may
  /// make a directory in which users meet. That holds for root's programs, too.
  bool open(const std::string& path, std::string& error);
  /// Gives a file the directory's permissions, without execution. So two users meet where the directory allows it, and
  /// nowhere else.
  bool share(int fd) const;
  /// The same for a socket that this process has bound. Members of a group may have put another file in its place
  /// meanwhile: a file that is no socket of this user is left as it is, and false is returned.
  bool share_socket(const std::string& name) const;
  /// The mode of its files.
  mode_t file_mode() const { return file_mode_; }
  /// The file `kind`-<mac> of a host, made if necessary: in it members lock bytes. -1, with one line in `error`, when
  /// it cannot be had.
  int open_host_file(char kind, const MacAddress& mac, std::string& error) const;
  const std::string& path() const { return path_; }
  int fd() const { return fd_; }

  /// Reads the records that are new or have changed, and removes what members that are gone have left. False when it
  /// could not look at everything; then no member is taken for gone.
  bool scan();
  /// False when nothing can have changed since the last scan.
  bool maybe_changed() const;
  /// The last scan found that this process is another user's than when it opened the directory, and may not read it, or
  /// not all in it.
  bool barred() const { return barred_; }
  /// How many scans there were: a caller that keeps results sees by it that there was another scan.
  uint64_t scans() const { return scans_; }
  /// As of the last scan.
  const std::map<MemberId, MemberRecord>& members() const { return members_; }
  /// Includes the records of members that are gone, as long as their numbers rest.
  template <typename F>
  void for_each_record(F&& f) const {
    for (const auto& [id, record] : members_) f(record);
    for (const auto& [id, record] : resting_) f(record);
  }
  /// Blocks of the host with this MAC that must not be taken, because they belong to a member or rest.
  std::vector<bool> taken_blocks(const MacAddress& mac) const;

  /// Asks the kernel now. Unknown: it has no record. No member can have removed that, since a record stays for
  /// kRestSeconds after its member is gone.
  enum class Life : uint8_t { kYes, kNo, kUnknown };
  Life life(MemberId id) const;
  /// False when it was removed, as with the user's last session or by a clean-up of old files. A directory that has no
  /// name below this process's root directory counts as there.
  bool is_there() const;
  /// Makes it and its parent directory anew, for this user alone. `fd` stays the same number. Returns false, with one
  /// line in `error`, when that fails.
  bool make_again(std::string& error);
  /// To be called after a change that the others should notice.
  void announce() const;
  /// In the child of a fork: descriptors are closed, and with them nothing of the parent's.
  void forget();

  static std::string file_name(char kind, MemberId id);

 private:
  struct Stamp {
    uint64_t inode = 0;
    int64_t size = 0;
    int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };

  int open_own(std::string& error);
  void keep_unread(MemberId id, std::map<MemberId, Stamp>& seen);
  void look_at(int fd, MemberId id, std::map<MemberId, Stamp>& seen);
  void look_at_dead(int fd, MemberId id);
  bool may_remove(uid_t owner) const;

  std::string path_;
  int fd_ = -1;
  mode_t file_mode_ = 0600;
  uid_t opened_by_ = 0;
  RootMark root_;
  bool barred_ = false;
  bool sticky_ = false;  // and another user's: then only a file's owner may remove it
  std::map<MemberId, MemberRecord> members_;
  std::map<MemberId, Stamp> stamps_;
  std::map<MemberId, MemberRecord> resting_;
  timespec scanned_{};  // the directory's time of change before the last scan
  uint64_t scans_ = 0;
};

/// This process as a member: its file in the directory.
class Membership {
 public:
  Membership() = default;
  ~Membership() { leave(); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Makes the file with this record. `directory` outlives the membership. Returns false, with one line in `error`,
  /// when that fails.
  bool join(Directory& directory, const MemberRecord& record, std::string& error);
  MemberId id() const { return id_; }
  /// The record as this member wants it to be.
  const MemberRecord& record() const { return record_; }
  /// Publishes the record, or leaves it as before when that fails. Returns an errno, with one line in `error`; 0 when
  /// the others can read it.
  int update(MemberRecord record, std::string& error);
  /// Changes the record by `change`: it holds from now on, whether it can be published or not; if not, `tell_again`
  /// publishes it later. When there is no memory for the change, the record stays as it was.
  int become(const std::function<void(MemberRecord&)>& change, std::string& error);
  /// Whether the record has changes that are not published yet.
  bool untold() const { return untold_; }
  /// False when its file was removed.
  bool is_there() const;
  /// Makes the file anew: the same member with the same record. Returns false, with one line in `error`, when that
  /// fails.
  bool join_again(std::string& error);
  /// Tries again, if something is not published.
  int tell_again(std::string& error) { return untold_ ? write(error) : 0; }
  /// Leaves the segment; the member's numbers rest from now on.
  void leave();
  /// In the child of a fork: the membership is the parent's.
  void forget();

 private:
  int make_file(std::string& error);
  int write(std::string& error);

  Directory* directory_ = nullptr;
  MemberId id_ = 0;
  int fd_ = -1;
  MemberRecord record_;
  uint64_t written_ = 0;  // how often the record was written
  bool untold_ = false;
};

}  // namespace uroce::segment
