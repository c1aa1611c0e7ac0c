#include "named_calls.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace verbs_test {
namespace {

enum class Form { kText, kSocketAddress, kMessage };
struct NamedCall {
  int number;
  const char* call;
  int name_at;  // the argument that points to its name
  Form form = Form::kText;
};

constexpr int kFchmodat2 = 452;  // of Linux 6.6, younger than the headers

#define CALL(name) SYS_##name, #name

// Of two names the one that is made.
constexpr NamedCall kNamedCalls[] = {
    {CALL(openat), 1},
    {CALL(openat2), 1},
    {CALL(newfstatat), 1},
    {CALL(statx), 1},
    {CALL(unlinkat), 1},
    {CALL(renameat), 3},
    {CALL(renameat2), 3},
    {CALL(linkat), 3},
    {CALL(symlinkat), 2},
    {CALL(mkdirat), 1},
    {CALL(fchmodat), 1},
    {kFchmodat2, "fchmodat2", 1},
    {CALL(fchownat), 1},
    {CALL(utimensat), 1},
    {CALL(faccessat), 1},
    {CALL(faccessat2), 1},
    {CALL(readlinkat), 1},
    {CALL(truncate), 0},
    {CALL(bind), 1, Form::kSocketAddress},
    {CALL(connect), 1, Form::kSocketAddress},
    {CALL(sendto), 4, Form::kSocketAddress},
    {CALL(sendmsg), 1, Form::kMessage},
    {CALL(inotify_add_watch), 1},
#ifdef SYS_open  // what newer architectures do not have
    {CALL(open), 0},
    {CALL(creat), 0},
    {CALL(stat), 0},
    {CALL(lstat), 0},
    {CALL(unlink), 0},
    {CALL(rmdir), 0},
    {CALL(rename), 1},
    {CALL(link), 1},
    {CALL(symlink), 1},
    {CALL(mkdir), 0},
    {CALL(chmod), 0},
    {CALL(chown), 0},
    {CALL(lchown), 0},
    {CALL(access), 0},
    {CALL(readlink), 0},
#endif
};

/// Bytes of the other process: as many as there are, up to the end of a page or of `room`.
void read_bytes(pid_t thread, uint64_t at, char* to, size_t room) {
  iovec here{to, room};
  iovec there{reinterpret_cast<void*>(at), room};  // NOLINT: an address of the other process
  while (process_vm_readv(thread, &here, 1, &there, 1, 0) < 0 && here.iov_len > 1) {
    here.iov_len /= 2;
    there.iov_len = here.iov_len;
  }
}

/// The same name without a descriptor at its beginning, where /proc is asked for one.
std::string led_through_proc(pid_t thread, const std::string& name) {
  constexpr std::string_view kOwn = "/proc/self/fd/";
  if (name.compare(0, kOwn.size(), kOwn) != 0) return name;
  const size_t end = std::min(name.find('/', kOwn.size()), name.size());
  const std::string link = "/proc/" + std::to_string(thread) + "/fd/" + name.substr(kOwn.size(), end - kOwn.size());
  char target[512] = {};
  return readlink(link.c_str(), target, sizeof target - 1) > 0 ? target + name.substr(end) : name;
}

}  // namespace

std::vector<int> numbers_of_named_calls() {
  std::vector<int> numbers;
  std::transform(std::begin(kNamedCalls), std::end(kNamedCalls), std::back_inserter(numbers),
                 [](const NamedCall& call) { return call.number; });
  return numbers;
}

std::string name_of_named_call(int number) {
  const auto* const found = std::find_if(std::begin(kNamedCalls), std::end(kNamedCalls),
                                         [&](const NamedCall& each) { return each.number == number; });
  return found != std::end(kNamedCalls) ? found->call : "nothing";
}

std::string name_in_call(pid_t thread, const seccomp_data& call) {
  const auto* const found = std::find_if(std::begin(kNamedCalls), std::end(kNamedCalls),
                                         [&](const NamedCall& each) { return each.number == call.nr; });
  if (found == std::end(kNamedCalls)) return "";
  uint64_t at = call.args[found->name_at];
  if (found->form == Form::kMessage) {
    msghdr message{};
    read_bytes(thread, at, reinterpret_cast<char*>(&message), sizeof message);
    at = reinterpret_cast<uint64_t>(message.msg_name);
  }
  if (at == 0) return "";
  char text[512] = {};
  read_bytes(thread, at, text, sizeof text - 1);
  if (found->form == Form::kText) return led_through_proc(thread, text);
  sockaddr_un name{};
  std::copy_n(text, sizeof name, reinterpret_cast<char*>(&name));
  return name.sun_family == AF_UNIX ? led_through_proc(thread, name.sun_path) : "";
}

}  // namespace verbs_test
