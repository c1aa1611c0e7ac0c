#include "segment/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/file_lock.h"
#include "base/no_cancel.h"
#include "segment/record_file.h"

namespace uroce::segment {
namespace {

/// Granularity of the kernel's file time stamps: a file that changed more recently may change again unnoticed.
constexpr int64_t kFileClockNs = 20'000'000;

int64_t to_ns(const timespec& ts) { return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec; }

/// Closes a descriptor in the end, whatever happens meanwhile.
struct Closing {
  int fd;
  ~Closing() { close(fd); }
};

/// Whether the file belongs to this user or to root.
bool is_trusted(int fd, struct stat& st) { return fstat(fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0); }

int64_t file_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_ns(now);
}

/// The ID in the name of a member's record; 0: another file.
MemberId parse_id(std::string_view name) {
  MemberId id = 0;
  if (name.size() != 18 || name[0] != 'm' || name[1] != '-') return 0;
  const auto [end, code] = std::from_chars(name.data() + 2, name.data() + 18, id, 16);
  return code == std::errc() && end == name.data() + 18 ? id : 0;
}

/// Changes the mode of the file that an O_PATH descriptor refers to, wherever its name leads by now.
bool change_mode(int fd, mode_t mode) {
  constexpr long kFchmodat2 = 452;  // of Linux 6.6, younger than the headers
  if (syscall(kFchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0) return true;
  return chmod(("/proc/self/fd/" + std::to_string(fd)).c_str(), mode) == 0;
}

}  // namespace

std::string Directory::file_name(char kind, MemberId id) {
  char name[24];
  snprintf(name, sizeof name, "%c-%016llx", kind, static_cast<unsigned long long>(id));
  return name;
}

bool Directory::open(const std::string& path, std::string& error) {
  path_ = path;
  fd_ = open_own(error);
  return fd_ >= 0;
}

/// -1, with one line in `error`, when this user cannot use it.
int Directory::open_own(std::string& error) {
  if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
    error = "cannot create " + path_ + ": " + std::strerror(errno) + kRemedy;
    return -1;
  }
  const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  struct stat st {};
  if (fd < 0 || faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0) {
    error = "cannot use " + path_ + ": " + std::strerror(errno) + kRemedy;
  } else if (!is_trusted(fd, st)) {
    error = path_ + " belongs to another user" + kRemedy;
  } else {
    file_mode_ = st.st_mode & 0666;
    opened_by_ = geteuid();
    root_ = {};
    sticky_ = (st.st_mode & S_ISVTX) != 0 && st.st_uid != geteuid();
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

bool Directory::is_there() const { return has_name(fd_); }

bool Directory::make_again(std::string& error) {
  if (!root_.same()) {
    error = "this program changed its root directory since";
    return false;
  }
  const std::string parent = path_.substr(0, path_.rfind('/'));
  if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
    error = "cannot create " + parent + ": " + std::strerror(errno) + kRemedy;
    return false;
  }
  struct stat st {};
  const int above = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  const bool trusted = above >= 0 && is_trusted(above, st);
  if (above >= 0) close(above);
  if (!trusted) {
    error = parent + " is not a directory of this user" + kRemedy;
    return false;
  }
  const int fd = open_own(error);
  if (fd < 0) return false;
  const bool moved = dup3(fd, fd_, O_CLOEXEC) >= 0;
  if (!moved) error = "cannot use " + path_ + ": " + std::strerror(errno);
  close(fd);
  scanned_ = {};
  return moved;
}

bool Directory::share(int fd) const { return fchmod(fd, file_mode_) == 0; }

bool Directory::share_socket(const std::string& name) const {
  const int fd = openat(fd_, name.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct stat st {};
  const bool own = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1;
  if (!own) errno = EPERM;
  const bool good = own && ((st.st_mode & 0777) == file_mode_ || change_mode(fd, file_mode_));
  const int reason = errno;
  close(fd);
  errno = reason;
  return good;
}

int Directory::open_host_file(char kind, const MacAddress& mac, std::string& error) const {
  std::string name = std::string(1, kind) + "-" + to_string(mac);
  std::erase(name, ':');
  const int fd = openat(fd_, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  // The file's owner shares it; other users must not. It must have one name only: with two it would be some other file.
  struct stat st {};
  const bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
  if (good && (st.st_uid != geteuid() || share(fd))) return fd;
  if (fd >= 0 && !good) errno = EPERM;
  error = "cannot open " + path_ + "/" + name + ": " + std::strerror(errno) + kRemedy;
  if (fd >= 0) close(fd);
  return -1;
}

Directory::~Directory() { forget(); }

void Directory::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

bool Directory::maybe_changed() const {
  struct stat st {};
  if (fstat(fd_, &st) != 0) return true;
  return to_ns(st.st_mtim) != to_ns(scanned_) || file_clock_ns() - to_ns(scanned_) < kFileClockNs;
}

void Directory::announce() const {
  // What is written into a record does not change the directory's own time.
  futimens(fd_, nullptr);
}

bool Directory::scan() {
  const NoCancel with_descriptors;
  scans_++;
  struct stat st {};
  const bool known = fstat(fd_, &st) == 0;
  const int copy = openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(copy < 0 ? nullptr : fdopendir(copy), closedir);
  barred_ = false;
  if (!listing) {
    barred_ = copy < 0 && errno == EACCES && geteuid() != opened_by_;
    if (copy >= 0) close(copy);
    return false;  // keep what is known
  }
  std::map<MemberId, Stamp> seen;
  std::map<MemberId, MemberRecord> rested;
  std::swap(rested, resting_);
  try {
    while (const dirent* entry = readdir(listing.get())) {
      const MemberId id = parse_id(entry->d_name);
      if (id == 0) continue;
      const int fd = openat(fd_, entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
      if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) throw std::bad_alloc();
      if (fd < 0) {
        keep_unread(id, seen);
        continue;
      }
      const Closing closing{fd};
      look_at(fd, id, seen);
    }
  } catch (const std::bad_alloc&) {
    // Members that were not looked at must not be taken for gone.
    resting_.merge(rested);
    scanned_ = {};
    return false;
  }
  scanned_ = known ? st.st_mtim : timespec{};
  std::erase_if(members_, [&](const auto& member) { return seen.count(member.first) == 0; });
  stamps_ = std::move(seen);
  return true;
}

/// A record cannot be opened. If that is because this process is another user's by now, the member stays as it is
/// known.
void Directory::keep_unread(MemberId id, std::map<MemberId, Stamp>& seen) {
  if (errno != EACCES || geteuid() == opened_by_) return;
  barred_ = true;
  if (const auto known = stamps_.find(id); known != stamps_.end()) seen.insert(*known);
}

void Directory::look_at(int fd, MemberId id, std::map<MemberId, Stamp>& seen) {
  struct stat st {};
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return;
  const Stamp stamp{st.st_ino, st.st_size, to_ns(st.st_mtim)};
  if (!is_locked(fd)) return look_at_dead(fd, id);
  const auto before = stamps_.find(id);
  const bool same = before != stamps_.end() && before->second == stamp && members_.count(id) != 0 &&
                    file_clock_ns() - stamp.changed_ns > kFileClockNs;
  if (!same) {
    if (auto record = read_record(fd)) members_[id] = std::move(*record);
  }
  if (members_.count(id) != 0) seen[id] = stamp;
}

/// Also looks at a member that is just joining, and has no lock and no record yet.
void Directory::look_at_dead(int fd, MemberId id) {
  const std::string mailbox = file_name('s', id);
  struct stat st {};
  // A directory of that name is no mailbox, and could not be removed like one.
  if (fstatat(fd_, mailbox.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) {
    // Its rest begins now; several members may set that time. The mailbox is removed last: where there is none, the
    // others trust the record's time stamp.
    if (is_locked(fd)) return;    // it was joining, and lives
    if (may_remove(st.st_uid)) {  // else it rests until a member comes that may
      futimens(fd, nullptr);
      unlinkat(fd_, mailbox.c_str(), 0);
    }
  } else if (fstat(fd, &st) == 0 && !is_locked(fd) &&
             std::abs(file_clock_ns() - to_ns(st.st_mtim)) > kRestSeconds * 1'000'000'000) {
    // Also when the clock was set back: that must not keep the numbers for ever.
    unlinkat(fd_, file_name('m', id).c_str(), 0);
    return;
  }
  if (auto record = read_record(fd)) resting_[id] = std::move(*record);
}

bool Directory::may_remove(uid_t owner) const { return !sticky_ || owner == geteuid() || geteuid() == 0; }

std::vector<bool> Directory::taken_blocks(const MacAddress& mac) const {
  std::vector<bool> taken(kQpnBlocks);
  for_each_record([&](const MemberRecord& record) {
    if (record.mac != mac) return;
    for (const uint32_t block : record.blocks) taken[block] = true;
  });
  return taken;
}

Directory::Life Directory::life(MemberId id) const {
  const NoCancel with_a_descriptor;
  const int fd = openat(fd_, file_name('m', id).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  // A process that has no descriptors left, or whose directory was removed, must not take its peers for dead.
  struct stat st {};
  if (fd < 0 && errno == ENOENT && fstat(fd_, &st) == 0) return st.st_nlink == 0 ? Life::kYes : Life::kUnknown;
  if (fd < 0) return Life::kYes;
  const bool locked = is_locked(fd);
  close(fd);
  return locked ? Life::kYes : Life::kNo;
}

}  // namespace uroce::segment
