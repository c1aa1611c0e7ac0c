// Each call of a newcomer that gives a descriptor, makes a name or fills a table of the kernel is refused in turn while
// it meets a peer: what it does is refused with the same errno, or fails as if the peer were not there, or is done; and
// the next try is done.
#include <rdma/rdma_cma.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "newcomer.h"
#include "refused_calls.h"
#include "sweep.h"

using namespace verbs_test;

namespace {

const Story kStories[] = {{"a queue pair", pair_up},
                          {"rdma_connect", connect_by_address, true},
                          {"rdma_listen", listen_for_peer},
                          {"many queue pairs", take_many_numbers},
                          {"the files of /sys", connect_by_address, true, true}};

enum Result : int { kDone = 0, kMore = 1, kWrong = 2 };

/// So that members that are gone do not matter to later ones.
void have_own_directory() {
  const std::string own = std::string(std::getenv("UROCE_RUNTIME_DIR")) + "/" + std::to_string(getpid());
  if (mkdir(own.c_str(), 0700) != 0) std::abort();
  setenv("UROCE_RUNTIME_DIR", own.c_str(), 1);
}

/// The many files of /sys are made when librdmacm first looks for them.
void prepare(const Story& story) {
  if (!story.looks_first) rdma_destroy_event_channel(rdma_create_event_channel());
}

/// When files of /sys are missing, or no port can be had, librdmacm has errors of its own.
bool is_fitting(const Story& story, const RefusedCalls& calls, int error) {
  return error == 0 ||
         (calls.failed() && (error == kUnreached || error == ENOMEM || story.looks_first || calls.fits(error)));
}

[[noreturn]] void be_newcomer(const Story& story, RefusedCalls& calls, long n, Trouble::Mode mode) {
  have_own_directory();
  const Peer peer;
  ibv_context* const context = ibv_open_device(the_device());
  if (context == nullptr) _exit(kWrong);
  prepare(story);
  calls.begin(n, mode);
  int result = story.run(context, peer, [&] { calls.end(); });
  calls.end();
  const bool failed = calls.failed();
  if (!is_fitting(story, calls, result)) {
    std::fprintf(stderr, "%s, call %ld %s (%s): %s\n", story.name, n,
                 mode == Trouble::kOnce ? "is refused" : "and all others are refused", calls.what().c_str(),
                 result == kUnreached ? "not reached" : std::strerror(result));
    _exit(kWrong);
  }
  if (failed && story.looks_first) usleep(1'100'000);  // missing files there are made again once a second
  if (failed) result = story.run(context, peer, [] {});
  if (result != 0) {
    std::fprintf(stderr, "%s, after call %ld %s (%s): %s\n", story.name, n,
                 mode == Trouble::kOnce ? "was refused" : "and all others were refused", calls.what().c_str(),
                 result == kUnreached ? "not reached" : std::strerror(result));
    _exit(kWrong);
  }
  _exit(failed ? kMore : kDone);
}

/// Adds the number of refused calls to `refused`.
bool sweep(const Story& story, RefusedCalls::Kind kind, Trouble::Mode mode, long& refused) {
  bool good = true;
  int wrong = 0;
  long n = 1;
  for (;; n += story.looks_first ? 1 + n / 3 : 1) {
    const pid_t child = fork();
    if (child == 0) {
      RefusedCalls calls(kind);
      alarm(60);
      be_newcomer(story, calls, n, mode);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kDone) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kMore) {
      refused++;
      continue;
    }
    if (!WIFEXITED(status)) std::fprintf(stderr, "%s, call %ld: ended with %x\n", story.name, n, unsigned(status));
    good = false;
    if (++wrong == 5) break;
  }
  std::printf("%s: %ld calls of kind %d, %s\n", story.name, n - 1, kind, mode == Trouble::kOnce ? "one" : "all behind");
  return good;
  /// A newcomer needs the kernel: with hardly any refused calls nothing would be tested.
}

/// A newcomer does not do without the kernel: where hardly a call was refused, nothing was looked at.
bool are_enough(const char* what, long refused, long wanted) {
  if (refused < wanted) std::fprintf(stderr, "%s: only %ld calls were refused\n", what, refused);
  return refused >= wanted;
}

/// `each`: also refuses calls one by one, and takes longer.
int program(int argc, char** argv) {
  if (the_device() == nullptr) return 1;
  const bool each = argc > 1 && std::strcmp(argv[1], "each") == 0;
  bool good = true;
  long all = 0;
  for (const Story& story : kStories) {
    if (story.is_long && !each) continue;
    for (int kind = 0; kind < RefusedCalls::kKinds; kind++) {
      long refused = 0;
      good &= sweep(story, static_cast<RefusedCalls::Kind>(kind), Trouble::kFromThenOn, refused);
      if (kind == RefusedCalls::kDescriptors) good &= are_enough(story.name, refused, 5);
      if (each) good &= sweep(story, static_cast<RefusedCalls::Kind>(kind), Trouble::kOnce, refused);
      all += refused;
    }
  }
  return are_enough("all stories", all, 30) && good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return run_supervised(program, argc, argv); }
