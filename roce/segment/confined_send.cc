#include "segment/confined_send.h"

#include <pthread.h>
#include <sched.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace uroce::segment {
namespace {

struct Errand {
  int directory;
  int fd;
  msghdr message;
  sockaddr_un to{};
  int error = 0;
};

void* run(void* argument) {
  Errand& errand = *static_cast<Errand*>(argument);
  const bool sent = unshare(CLONE_FS) == 0 && fchdir(errand.directory) == 0 &&
                    sendmsg(errand.fd, &errand.message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  errand.error = sent ? 0 : errno;
  return nullptr;
}

}  // namespace

int send_from_inside(int directory, const std::string& name, int fd, const msghdr& message) {
  Errand errand{directory, fd, message};
  if (name.size() >= sizeof errand.to.sun_path) return ENAMETOOLONG;
  errand.to.sun_family = AF_UNIX;
  std::memcpy(errand.to.sun_path, name.c_str(), name.size() + 1);
  errand.message.msg_name = &errand.to;
  errand.message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are not the thread's
  pthread_t thread;
  int error = pthread_create(&thread, nullptr, run, &errand);
  if (error == 0) pthread_join(thread, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error != 0 ? error : errand.error;
}

}  // namespace uroce::segment
