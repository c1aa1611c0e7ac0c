#include "dpdk/log.h"

#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <rte_log.h>

#include "base/fork.h"
#include "base/immortal.h"
#include "host/error_output.h"

namespace uroce {
namespace {

struct Log {
  int type = RTE_LOGTYPE_USER1;
  LogLevel level = LogLevel::kWarning;
  FILE* stream = nullptr;
  std::mutex mutex;
  std::string pending;  // the start of a line that is not complete yet
  int quiet = 0;
  std::string first_error;
};

// Logging never fails: text for which there is no memory is left out.

Log& the_log() {
  static Immortal<Log> log;  // threads may log while the process exits
  return *log;
}

}  // namespace

void renew_log_after_fork() {
  Log& log = the_log();
  renew_after_fork(log.mutex);
  new (&log.pending) std::string;  // another thread may have been writing a line
}

namespace {

uint32_t rte_level(LogLevel level) {
  constexpr uint32_t kLevels[] = {RTE_LOG_ERR, RTE_LOG_WARNING, RTE_LOG_NOTICE, RTE_LOG_DEBUG};
  return kLevels[static_cast<unsigned>(level)];
}

ErrorOutput& error_output() {
  static Immortal<ErrorOutput> output;
  return *output;
}

/// What stderr is when the program starts, before it has opened files.
[[maybe_unused]] const ErrorOutput& at_the_start = error_output();

void write_line(std::string_view line, bool from_dpdk) {
  std::string text = from_dpdk ? "uroce: dpdk: " : "uroce: ";
  text.append(line);
  // One message is one line, whatever its text contains.
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0 && c != '\t') c = '?';
  }
  text += '\n';
  error_output().write(std::move(text));
}

ssize_t on_stream_write(void* cookie, const char* data, size_t size) try {
  Log& log = *static_cast<Log*>(cookie);
  const std::lock_guard guard(log.mutex);
  const bool from_dpdk = rte_log_cur_msg_logtype() != log.type;
  const bool is_error = rte_log_cur_msg_loglevel() <= static_cast<int>(RTE_LOG_ERR);
  log.pending.append(data, size);
  size_t start = 0;
  for (size_t end; (end = log.pending.find('\n', start)) != std::string::npos; start = end + 1) {
    const std::string_view line(log.pending.data() + start, end - start);
    if (line.empty()) continue;
    if (from_dpdk && is_error && log.first_error.empty()) log.first_error = line;
    if (!from_dpdk || log.quiet == 0 || log.level == LogLevel::kDebug) write_line(line, from_dpdk);
  }
  log.pending.erase(0, start);
  return static_cast<ssize_t>(size);
} catch (const std::bad_alloc&) {
  return static_cast<ssize_t>(size);
}

void set_up() {
  Log& log = the_log();
  if (const char* text = std::getenv("UROCE_LOG")) parse_log_level(text, log.level);
  const bool debug = log.level == LogLevel::kDebug;
  rte_log_set_global_level(RTE_LOG_DEBUG);
  // A pattern also applies to log types that drivers register later.
  rte_log_set_level_pattern("*", debug ? RTE_LOG_INFO : RTE_LOG_WARNING);
  // Trying to reach a peer that is not there yet is not an error.
  if (!debug) rte_log_set_level_pattern("pmd.net.memif", RTE_LOG_CRIT);
  const int type = rte_log_register("uroce");
  if (type >= 0) log.type = type;
  rte_log_set_level(static_cast<uint32_t>(log.type), rte_level(log.level));
  cookie_io_functions_t functions{};
  functions.write = on_stream_write;
  log.stream = fopencookie(&log, "w", functions);
  if (log.stream != nullptr) {
    setvbuf(log.stream, nullptr, _IOLBF, 0);
    rte_openlog_stream(log.stream);
  }
}

Log& ready_log() {
  static std::once_flag once;
  std::call_once(once, set_up);
  return the_log();
}

}  // namespace

void log_message(LogLevel level, const char* format, ...) {
  const Log& log = ready_log();
  if (level > log.level) return;
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  rte_log(rte_level(level), static_cast<uint32_t>(log.type), "%s\n", line);
}

bool log_enabled(LogLevel level) { return level <= ready_log().level; }

QuietDpdk::QuietDpdk() {
  Log& log = ready_log();
  const std::lock_guard guard(log.mutex);
  log.quiet++;
  log.first_error.clear();
}

QuietDpdk::~QuietDpdk() {
  Log& log = the_log();
  const std::lock_guard guard(log.mutex);
  log.quiet--;
}

std::string QuietDpdk::first_error() const {
  Log& log = the_log();
  const std::lock_guard guard(log.mutex);
  return log.first_error;
}

}  // namespace uroce
