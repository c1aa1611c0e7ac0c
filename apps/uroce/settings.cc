#include "settings.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "congestion/algorithms.h"
#include "host/hugepages.h"
#include "host/log_level.h"
#include "host/port_plan.h"
#include "host/wire_end.h"

namespace uroce::launcher {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

Settings::Settings()
    : settings_{
          {"port",
           "UROCE_PORT",
           "shmlan (the default: shared memory, in which all programs of the machine are one host), shmlan:NAME, "
           "network (the machine's programs and other machines, by UDP), switch:NAME (a free port of a running "
           "uroce-switch), "
           "net_af_packet0,iface=eth0, another DPDK virtual device with its arguments, or a PCI address",
           false,
           {}},
          {"addr",
           "UROCE_ADDR",
           "IP/PREFIX[@VLAN], repeatable; default: those of the machine, the interface, or the wire",
           true,
           {}},
          {"host",
           "UROCE_HOST",
           "on shmlan: programs with the same name are one host, with addresses of its own",
           false,
           {}},
          {"mtu", "UROCE_MTU", "IP MTU of the port; bounds the RoCE MTU", false, {}},
          {"max-qps", "UROCE_MAX_QPS", "queue pairs that the program may have (4096; 131072 at most)", false, {}},
          {"pcap",
           "UROCE_PCAP",
           "write everything sent and received to FILE (pcapng); %p is the process id",
           false,
           {}},
          {"eal", "UROCE_EAL", "more arguments for DPDK's EAL, in one word", false, {}},
          {"log", "UROCE_LOG", "error, warning (the default), info or debug", false, {}},
          {"progress", "UROCE_PROGRESS", "who drives: auto (the default), inline, thread", false, {}},
          {"direct-copy",
           "UROCE_DIRECT_COPY",
           "on shmlan: READ and WRITE without frames between programs that say auto: auto, off (the default)",
           false,
           {}},
          {"hugepages", "UROCE_HUGEPAGES", "auto (the default), yes, no", false, {}},
          {"cc", "UROCE_CC", "congestion control, none by default: " + congestion_algorithm_names(), false, {}},
          {"cc-param",
           "UROCE_CC_PARAM",
           "NAME=VALUE, repeatable: one of its parameters, see doc/congestion.md",
           true,
           {}},
          {"tclass", "UROCE_TCLASS", "traffic class (DSCP * 4) of QPs whose program asks for none", false, {}},
          {"pfc", "UROCE_PFC", "priorities with flow control, such as 3 or 3,4; none by default", false, {}},
          {"faults",
           "UROCE_FAULTS",
           "what goes wrong with what the program sends: 'loss 1%; delay all by 50us; rate 1G', see doc/segment.md",
           false,
           {}},
          {"loss-recovery",
           "UROCE_LOSS_RECOVERY",
           "go-back-n (the default), auto (selective repeat with peers that know it), selective",
           false,
           {}},
      } {}

void Settings::add_options(CLI::App& run) {
  for (Setting& setting : settings_) {
    CLI::Option* option = run.add_option(std::string("--") + setting.name, setting.values, setting.help);
    option->allow_extra_args(false);  // otherwise a list would take the program's words, too
    if (!setting.repeatable) option->expected(1);
  }
  run.add_option("--conf", conf_file_, "settings from FILE (TOML or INI): the same names, without the dashes");
}

bool Settings::read_file(std::string& error) {
  if (conf_file_.empty()) return true;
  std::ifstream file(conf_file_);
  if (!file) {
    error = "cannot read " + conf_file_ + ": " + std::strerror(errno);
    return false;
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& bad) {
    error = conf_file_ + ": " + bad.what();
    return false;
  }
  std::vector<std::string> from_flags;
  for (const Setting& setting : settings_) {
    if (!setting.values.empty()) from_flags.push_back(setting.name);
  }
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // begin and end of a section
    const auto it =
        std::find_if(settings_.begin(), settings_.end(), [&](const Setting& s) { return item.name == s.name; });
    if (it == settings_.end()) {
      error = conf_file_ + ": there is no setting '" + item.name + "'; `uroce run --help` lists them";
      return false;
    }
    const bool given = std::find(from_flags.begin(), from_flags.end(), item.name) != from_flags.end();
    if (!given) it->values.insert(it->values.end(), item.inputs.begin(), item.inputs.end());
  }
  return true;
}

bool Settings::apply(std::string& error) {
  if (!read_file(error)) return false;
  for (Setting& setting : settings_) {
    if (setting.values.empty()) continue;
    if (!setting.repeatable && setting.values.size() > 1) {
      error = std::string("'") + setting.name + "' is given more than once";
      return false;
    }
    // The program may change its directory before it opens the device.
    if (std::strcmp(setting.name, "pcap") == 0) setting.values[0] = std::filesystem::absolute(setting.values[0]);
    setenv(setting.variable, join(setting.values).c_str(), 1);
  }
  return check(error);
}

bool Settings::check(std::string& error) const {
  const char* log = std::getenv("UROCE_LOG");
  LogLevel level;
  if (log != nullptr && *log != 0 && !parse_log_level(log, level)) {
    error = std::string("log level '") + log + "' is none of error, warning, info, debug";
    return false;
  }
  EndpointConfig config;
  if (!endpoint_config_from_environment(config, error)) return false;
  PortPlan plan;
  // Only looks: the program takes an end itself, if it opens the device at all.
  if (!plan_port(config, WireEndUse::kLook, plan, error)) return false;
  if (config.hugepages == Hugepages::kYes && !hugepages_usable(kEalMemoryBytes)) {
    error = "no free hugepages (64 MB are needed): as root, echo 64 > /proc/sys/vm/nr_hugepages; or use --hugepages no";
    return false;
  }
  if (!config.pcap_file.empty()) {
    const std::filesystem::path directory = std::filesystem::absolute(config.pcap_file).parent_path();
    if (access(directory.c_str(), W_OK) != 0) {
      error = "cannot write the capture into " + directory.string() + ": " + std::strerror(errno);
      return false;
    }
  }
  return true;
}

}  // namespace uroce::launcher
