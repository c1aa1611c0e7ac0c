#include "named_calls.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace verbs_test {
namespace {

enum class Form { kText, kSocketAddress };
struct NamedCall {
  int number;
  int name_at;  // the argument that points to it
  Form form = Form::kText;
};

constexpr int kFchmodat2 = 452;  // of Linux 6.6, younger than the headers

// Of two names the one that is made.
constexpr NamedCall kNamedCalls[] = {
    {SYS_openat, 1},
    {SYS_openat2, 1},
    {SYS_newfstatat, 1},
    {SYS_statx, 1},
    {SYS_unlinkat, 1},
    {SYS_renameat, 3},
    {SYS_renameat2, 3},
    {SYS_linkat, 3},
    {SYS_symlinkat, 2},
    {SYS_mkdirat, 1},
    {SYS_fchmodat, 1},
    {kFchmodat2, 1},
    {SYS_fchownat, 1},
    {SYS_utimensat, 1},
    {SYS_faccessat, 1},
    {SYS_faccessat2, 1},
    {SYS_readlinkat, 1},
    {SYS_truncate, 0},
    {SYS_bind, 1, Form::kSocketAddress},
    {SYS_connect, 1, Form::kSocketAddress},
#ifdef SYS_open  // what newer architectures do not have
    {SYS_open, 0},
    {SYS_creat, 0},
    {SYS_stat, 0},
    {SYS_lstat, 0},
    {SYS_unlink, 0},
    {SYS_rmdir, 0},
    {SYS_rename, 1},
    {SYS_link, 1},
    {SYS_symlink, 1},
    {SYS_mkdir, 0},
    {SYS_chmod, 0},
    {SYS_chown, 0},
    {SYS_lchown, 0},
    {SYS_access, 0},
    {SYS_readlink, 0},
#endif
};

}  // namespace

std::vector<int> numbers_of_named_calls() {
  std::vector<int> numbers;
  std::transform(std::begin(kNamedCalls), std::end(kNamedCalls), std::back_inserter(numbers),
                 [](const NamedCall& call) { return call.number; });
  return numbers;
}

std::string name_in_call(pid_t thread, const seccomp_data& call) {
  const auto* const found = std::find_if(std::begin(kNamedCalls), std::end(kNamedCalls),
                                         [&](const NamedCall& each) { return each.number == call.nr; });
  if (found == std::end(kNamedCalls)) return "";
  char text[512] = {};
  iovec here{text, sizeof text - 1};
  iovec there{reinterpret_cast<void*>(call.args[found->name_at]), here.iov_len};  // NOLINT: of the other process
  // What lies near the end of a page is read up to there.
  while (process_vm_readv(thread, &here, 1, &there, 1, 0) < 0 && here.iov_len > 1) {
    here.iov_len /= 2;
    there.iov_len = here.iov_len;
  }
  if (found->form == Form::kText) return text;
  sockaddr_un name{};
  std::copy_n(text, sizeof name, reinterpret_cast<char*>(&name));
  return name.sun_family == AF_UNIX ? std::string(name.sun_path) : "";
}

}  // namespace verbs_test
