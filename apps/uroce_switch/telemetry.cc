#include "telemetry.h"

#include <unistd.h>

#include <cstdlib>

#include <rte_telemetry.h>

#include "report.h"

namespace uroce::netswitch {
namespace {

EngineMutex* g_lock = nullptr;
LiveSwitch* g_live = nullptr;  // protected by g_lock

/// Runs `f` as the owner of the switch.
template <typename F>
int reply(F&& f) {
  g_lock->acquire();
  const int rc = g_live == nullptr ? -1 : f(*g_live);
  g_lock->release();
  return rc;
}

int on_info(const char* /*cmd*/, const char* /*params*/, rte_tel_data* data) {
  return reply([&](const LiveSwitch& live) {
    rte_tel_data_start_dict(data);
    rte_tel_data_add_dict_string(data, "name", live.options().name.c_str());
    rte_tel_data_add_dict_u64(data, "pid", static_cast<uint64_t>(getpid()));
    rte_tel_data_add_dict_u64(data, "ports", live.links().size());
    rte_tel_data_add_dict_u64(data, "uptime_ms", static_cast<uint64_t>(live.uptime().ns / 1'000'000));
    rte_tel_data_add_dict_u64(data, "buffer_bytes_used", live.fabric().buffer().shared_used());
    return 0;
  });
}

int on_ports(const char* /*cmd*/, const char* /*params*/, rte_tel_data* data) {
  return reply([&](const LiveSwitch& live) {
    rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
    for (const auto& link : live.links()) rte_tel_data_add_array_string(data, link->config().name.c_str());
    return 0;
  });
}

int on_port(const char* /*cmd*/, const char* params, rte_tel_data* data) {
  if (params == nullptr || *params == 0) return -1;
  const unsigned long number = std::strtoul(params, nullptr, 10);
  return reply([&](const LiveSwitch& live) {
    if (number >= live.links().size()) return -1;
    const SwitchLink& link = *live.links()[number];
    rte_tel_data_start_dict(data);
    rte_tel_data_add_dict_string(data, "name", link.config().name.c_str());
    rte_tel_data_add_dict_u64(data, "link", link.up() ? 1 : 0);
    rte_tel_data_add_dict_u64(data, "rate_cap", link.config().bits_per_second);
    for_each_counter(link, live.fabric(), [&](const std::string& name, uint64_t value) {
      // An answer has room for 256 names, so those that are 0 are left out for priorities.
      if (value != 0 || name.rfind("prio", 0) != 0) rte_tel_data_add_dict_u64(data, name.c_str(), value);
    });
    return 0;
  });
}

}  // namespace

void publish(LiveSwitch* live, EngineMutex& lock) {
  lock.acquire();
  const bool first = g_lock == nullptr;
  g_lock = &lock;
  g_live = live;
  lock.release();
  if (!first) return;
  rte_telemetry_register_cmd("/uroce_switch/info", on_info, "What the switch is. No parameters");
  rte_telemetry_register_cmd("/uroce_switch/ports", on_ports, "Names of all ports. No parameters");
  rte_telemetry_register_cmd("/uroce_switch/port", on_port, "Every counter of a port. Parameters: its number");
}

}  // namespace uroce::netswitch
