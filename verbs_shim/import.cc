// Importing: a context by the descriptor of another (`cmd_fd`, duplicated), and objects by their handles.
//
// An imported object is the object itself: destroying it destroys it for all, and the others may only unimport it.
// The descriptor is a sealed file in memory that says whose it is. Another process may get it, but what it names lives
// in this one, so only this process can import it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "dpdk/log.h"
#include "operations.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

struct FileContent {
  char magic[8];
  int64_t pid;
  uint64_t generation;
  uint64_t file;
};
constexpr char kMagic[8] = {'u', 'r', 'o', 'c', 'e', 'c', 'm', 'd'};
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

/// False when the descriptor is not one that `open_command_file` made, with its seals.
bool read_content(int fd, FileContent& content) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return false;
  if (syscall(SYS_pread64, fd, &content, sizeof content, 0) != static_cast<long>(sizeof content)) return false;
  return std::memcmp(content.magic, kMagic, sizeof kMagic) == 0;
}

/// True when the context, and so what belongs to it, is this process's. Else errno is set.
bool usable(ibv_context* context) {
  if (!is_the_parents(context)) return true;
  refuse_to_child();
  return false;
}

template <typename Core>
std::shared_ptr<Core> find(ibv_context* context, uint32_t handle) {
  std::shared_ptr<Core> core;
  if (usable(context)) {
    core = Handles<Core>::get().find(handle, ours(context).file);
    if (core == nullptr) errno = ENOENT;
  }
  return core;
}

}  // namespace

namespace uroce::verbs {

int open_command_file(uint64_t file) {
  // A kernel may insist on this flag (vm.memfd_noexec), and one before 6.3 does not know it.
  constexpr unsigned kNoExecSeal = 8;
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  auto fd = static_cast<int>(syscall(SYS_memfd_create, kDeviceName, kFlags | kNoExecSeal));
  if (fd < 0 && errno == EINVAL) fd = static_cast<int>(syscall(SYS_memfd_create, kDeviceName, kFlags));
  if (fd < 0) return -1;
  FileContent content{};
  std::memcpy(content.magic, kMagic, sizeof kMagic);
  content.pid = getpid();
  content.generation = fork_generation;
  content.file = file;
  const bool written = syscall(SYS_pwrite64, fd, &content, sizeof content, 0) == static_cast<long>(sizeof content);
  if (written && fcntl(fd, F_ADD_SEALS, kSeals) == 0) return fd;
  const int error = errno;
  syscall(SYS_close, fd);
  errno = error;
  return -1;
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
  FileContent content;
  if (!read_content(cmd_fd, content)) {
    errno = EINVAL;
    return nullptr;
  }
  if (content.pid != getpid() || content.generation != fork_generation) {
    log_message(LogLevel::kWarning,
                "ibv_import_device: the device belongs to process %lld; its objects live there and cannot be used in "
                "another (EOPNOTSUPP)",
                static_cast<long long>(content.pid));
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return make_context(content.file, cmd_fd);
}

UROCE_VERBS_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) try {
  const auto core = find<PdCore>(context, handle);
  if (core == nullptr) return nullptr;
  auto pd = std::make_unique<Pd>();
  pd->context = context;
  identify(*pd, *pd, handle);
  pd->id = core->id;
  pd->core = core;
  count_object(context, 1);
  return pd.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (!usable(pd->context)) return;
  count_object(pd->context, -1);
  // Objects that were made in it and are destroyed later still count down here: then the structure stays.
  if (ours(pd).users == 0) delete &ours(pd);
}

UROCE_VERBS_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) try {
  const auto core = find<MrCore>(pd->context, handle);
  if (core == nullptr) return nullptr;
  auto mr = std::make_unique<Mr>();
  mr->context = pd->context;
  mr->pd = pd;
  mr->length = core->length;
  identify(*mr, *mr, handle);
  mr->lkey = core->key;
  mr->rkey = core->rkey;
  mr->of = Mr::Of::kImport;
  mr->core = core;
  count_object(pd, 1);
  return mr.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (usable(mr->context)) forget_region(ours(mr));
}

UROCE_VERBS_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) try {
  auto core = find<DmCore>(context, handle);
  return core != nullptr ? wrap_dm(context, handle, std::move(core)) : nullptr;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (usable(dm->context)) forget_dm(ours(dm));
}
