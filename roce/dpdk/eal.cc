#include "dpdk/eal.h"

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_version.h>

#include "base/files.h"
#include "base/immortal.h"
#include "base/root_mark.h"
#include "dpdk/log.h"
#include "dpdk/telemetry_socket.h"
#include "host/endpoint_note.h"
#include "host/hugepages.h"
#include "host/runtime_dir.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

EndpointNote& note() {
  static Immortal<EndpointNote> one;  // it stays locked until the process ends
  return *one;
}

// The address at which DPDK's memory begins, if it is free. EAL's own default, 0x100000000, is in the way of heaps at
// fixed low addresses (OpenSHMEM's begins at 0xff000000), whose owners map over whatever is there. There is room
// between 128 and 264 GiB: below are 32-bit mappings, Java's heap and classes (up to 36 GiB) and SBCL's (64 GiB), above
// are GHC's (264 GiB) and Go's (768 GiB). ThreadSanitizer and MemorySanitizer leave that range to programs;
// AddressSanitizer protects it, and EAL then takes an address from the kernel. It is below 2^39, the limit of some
// IOMMUs.
constexpr const char* kBaseAddress = "--base-virtaddr=0x2000000000";

/// For example "0@(0,1)": one lcore that may run on all CPUs that the process may use.
std::string lcore_map(const cpu_set_t& allowed) {
  std::string cpus;
  for (int cpu = 0; cpu < RTE_MAX_LCORE; cpu++) {
    if (CPU_ISSET(cpu, &allowed)) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  }
  return "0@(" + cpus + ")";
}

std::vector<std::string> build_args(const EalOptions& options, const cpu_set_t& allowed, bool huge) {
  std::vector<std::string> args = {program_invocation_short_name, "--file-prefix=" + (kEalPrefix + note().name()),
                                   "--lcores=" + lcore_map(allowed), kBaseAddress};
  if (options.pci_device.empty()) {
    args.insert(args.end(), {"--no-pci", "--iova-mode=va"});
  } else {
    args.insert(args.end(), {"-a", options.pci_device});
  }
  if (huge) {
    args.push_back("--in-memory");
  } else {
    args.insert(args.end(), {"--no-huge", "--no-shconf", "-m", std::to_string(kEalMemoryBytes >> 20)});
  }
  args.insert(args.end(), options.extra_args.begin(), options.extra_args.end());
  return args;
}

/// While EAL starts, makes it put its files into uroce's directory. By itself it would choose one that the user, or
/// root of a user namespace, may not be able to use.
class EalBaseDirectory {
 public:
  explicit EalBaseDirectory(const std::string& dir) {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    setenv(kVariable, dir.c_str(), 1);
  }
  ~EalBaseDirectory() { before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable); }
  EalBaseDirectory(const EalBaseDirectory&) = delete;
  EalBaseDirectory& operator=(const EalBaseDirectory&) = delete;

 private:
  static constexpr const char* kVariable = "RUNTIME_DIRECTORY";
  std::optional<std::string> before_;
};

std::string explain(const std::string& first_error, bool huge, bool extra_args) {
  if (rte_errno == EALREADY) {
    return "DPDK runs in this process already: open the endpoint with eal_running, on a port that DPDK has";
  }
  std::string text = "DPDK did not start";
  if (!first_error.empty()) text += " (" + first_error + ")";
  if (rte_errno != 0) text += std::string(": ") + rte_strerror(rte_errno);
  if (extra_args && rte_errno == EINVAL) return text + "; are the arguments of --eal right?";
  return text + (huge ? "; try --hugepages no, or UROCE_LOG=debug for the whole story"
                      : "; UROCE_LOG=debug shows the whole story");
}

/// The directory of telemetry when there is no EAL.
std::string& own_directory() {
  static Immortal<std::string> directory;
  return *directory;
}

/// The root directory when the note was made.
RootMark& root_mark() {
  static Immortal<RootMark> mark;
  return *mark;
}

/// The telemetry's socket was seen, so that its removal is noticed.
bool telemetry_was_there = false;

/// A path out of reach counts as existing.
bool exists(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 || errno != ENOENT;
}

/// Set in the child of a fork if EAL had started: its state is the parent's.
bool eal_is_the_parents = false;

/// How this process's EAL was started.
struct StartedEal {
  EalOptions options;
  bool huge = false;
  pid_t pid = 0;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// True when the running EAL fits a later endpoint's options. An endpoint without any takes EAL as it is.
bool fits(const StartedEal& started, const EalOptions& wanted, std::string& error) {
  if (started.pid != getpid()) {
    error = "DPDK was started before fork(), and does not live through it: fork before the first endpoint is opened";
    return false;
  }
  const std::string running = "DPDK is running in this process already, for its first endpoint, ";
  if (!wanted.extra_args.empty() && wanted.extra_args != started.options.extra_args) {
    error = running + "and takes no arguments any more: give '" + joined(wanted.extra_args) + "' to the first one, too";
  } else if (wanted.hugepages == Hugepages::kYes && !started.huge) {
    error = running + "without hugepages: ask for them with the first one";
  } else if (wanted.hugepages == Hugepages::kNo && started.huge) {
    error = running + "with hugepages: refuse them with the first one";
  } else if (!wanted.pci_device.empty() && started.options.pci_device.empty()) {
    error = running + "without PCI devices: open " + wanted.pci_device + " first";
  } else {
    return true;
  }
  return false;
}

}  // namespace

bool start_eal(const EalOptions& options, std::string& error) {
  static std::mutex mutex;
  static std::optional<StartedEal> started;
  const std::lock_guard guard(mutex);
  if (started) return fits(*started, options, error);

  const bool free_pages = options.hugepages != Hugepages::kNo && hugepages_usable(kEalMemoryBytes);
  if (options.hugepages == Hugepages::kYes && !free_pages) {
    error = "no free hugepages (64 MB are needed): as root, echo 64 > /proc/sys/vm/nr_hugepages; or use --hugepages no";
    return false;
  }
  const std::string dir = runtime_dir(error);
  if (dir.empty() || !note().make(error)) return false;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);

  std::vector<std::string> args = build_args(options, allowed, free_pages);
  log_message(LogLevel::kDebug, "EAL: %s", joined(args).c_str());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());

  const QuietDpdk quiet;
  const EalBaseDirectory base(dir);
  const int rc = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
  if (rc < 0) {
    error = explain(quiet.first_error(), free_pages, !options.extra_args.empty());
    return false;
  }
  // From now on the lcore id goes with the ownership of an engine, and this thread is one like any other.
  RTE_PER_LCORE(_lcore_id) = LCORE_ID_ANY;
  started = {options, free_pages, getpid()};
  return true;
}

bool start_without_eal(std::string& error) {
  if (!eal_directory().empty()) return true;
  const std::string dir = runtime_dir(error);
  if (dir.empty() || !note().make(error)) return false;
  const fs::path own = fs::path(dir) / "dpdk" / (kEalPrefix + note().name());
  own_directory() = own;
  // Without it `uroce stats` cannot show this program, which runs all the same.
  if (!start_telemetry(own)) log_message(LogLevel::kWarning, "no telemetry: cannot use %s", own.c_str());
  return true;
}

std::string eal_directory() {
  const char* const eal = eal_is_the_parents ? nullptr : rte_eal_get_runtime_dir();
  return eal == nullptr || *eal == 0 ? own_directory() : eal;
}

void remove_eal_directory() {
  const fs::path dir = eal_directory();
  if (dir.filename().string() == kEalPrefix + note().name()) remove_tree(dir);
  note().remove();
}

bool publish_note(std::string& error) {
  // In a DPDK application, which starts EAL itself, there is no note yet.
  if (note().name().empty() && !note().make(error)) return false;
  const std::string socket = eal_directory() + "/" + kTelemetryName;
  root_mark();
  telemetry_was_there = telemetry_was_there || exists(socket);
  const int code = note().publish(socket);
  if (code != 0) error = "cannot write " + note().path() + ": " + std::strerror(code);
  return code == 0;
}

bool own_files_are_there() {
  // With another root directory, nothing can be found or made.
  if (note().name().empty() || !root_mark().same()) return true;
  return note().is_there() && (!telemetry_was_there || exists(eal_directory() + "/" + kTelemetryName));
}

bool make_own_files_again(std::string& error) {
  if (!note().is_there() && !note().make_again(error)) return false;
  const std::string dir = eal_directory();
  const std::string socket = dir + "/" + kTelemetryName;
  // A DPDK application looks after its own directory.
  if (!telemetry_was_there || exists(socket) || fs::path(dir).filename() != kEalPrefix + note().name()) return true;
  const std::string before = telemetry_path();
  if (start_telemetry_again(before.empty() ? socket : before, dir)) return true;
  error = "cannot use " + dir;
  return false;
}

void withdraw_note() { static_cast<void>(note().publish("")); }

void leave_note() {
  const char* const eal = rte_eal_get_runtime_dir();
  eal_is_the_parents = eal_is_the_parents || (eal != nullptr && *eal != 0);
  own_directory().clear();
  telemetry_was_there = false;
  leave_telemetry();
  note().leave();
}

}  // namespace uroce
