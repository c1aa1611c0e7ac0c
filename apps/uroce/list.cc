// `uroce ls`, `uroce qp` and `uroce top`: which programs have the device open, their connections, how busy they are.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>

#include "commands.h"
#include "members.h"
#include "programs.h"
#include "segment/host_identity.h"
#include "table.h"

namespace uroce::launcher {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kNoAnswer = "does not answer: it is stopped, or just ending";
constexpr const char* kNoTelemetry = "is on the segment, and tells no more: it has no telemetry that could be asked";

/// The first address that is not link-local, since every port has such a one. An address of the machine comes before a
/// private one, which the program got while the machine had none.
std::string address_of(const Program& program) {
  const auto gids = program.endpoint.find("gids");
  if (gids == program.endpoint.end() || !gids->is_array()) return "?";
  std::string link_local;
  std::string leased;
  for (const Json& gid : *gids) {
    std::string text = gid.is_string() ? gid.get<std::string>() : "";
    const auto address = parse_local_address(text);
    if (!address || address->ip.is_zero()) continue;  // a row that is empty now
    std::string& kept = address->ip.is_link_local_v6() ? link_local : leased;
    if (!address->ip.is_link_local_v6() && !segment::is_leased(*address)) return text;
    if (kept.empty()) kept = text;
  }
  return !leased.empty() ? leased : link_local.empty() ? "?" : link_local;
}

/// Errors of work requests, of the program and of its peers, that were not just flushed.
uint64_t errors_of(const Json& counters) {
  return number_at(counters, "req_cqe_error") + number_at(counters, "resp_cqe_error");
}

uint64_t drops_of(const Json& counters) {
  uint64_t drops = number_at(counters, "rx_icrc_encapsulated");
  for (const auto& [name, value] : counters.items()) {
    if (name.starts_with("rx_drop_") && value.is_number_unsigned()) drops += value.get<uint64_t>();
  }
  return drops;
}

Json json_of(const Program& program) {
  Json json{{"pid", program.pid}, {"answers", program.answers}};
  if (!program.answers) return json;
  json["endpoint_number"] = program.endpoint_number;
  json["endpoint"] = program.endpoint;
  json["counters"] = program.counters;
  return json;
}

Json json_of(const Member& member) {
  return {{"pid", member.pid},   {"answers", false},    {"program", member.program},
          {"port", member.port}, {"host", member.host}, {"addresses", member.addresses}};
}

std::vector<std::string> row_of(const Member& member) {
  const std::string address = member.addresses.empty() ? "?" : member.addresses.front();
  return {std::to_string(member.pid), member.program, member.port, address, kNoTelemetry};
}

int list_programs(bool json) {
  std::string error;
  const std::vector<Program> programs = ask_programs(Ask::kSummary, std::nullopt, error);
  if (!error.empty()) return fail(error);
  const std::vector<Member> members = other_members(programs);
  if (json) {
    Json all = Json::array();
    for (const Program& program : programs) all.push_back(json_of(program));
    for (const Member& member : members) all.push_back(json_of(member));
    std::printf("%s\n", all.dump(1).c_str());
    return 0;
  }
  Rows rows{{"PID", "PROGRAM ", "PORT ", "ADDRESS ", "QPS", "REGIONS", "SENT MB", "RECEIVED MB", "RETRANSMITTED",
             "ERRORS", "ENGINE "}};
  for (const Program& p : programs) {
    if (!p.answers) {
      rows.push_back({std::to_string(p.pid), kNoAnswer});
      continue;
    }
    const auto megabytes = [&](const char* key) { return std::to_string(number_at(p.counters, key) / 1'000'000); };
    rows.push_back({std::to_string(p.pid), text_at(p.endpoint, "program"), text_at(p.endpoint, "port"), address_of(p),
                    text_at(p.endpoint, "qps"), text_at(p.endpoint, "regions"), megabytes("tx_bytes"),
                    megabytes("rx_bytes"), text_at(p.counters, "retransmits"), std::to_string(errors_of(p.counters)),
                    text_at(p.endpoint, "engine")});
  }
  for (const Member& member : members) rows.push_back(row_of(member));
  std::printf("%s", rows.size() == 1 ? "no process has an open uroce device\n" : table(rows).c_str());
  return 0;
}

int list_qps(int pid, bool json) {
  std::string error;
  const std::vector<Program> programs =
      ask_programs(Ask::kQueuePairs, pid != 0 ? std::optional(pid) : std::nullopt, error);
  if (!error.empty()) return fail(error);
  if (programs.empty() && pid != 0) return fail("process " + std::to_string(pid) + " has no open uroce device");
  Rows rows{
      {"PID", "PROGRAM ", "QPN ", "TYPE ", "STATE ", "PEER ", "PEER'S QPN ", "MTU", "SENDS", "RECEIVES", "ERROR "}};
  Json all = Json::array();
  const auto hexadecimal = [](const Json& qp, const char* key) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%06llx", static_cast<unsigned long long>(number_at(qp, key)));
    return std::string(text);
  };
  for (const Program& p : programs) {
    if (!p.answers) rows.push_back({std::to_string(p.pid), kNoAnswer});
    if (!p.answers && json) all.push_back(json_of(p));
    for (const Json& qp : p.qps) {
      Json object{{"pid", p.pid}, {"program", text_at(p.endpoint, "program")}};
      object.update(qp);
      all.push_back(object);
      const bool connected =
          text_at(qp, "type") != "UD" && text_at(qp, "state") != "RESET" && text_at(qp, "state") != "INIT";
      rows.push_back({std::to_string(p.pid), text_at(p.endpoint, "program"), hexadecimal(qp, "qpn"),
                      text_at(qp, "type"), text_at(qp, "state"), connected ? text_at(qp, "dest_gid") : "-",
                      connected ? hexadecimal(qp, "dest_qpn") : "-", text_at(qp, "path_mtu"),
                      text_at(qp, "sends_queued"), text_at(qp, "receives_queued"), text_at(qp, "error")});
    }
    const uint64_t there = number_at(p.endpoint, "qps");
    if (there > p.qps.size() && p.answers)
      rows.push_back({std::to_string(p.pid), "and " + std::to_string(there - p.qps.size()) + " more"});
  }
  std::printf("%s", json ? (all.dump(1) + "\n").c_str() : table(rows).c_str());
  return 0;
}

/// Counters of a program at one moment.
struct Sample {
  std::chrono::steady_clock::time_point at;
  Json counters;
};

struct Rates {
  double send_mbps = 0, receive_mbps = 0, send_kpps = 0, receive_kpps = 0;
  uint64_t retransmits = 0, errors = 0, drops = 0;  // since the sample before
};

Rates rates_between(const Sample& before, const Sample& now) {
  const double seconds = std::max(std::chrono::duration<double>(now.at - before.at).count(), 1e-6);
  const auto more = [&](const char* key) {
    const uint64_t old = number_at(before.counters, key);
    const uint64_t value = number_at(now.counters, key);
    return value > old ? value - old : 0;
  };
  const auto rate = [&](const char* key, double unit) { return static_cast<double>(more(key)) / seconds / unit; };
  Rates rates{rate("tx_bytes", 125e3), rate("rx_bytes", 125e3), rate("tx_packets", 1e3), rate("rx_packets", 1e3)};
  rates.retransmits = more("retransmits");
  rates.errors = errors_of(now.counters) - std::min(errors_of(before.counters), errors_of(now.counters));
  rates.drops = drops_of(now.counters) - std::min(drops_of(before.counters), drops_of(now.counters));
  return rates;
}

/// The display of `uroce top`.
class Top {
 public:
  explicit Top(bool json) : json_(json) {}

  /// Asks all programs, and shows what changed since the last time. Returns false, with one line in `error`.
  bool refresh(std::string& error) {
    const std::vector<Program> programs = ask_programs(Ask::kSummary, std::nullopt, error);
    if (!error.empty()) return false;
    std::map<Key, Sample> now;
    std::vector<std::pair<const Program*, Rates>> busy;
    for (const Program& program : programs) {
      Rates rates;
      if (program.answers) {
        const Sample& sample = now[key_of(program)] = {std::chrono::steady_clock::now(), program.counters};
        if (const auto before = before_.find(key_of(program)); before != before_.end())
          rates = rates_between(before->second, sample);
      }
      busy.emplace_back(&program, rates);
    }
    std::stable_sort(busy.begin(), busy.end(), [](const auto& a, const auto& b) {
      return a.second.send_mbps + a.second.receive_mbps > b.second.send_mbps + b.second.receive_mbps;
    });
    if (!first_) json_ ? show_json(busy) : show(busy);
    first_ = false;
    before_ = std::move(now);
    return true;
  }

 private:
  using Busy = std::vector<std::pair<const Program*, Rates>>;
  using Key = std::pair<int, uint64_t>;

  static Key key_of(const Program& program) { return {program.pid, program.endpoint_number}; }

  static void show(const Busy& busy) {
    Rows rows{{"PID", "PROGRAM ", "PORT ", "QPS", "SEND MBIT/S", "RECEIVE MBIT/S", "SEND KPKT/S", "RECEIVE KPKT/S",
               "RETRANSMITTED", "ERRORS", "DROPPED"}};
    const auto rounded = [](double value) { return std::to_string(std::llround(value)); };
    for (const auto& [p, r] : busy) {
      if (!p->answers) {
        rows.push_back({std::to_string(p->pid), kNoAnswer});
        continue;
      }
      rows.push_back({std::to_string(p->pid), text_at(p->endpoint, "program"), text_at(p->endpoint, "port"),
                      text_at(p->endpoint, "qps"), rounded(r.send_mbps), rounded(r.receive_mbps), rounded(r.send_kpps),
                      rounded(r.receive_kpps), std::to_string(r.retransmits), std::to_string(r.errors),
                      std::to_string(r.drops)});
    }
    if (isatty(STDOUT_FILENO) != 0) std::printf("\033[H\033[2J");
    std::printf("%s\n", busy.empty() ? "no process has an open uroce device\n" : table(rows).c_str());
    std::fflush(stdout);
  }

  static void show_json(const Busy& busy) {
    Json all = Json::array();
    for (const auto& [p, r] : busy) {
      Json json{{"pid", p->pid}, {"answers", p->answers}};
      if (p->answers) {
        json.update(Json{{"program", text_at(p->endpoint, "program")},
                         {"port", text_at(p->endpoint, "port")},
                         {"qps", number_at(p->endpoint, "qps")},
                         {"send_mbps", r.send_mbps},
                         {"receive_mbps", r.receive_mbps},
                         {"send_kpps", r.send_kpps},
                         {"receive_kpps", r.receive_kpps},
                         {"retransmits", r.retransmits},
                         {"errors", r.errors},
                         {"drops", r.drops}});
      }
      all.push_back(json);
    }
    std::printf("%s\n", all.dump().c_str());
    std::fflush(stdout);
  }

  const bool json_;
  bool first_ = true;
  std::map<Key, Sample> before_;
};

int top(double seconds, int count, bool json) {
  Top display(json);
  std::string error;
  for (int shown = -1; count == 0 || shown < count; shown++) {
    if (shown >= 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    if (!display.refresh(error)) return fail(error);
  }
  return 0;
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  struct Options {
    int pid = 0;
    double seconds = 1;
    int count = 0;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* ls = app.add_subcommand("ls", "the programs that have the device open");
  ls->add_flag("--json", options->json, "as one JSON document");
  ls->callback([options, &exit_code] { exit_code = list_programs(options->json); });
  CLI::App* qp = app.add_subcommand("qp", "their queue pairs, with peers, and with what went wrong first");
  qp->add_option("PID", options->pid, "only those of this process")->check(CLI::PositiveNumber);
  qp->add_flag("--json", options->json, "as one JSON document");
  qp->callback([options, &exit_code] { exit_code = list_qps(options->pid, options->json); });
  CLI::App* busy = app.add_subcommand("top", "what they send and receive, again and again");
  busy->add_option("-d", options->seconds, "seconds from one to the next (1)")->check(CLI::Range(0.1, 3600.0));
  busy->add_option("-n", options->count, "end after so many")->check(CLI::PositiveNumber);
  busy->add_flag("--json", options->json, "each as one JSON document, in a line");
  busy->callback([options, &exit_code] { exit_code = top(options->seconds, options->count, options->json); });
}

}  // namespace uroce::launcher
