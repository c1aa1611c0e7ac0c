// XRC domains. One that is opened with a file is the file's: every handle that is opened with it, by whatever name or
// descriptor, is on the same domain.
//
// A domain is a process's own: its queue pairs and shared receive queues are in the engine of the process that made
// them, and no other could use them. Programs on both ends of a connection may open one file (perftest and
// ibv_xsrq_pingpong do), so a second process with the file gets a domain, too; what fails there is ibv_open_qp of the
// first one's queue pair. That a file is a domain is known to all: each process holds a lock on one byte for each of
// its files, in a file of the runtime directory, so that O_CREAT and O_EXCL mean what the manual page says.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <string>

#include "base/file_lock.h"
#include "base/fork.h"
#include "base/no_cancel.h"
#include "dpdk/log.h"
#include "engine/object_tables.h"
#include "host/runtime_dir.h"
#include "xrc.h"

namespace uroce::verbs {

namespace {

/// A domain that belongs to a file.
struct FileDomain {
  dev_t device = 0;
  ino_t inode = 0;
  int held = -1;  // a descriptor of the file, so that no other file gets its inode meanwhile
  XrcdId id = 0;
  uint32_t handles = 0;
};

std::mutex file_domains_mutex;
std::vector<FileDomain> file_domains;
int domains_fd = -1;

bool open_lock_file() {
  if (domains_fd >= 0) return true;
  std::string error;
  const std::string directory = runtime_dir(error);
  if (directory.empty()) {
    log_message(LogLevel::kError, "%s", error.c_str());
    return false;
  }
  domains_fd = open((directory + "/xrc_domains").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  return domains_fd >= 0;
}

/// The byte that stands for the file. Two files may have the same, if unlikely.
off_t byte_of(const FileDomain& domain) {
  const uint64_t mixed = (uint64_t{domain.device} * 0x9E3779B97F4A7C15u) ^ uint64_t { domain.inode };
  return static_cast<off_t>(mixed >> 2);
}

void unlock(const FileDomain& domain) { unlock_file(domains_fd, byte_of(domain), 1); }

/// Shares the lock. Waits for a process that is just finding out whether the file is its domain, which takes no time.
/// Returns 0 or errno.
int share_lock(const FileDomain& domain) {
  struct flock lock = lock_range(F_RDLCK, byte_of(domain), 1);
  while (fcntl(domains_fd, F_OFD_SETLKW, &lock) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

XrcdId open_in_engine() {
  EngineLock lock(endpoint());
  return lock->objects().xrc_domains().open();
}

/// Claims the file for this process. Returns 0 or errno.
int claim(const FileDomain& domain, int oflags) {
  if (!open_lock_file()) return errno != 0 ? errno : ENOENT;
  const bool others = !lock_file(domains_fd, byte_of(domain), 1);
  if (others && !is_held_by_another(errno)) return errno;
  int error = 0;
  if (others && (oflags & O_EXCL) != 0) error = EINVAL;
  if (!others && (oflags & O_CREAT) == 0) error = EAGAIN;
  if (error != 0) {
    if (!others) unlock(domain);
    return error;
  }
  if (others) {
    log_message(LogLevel::kInfo,
                "ibv_open_xrcd: the file is an XRC domain of another process, too; each has its own, and ibv_open_qp "
                "does not find the other one's queue pairs");
  }
  return share_lock(domain);
}

/// Returns 0 or errno.
int create_for_file(FileDomain domain, int fd, int oflags, XrcdId& id) {
  if (const int error = claim(domain, oflags); error != 0) return error;
  domain.held = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const int error = domain.held < 0 ? errno : 0;
  try {
    domain.id = error == 0 ? open_in_engine() : 0;
  } catch (const std::bad_alloc&) {
    domain.id = 0;
  }
  domain.handles = 1;
  if (domain.id == 0) {
    if (domain.held >= 0) close(domain.held);
    unlock(domain);
    return error != 0 ? error : ENOMEM;
  }
  file_domains.push_back(domain);
  id = domain.id;
  return 0;
}

int open_of_file(int fd, int oflags, XrcdId& id) {
  struct stat file;
  if (fstat(fd, &file) != 0) return errno;
  for (FileDomain& domain : file_domains) {
    if (domain.device != file.st_dev || domain.inode != file.st_ino) continue;
    if ((oflags & O_EXCL) != 0) return EINVAL;
    domain.handles++;
    id = domain.id;
    return 0;
  }
  file_domains.reserve(file_domains.size() + 1);
  return create_for_file({.device = file.st_dev, .inode = file.st_ino}, fd, oflags, id);
}

/// True when it was the last handle of the domain.
bool leave_file(XrcdId id) {
  for (FileDomain& domain : file_domains) {
    if (domain.id != id) continue;
    if (--domain.handles != 0) return false;
    unlock(domain);
    close(domain.held);
    domain = file_domains.back();
    file_domains.pop_back();
    return true;
  }
  return true;
}

}  // namespace

void leave_xrc_domains() {
  renew_after_fork(file_domains_mutex);
  // Another thread of the parent may have been changing the table: what is in it stays, unused. The locks are the
  // parent's as long as it has them, and end with its descriptors and these.
  new (&file_domains) std::vector<FileDomain>;
  if (domains_fd >= 0) syscall(SYS_close, domains_fd);
  domains_fd = -1;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) try {
  const NoCancel with_the_mutex;
  constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  int error = 0;
  if (is_the_parents(context)) {
    error = refuse_to_child();
  } else if ((attr->comp_mask & ~kNeeded) != 0) {
    error = EOPNOTSUPP;
  } else if ((attr->comp_mask & kNeeded) != kNeeded || (attr->oflags & ~(O_CREAT | O_EXCL)) != 0) {
    error = EINVAL;
  }
  auto xrcd = std::make_unique<Xrcd>();
  xrcd->context = context;
  if (error == 0 && attr->fd == -1) {
    xrcd->id = open_in_engine();
    if (xrcd->id == 0) error = ENOMEM;
  } else if (error == 0) {
    const std::lock_guard guard(file_domains_mutex);
    error = open_of_file(attr->fd, attr->oflags, xrcd->id);
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  count_object(context, 1);
  return xrcd.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int close_xrcd(ibv_xrcd* base) {
  const NoCancel with_the_mutex;
  if (is_the_parents(base->context)) return 0;
  Xrcd& xrcd = ours(base);
  if (xrcd.users != 0) return with_errno(EBUSY);
  {
    const std::lock_guard guard(file_domains_mutex);
    if (leave_file(xrcd.id)) {
      EngineLock lock(endpoint());
      lock->objects().xrc_domains().close(xrcd.id);
    }
  }
  count_object(base->context, -1);
  delete &xrcd;
  return 0;
}

}  // namespace uroce::verbs
