// `uroce stats`: asks running endpoints through DPDK's telemetry socket.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "commands.h"
#include "host/endpoint_note.h"

namespace uroce::launcher {
namespace {

class TelemetryClient {
 public:
  explicit TelemetryClient(const std::string& path) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const timeval patience{2, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && receive();
  }
  ~TelemetryClient() { close(fd_); }
  TelemetryClient(const TelemetryClient&) = delete;
  TelemetryClient& operator=(const TelemetryClient&) = delete;

  /// The JSON with which the command is answered.
  std::optional<std::string> ask(const std::string& command) {
    if (!connected_ || send(fd_, command.data(), command.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
    return receive();
  }

 private:
  std::optional<std::string> receive() {
    std::string text(1 << 16, '\0');
    const ssize_t bytes = recv(fd_, text.data(), text.size(), 0);
    if (bytes <= 0) return std::nullopt;
    text.resize(static_cast<size_t>(bytes));
    return text;
  }
  int fd_;
  bool connected_ = false;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Reads the answers of uroce's own commands: {"/command":{"key":value,...}} or {"/command":[value,...]}, where a value
/// is a number, a string without escapes, or a list. The result is pairs of key and value as text; the key is "" in a
/// list.
class Answer {
 public:
  explicit Answer(const std::string& json) : text_(json) {
    at_ = text_.find(':');
    if (at_ == std::string::npos) return;
    at_ = text_.find_first_of("{[", at_);
    if (at_ == std::string::npos) return;
    const bool dictionary = text_[at_++] == '{';
    while (at_ < text_.size() && text_[at_] != '}' && text_[at_] != ']') {
      std::string key;
      if (dictionary) {
        key = value();
        skip(":");
      }
      pairs_.emplace_back(std::move(key), value());
      skip(",");
    }
  }
  Pairs take() { return std::move(pairs_); }

 private:
  void skip(const char* characters) {
    while (at_ < text_.size() && (std::strchr(characters, text_[at_]) != nullptr || text_[at_] == ' ')) at_++;
  }
  std::string value() {
    skip("");
    const char first = at_ < text_.size() ? text_[at_] : '}';
    size_t end;
    if (first == '"') {
      end = text_.find('"', ++at_);
    } else if (first == '[') {
      end = text_.find(']', ++at_);
    } else {
      end = text_.find_first_of(",}]", at_);
    }
    end = std::min(end, text_.size());
    std::string result = text_.substr(at_, end - at_);
    at_ = end + (first == '"' || first == '[' ? 1 : 0);
    return result;
  }
  std::string text_;
  size_t at_ = 0;
  Pairs pairs_;
};

Pairs pairs_of(const std::string& json) { return Answer(json).take(); }

void print_pairs(const std::string& json, bool zeros) {
  for (const auto& [key, value] : pairs_of(json)) {
    if (value != "0" || zeros) std::printf("  %-28s %s\n", key.c_str(), value.c_str());
  }
}

bool print_endpoint(const RunningEndpoint& running, bool json, bool all) {
  TelemetryClient client(running.telemetry_socket);
  const auto endpoint = client.ask("/uroce/endpoint");
  const auto counters = client.ask("/uroce/counters");
  const auto qps = client.ask("/uroce/qps");
  if (!endpoint || !counters || !qps) {
    std::fprintf(stderr, "uroce: process %d does not answer (it may just be ending, or be stopped)\n", running.pid);
    return false;
  }
  if (json) {
    std::printf("%s\n%s\n", endpoint->c_str(), counters->c_str());
  } else {
    std::printf("process %d\n", running.pid);
    print_pairs(*endpoint, true);
    std::printf("counters%s\n", all ? "" : " (those that are not 0)");
    print_pairs(*counters, all);
  }
  for (const auto& [key, qpn] : pairs_of(*qps)) {
    const auto qp = client.ask("/uroce/qp," + qpn);
    if (!qp) break;
    if (json) {
      std::printf("%s\n", qp->c_str());
      continue;
    }
    std::printf("queue pair");
    for (const auto& [name, value] : pairs_of(*qp)) std::printf(" %s %s", name.c_str(), value.c_str());
    std::printf("\n");
  }
  return true;
}

int stats(int pid, bool json, bool all) {
  std::string error;
  const std::vector<RunningEndpoint> running = running_endpoints(error);
  if (!error.empty()) return fail(error);
  bool found = false;
  bool good = true;
  for (const RunningEndpoint& r : running) {
    if (pid != 0 && r.pid != pid) continue;
    found = true;
    good = print_endpoint(r, json, all) && good;
  }
  if (!found && pid != 0) return fail("process " + std::to_string(pid) + " has no open uroce device");
  if (!found) std::printf("no process has an open uroce device\n");
  return good ? 0 : 1;
}

}  // namespace

void add_stats(CLI::App& app, int& exit_code) {
  struct Options {
    int pid = 0;
    bool json = false;
    bool all = false;
  };
  CLI::App* command = app.add_subcommand("stats", "counters and queue pairs of the programs that run now");
  auto options = std::make_shared<Options>();
  command->add_option("PID", options->pid, "only this process")->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "as DPDK's telemetry gives it, one object per line");
  command->add_flag("--all", options->all, "counters that are 0 too");
  command->callback([options, &exit_code] { exit_code = stats(options->pid, options->json, options->all); });
}

}  // namespace uroce::launcher
