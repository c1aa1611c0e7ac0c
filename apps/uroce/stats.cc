// `uroce stats`: everything that running endpoints say of themselves.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "commands.h"
#include "programs.h"

namespace uroce::launcher {
namespace {

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& each : value) text += (text.empty() ? "" : ", ") + text_of(each);
  return text;
}

void print_pairs(const Json& dictionary, bool zeros) {
  for (const auto& [key, value] : dictionary.items()) {
    if (value != 0 || zeros) std::printf("  %-28s %s\n", key.c_str(), text_of(value).c_str());
  }
}

void print_program(const Program& program, bool all) {
  std::printf("process %d", program.pid);
  if (!program.is_only) std::printf(", endpoint %llu", static_cast<unsigned long long>(program.endpoint_number));
  std::printf("\n");
  print_pairs(program.endpoint, true);
  std::printf("counters%s\n", all ? "" : " (those that are not 0)");
  print_pairs(program.counters, all);
  for (const Json& qp : program.qps) {
    std::printf("queue pair");
    for (const auto& [name, value] : qp.items()) {
      const std::string text = text_of(value);
      std::printf(" %s %s", name.c_str(), text.empty() ? "none" : text.c_str());
    }
    std::printf("\n");
  }
}

void print_json(const Program& program) {
  const auto print = [](const char* command, const Json& value) {
    std::printf("%s\n", Json{{command, value}}.dump().c_str());
  };
  print("/uroce/endpoint", program.endpoint);
  print("/uroce/counters", program.counters);
  for (const Json& qp : program.qps) print("/uroce/qp", qp);
}

int stats(int pid, bool json, bool all) {
  std::string error;
  const std::vector<Program> programs =
      ask_programs(Ask::kQueuePairs, pid != 0 ? std::optional(pid) : std::nullopt, error);
  if (!error.empty()) return fail(error);
  bool good = true;
  for (const Program& program : programs) {
    if (!program.answers) {
      std::fprintf(stderr, "uroce: process %d does not answer (it may just be ending, or be stopped)\n", program.pid);
      good = false;
    } else if (json) {
      print_json(program);
    } else {
      print_program(program, all);
    }
  }
  if (programs.empty() && pid != 0) return fail("process " + std::to_string(pid) + " has no open uroce device");
  if (programs.empty()) std::printf("no process has an open uroce device\n");
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
