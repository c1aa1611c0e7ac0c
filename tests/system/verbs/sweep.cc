#include "sweep.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "failing_memory.h"

namespace verbs_test {
namespace {

constexpr int kComplaints = 12;  // the output ends after so many
// Exit codes of a process that opened the device.
constexpr int kMore = 1;
constexpr int kFailures = 4;

long descriptors() {
  long count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) count++;
  closedir(directory);
  return count;
}

/// Later members look at what earlier ones left. Each try has a directory of its own, so that all find the same.
void change_directory(int number) {
  static const std::string parent = std::getenv("UROCE_RUNTIME_DIR");
  const std::string own = parent + "/" + std::to_string(number);
  if (mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) std::abort();
  setenv("UROCE_RUNTIME_DIR", own.c_str(), 1);
}

/// The GUID and addresses of an open device.
Identity who_it_is(ibv_context* context) {
  Identity identity{};
  identity.guid = ibv_get_device_guid(context->device);
  for (int i = 0; i < kGids; i++) {
    if (ibv_query_gid(context, 1, i, &identity.gids[i]) != 0) break;
  }
  return identity;
}

/// The identity of a process in which nothing fails.
Identity ordinary_identity() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  if (const pid_t child = fork(); child == 0) {
    change_directory(0);
    ibv_context* const context = ibv_open_device(the_device());
    const Identity identity = context != nullptr ? who_it_is(context) : Identity{};
    _exit(write(ends[1], &identity, sizeof identity) == sizeof identity ? 0 : 1);
  } else {
    waitpid(child, nullptr, 0);
  }
  Identity identity{};
  if (read(ends[0], &identity, sizeof identity) != sizeof identity || identity.guid == 0) std::abort();
  close(ends[0]);
  close(ends[1]);
  return identity;
}

}  // namespace

bool Identity::operator==(const Identity& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }

Sweep::Sweep(Trouble& trouble) : trouble_(trouble) {
  static const Identity ordinary = ordinary_identity();
  ordinary_ = ordinary;
}

ibv_device* the_device() {
  static ibv_device* const device = [] {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_device* const first = list != nullptr ? list[0] : nullptr;
    ibv_free_device_list(list);
    return first;
  }();
  return device;
}

void Sweep::complain(const char* what, long n, Trouble::Mode mode, const std::string& why) {
  std::fprintf(stderr, "%s, request %ld %s (%s): %s\n", what, n,
               mode == Trouble::kOnce ? "fails" : "and all others fail", trouble_.what().c_str(), why.c_str());
  failures_++;
}

Sweep::End Sweep::try_once(const Maker& maker, long n, Trouble::Mode mode) {
  trouble_.begin(n, mode);
  errno = 0;
  void* const made = maker.make();
  const int error = errno;
  trouble_.end();
  const bool failed = trouble_.failed();
  if (failed) refused_++;
  if (made == nullptr && !failed) complain(maker.name, n, mode, "refused with nothing missing");
  if (made == nullptr && failed && !trouble_.fits(error)) complain(maker.name, n, mode, std::strerror(error));
  if (made != nullptr && maker.destroy(made) != 0) complain(maker.name, n, mode, "cannot be destroyed");
  return !failed ? End::kNotReached : made != nullptr ? End::kMade : End::kRefused;
}

/// What is allocated for good is allocated once; a loss with each try is a leak.
void Sweep::expect_nothing_is_lost(const Maker& maker, long n, Trouble::Mode mode) {
  constexpr int kTries = 6;
  const int before = failures_;
  for (int i = 0; i < kTries; i++) {
    const int64_t pieces = pieces_in_use();
    const long fds = descriptors();
    const End end = try_once(maker, n, mode);
    if (failures_ != before || end == End::kNotReached) return;
    if (pieces_in_use() <= pieces && descriptors() <= fds) return;
  }
  complain(maker.name, n, mode, "something is lost each time");
}

/// Making and destroying, however often, must cost nothing, either.
void Sweep::expect_nothing_is_kept(const Maker& maker) {
  constexpr int kRounds = 100, kTries = 6;
  const int before = failures_;
  for (int i = 0; i < kTries && failures_ == before; i++) {
    const int64_t pieces = pieces_in_use();
    const long fds = descriptors();
    for (int round = 0; round < kRounds; round++) try_once(maker, 0, Trouble::kOnce);
    if (pieces_in_use() < pieces + kRounds && descriptors() < fds + kRounds) return;
  }
  if (failures_ == before) complain(maker.name, 0, {}, "is never given back");
}

/// Destroying must work when nothing more can be had.
void Sweep::of_destroying(const Maker& maker) {
  const int before = failures_;
  for (const auto mode : {Trouble::kOnce, Trouble::kFromThenOn}) {
    for (long n = 1; failures_ < before + kComplaints; n++) {
      void* const made = maker.make();
      if (made == nullptr) return complain(maker.name, n, mode, "cannot be made once more");
      trouble_.begin(n, mode);
      const int code = maker.destroy(made);
      const int error = code == -1 ? errno : code;  // -1: a function of librdmacm
      trouble_.end();
      if (code != 0) complain(maker.name, n, mode, "cannot be destroyed: " + std::string(std::strerror(error)));
      if (code != 0 && maker.destroy(made) != 0) complain(maker.name, n, mode, "cannot be destroyed at all");
      if (!trouble_.failed()) break;
      refused_++;
    }
  }
}

void Sweep::of(const Maker& maker) {
  const int before = failures_;
  if (!maker.is_change) of_destroying(maker);
  for (const auto mode : {Trouble::kOnce, Trouble::kFromThenOn}) {
    for (long n = 1; failures_ < before + kComplaints; n++) {
      if (try_once(maker, n, mode) == End::kNotReached) break;
      expect_nothing_is_lost(maker, n, mode);
    }
  }
  if (failures_ == before && try_once(maker, 0, Trouble::kOnce) != End::kNotReached)
    complain(maker.name, 0, {}, "broken");
  if (failures_ == before) expect_nothing_is_kept(maker);
}

void Sweep::expect_as_good_as_any(long n, Trouble::Mode mode) {
  ibv_context* const again = ibv_open_device(the_device());
  ibv_pd* const pd = again != nullptr ? ibv_alloc_pd(again) : nullptr;
  if (pd != nullptr && who_it_is(again) != ordinary_) complain("ibv_open_device", n, mode, "is another host");
  if (pd == nullptr || ibv_dealloc_pd(pd) != 0 || ibv_close_device(again) != 0)
    complain("ibv_open_device", n, mode, "broken");
}

void Sweep::open_in_a_process(long n, Trouble::Mode mode, int result) {
  const Maker maker{"ibv_open_device", [] { return static_cast<void*>(ibv_open_device(the_device())); },
                    [](void* context) { return ibv_close_device(static_cast<ibv_context*>(context)); }};
  long lost = 0;  // tries in a row after which there was more than before
  for (;; n++) {
    change_directory(static_cast<int>(n));
    const int64_t pieces = pieces_in_use();
    const long fds = descriptors();
    const End end = try_once(maker, n, mode);
    if (failures_ >= kComplaints) _exit(2);
    if (end == End::kRefused) {
      lost = pieces_in_use() > pieces || descriptors() > fds ? lost + 1 : 0;
      if (lost > 20) complain(maker.name, n, mode, "something is lost each time");
      continue;
    }
    expect_as_good_as_any(n, mode);
    if (write(result, &n, sizeof n) != sizeof n) _exit(2);
    _exit((end == End::kMade ? kMore : 0) + (failures_ != 0 ? kFailures : 0));
  }
}

void Sweep::of_opening(Trouble::Mode mode) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  int processes = 0;
  long n = 1;
  for (bool more = true; more; n++) {
    const pid_t child = fork();
    if (child == 0) open_in_a_process(n, mode, ends[1]);
    int status = -1;
    waitpid(child, &status, 0);
    processes++;
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 2) {
      std::fprintf(stderr, "opening from request %ld on ended with %x\n", n, static_cast<unsigned>(status));
      failures_++;
      break;
    }
    more = (WEXITSTATUS(status) & kMore) != 0;
    if ((WEXITSTATUS(status) & kFailures) != 0) failures_++;
    if (read(ends[0], &n, sizeof n) != sizeof n) std::abort();
  }
  close(ends[0]);
  close(ends[1]);
  refused_ += n - 1;
  std::printf("opening: %ld requests, %d processes\n", n - 1, processes);
}

void Sweep::expect_room(const Maker& maker, int limit, int there) {
  std::vector<void*> all;
  while (void* const made = maker.make()) all.push_back(made);
  if (static_cast<int>(all.size()) + there != limit)
    complain(maker.name, static_cast<long>(all.size()), {}, "is all there is room for");
  for (void* const made : all) maker.destroy(made);
}

}  // namespace verbs_test
