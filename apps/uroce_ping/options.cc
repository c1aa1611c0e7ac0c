#include "options.h"

#include "common/command_line.h"

namespace uroce::ping {

bool parse_options(int argc, char** argv, Options& options, int& code) {
  CLI::App app(
      "Does RoCE get through to a host, with which MTU, and with which marks?\n"
      "`uroce ping HOST` runs it over uroce; by itself it takes the machine's RDMA device.",
      "uroce-ping");
  double interval_s = 0.2;
  double patience_s = 2;
  app.add_option("HOST", options.host, "name or address of the other machine");
  app.add_flag("--serve", options.serve, "answer the pings of others, until it is ended");
  app.add_option("-c,--count", options.count, "pings")->check(CLI::Range(1u, 1'000'000u))->capture_default_str();
  app.add_option("-i,--interval", interval_s, "seconds from one ping to the next")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("-W,--wait", patience_s, "seconds to wait for an answer")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  const auto complete = [&]() -> std::string {
    if (options.host.empty() != options.serve)
      return options.serve ? "--serve answers anybody: it takes no HOST" : "which host? uroce ping HOST";
    return "";
  };
  if (!apps::parse_command_line(app, argc, argv, complete, code)) return false;
  options.interval = std::chrono::milliseconds(static_cast<int64_t>(interval_s * 1000));
  options.patience = std::chrono::milliseconds(static_cast<int64_t>(patience_s * 1000));
  return true;
}

}  // namespace uroce::ping
