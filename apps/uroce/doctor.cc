// `uroce doctor`: what this machine provides for uroce, and what to change where it does not.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <rte_version.h>

#include "commands.h"
#include "host/hugepages.h"
#include "host/netdev.h"
#include "host/port_plan.h"
#include "host/wire_end.h"

namespace uroce::launcher {
namespace {

enum class Verdict { kOk, kHint, kBad };

class Table {
 public:
  /// `advice` is printed below a row that is not ok.
  void row(Verdict verdict, const std::string& what, const std::string& found, const std::string& advice = "") {
    static constexpr const char* kMarks[] = {"ok", "--", "!!"};
    std::printf("%-2s  %-18s %s\n", kMarks[static_cast<unsigned>(verdict)], what.c_str(), found.c_str());
    if (verdict != Verdict::kOk && !advice.empty()) std::printf("    %-18s -> %s\n", "", advice.c_str());
    bad_ = bad_ || verdict == Verdict::kBad;
  }
  bool bad() const { return bad_; }

 private:
  bool bad_ = false;
};

void check_shim(Table& table) {
  const std::string shim = find_shim();
  table.row(shim.empty() ? Verdict::kBad : Verdict::kOk, "verbs library", shim.empty() ? "missing" : shim,
            "build it: ninja -C build");
}

void check_runtime_dir(Table& table) {
  std::string error;
  const std::string dir = runtime_dir(error);
  const bool good = !dir.empty() && access(dir.c_str(), W_OK) == 0;
  table.row(good ? Verdict::kOk : Verdict::kBad, "meeting place",
            good            ? dir
            : error.empty() ? dir + " not writable"
                            : error,
            "processes of this machine meet there; name another directory with UROCE_RUNTIME_DIR");
}

/// By which addresses the programs of this machine reach each other by default.
void check_default_port(Table& table) {
  std::string error;
  PortPlan plan;
  if (!plan_port(EndpointConfig{}, WireEndUse::kLook, plan, error)) {
    table.row(Verdict::kBad, "default port", "shmlan cannot be used", error);
    return;
  }
  std::string found = plan.name + ": all your programs are one host, with the address ";
  for (const LocalAddress& address : plan.identity.addresses) {
    found += (&address == plan.identity.addresses.data() ? "" : ", ") + to_string(address.ip);
  }
  table.row(Verdict::kOk, "default port", found);
}

void list_switches(Table& table) {
  for (const RunningSwitch& found : running_switches()) {
    table.row(Verdict::kOk, "switch",
              found.name + ", " + std::to_string(found.ports) + " ports: --port switch:" + found.name);
  }
}

void check_memory(Table& table) {
  const bool huge = hugepages_usable(kEalMemoryBytes);
  table.row(huge ? Verdict::kOk : Verdict::kHint, "hugepages",
            huge ? "64 MB and more are free" : "none that this user can have",
            "not needed; some drivers of real cards want them: as root, echo 64 > /proc/sys/vm/nr_hugepages");
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  table.row(Verdict::kOk, "locked memory",
            unlimited ? "unlimited"
                      : std::to_string(limit.rlim_cur / 1024) + " KB (memory is not pinned, so any limit will do)");
}

bool can_open_raw() {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool can_open_tun() {
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

void check_rights(Table& table) {
  const bool raw = can_open_raw();
  table.row(raw ? Verdict::kOk : Verdict::kHint, "raw packets",
            raw ? "allowed: ports net_af_packet, net_af_xdp" : "not allowed",
            "for ports on kernel interfaces run as root, or with CAP_NET_RAW; the default port needs no rights");
  const bool tun = can_open_tun();
  table.row(tun ? Verdict::kOk : Verdict::kHint, "TAP interfaces",
            tun ? "allowed: port net_tap" : "no /dev/net/tun for this user",
            "for port net_tap run as root with the tun module loaded");
}

void check_dpdk(Table& table) {
  char version[64];
  std::snprintf(version, sizeof version, "%d.%02d.%d", RTE_VER_YEAR, RTE_VER_MONTH, RTE_VER_MINOR);
  table.row(Verdict::kOk, "DPDK", std::string(version) + ", inside the verbs library");
  std::string line;
  std::istringstream drivers(UROCE_DPDK_DRIVERS);
  for (std::string name; drivers >> name;) {
    if (line.size() + name.size() > 70) {
      table.row(Verdict::kOk, "drivers", line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + name;
  }
  table.row(Verdict::kOk, "drivers", line);
}

void check_processor(Table& table) {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("avx2") != 0;
  const bool narrow = __builtin_cpu_supports("pclmul") != 0;
  table.row(wide ? Verdict::kOk : Verdict::kHint, "checksum",
            wide     ? "VPCLMULQDQ: packets are copied and checksummed in one pass"
            : narrow ? "no VPCLMULQDQ: the slower PCLMULQDQ code is used"
                     : "no carry-less multiplication: tables are used",
            "nothing to do; only bandwidth is lower");
#endif
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  table.row(cpus >= 2 ? Verdict::kOk : Verdict::kHint, "processors", std::to_string(cpus),
            "two polling programs on one processor take turns: expect milliseconds of latency");
}

void check_interfaces(Table& table) {
  bool any = false;
  for (const std::string& name : list_netdevs().value_or(std::vector<std::string>{})) {
    const auto netdev = read_netdev(name);
    if (!netdev) continue;
    any = true;
    std::string found = netdev->up ? netdev->carrier ? "up" : "no carrier" : "down";
    found += ", MTU " + std::to_string(netdev->mtu);
    for (const LocalAddress& address : netdev->addresses) found += ", " + to_string(address);
    table.row(netdev->up ? Verdict::kOk : Verdict::kHint, "interface " + name, found, "ip link set " + name + " up");
  }
  if (!any) table.row(Verdict::kHint, "interfaces", "none", "only the default port, shared memory, can be used");
}

void check_programs(Table& table) {
  struct Package {
    const char* name;
    std::vector<const char*> programs;
  };
  const Package packages[] = {{"ibverbs-utils", {"ibv_devices", "ibv_devinfo", "ibv_rc_pingpong"}},
                              {"perftest", {"ib_write_bw", "ib_read_lat", "ib_send_bw"}},
                              {"tshark", {"tshark"}}};
  for (const Package& package : packages) {
    bool all = true;
    for (const char* program : package.programs) all = all && !find_program(program).empty();
    table.row(all ? Verdict::kOk : Verdict::kHint, package.name, all ? "installed" : "not installed",
              std::string("apt-get install ") + package.name);
  }
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "what this machine can do, and what to do about the rest");
  command->callback([&exit_code] {
    Table table;
    check_shim(table);
    check_runtime_dir(table);
    check_default_port(table);
    list_switches(table);
    check_dpdk(table);
    check_processor(table);
    check_memory(table);
    check_rights(table);
    check_interfaces(table);
    check_programs(table);
    std::printf("\n%s\n", table.bad() ? "Rows with !! have to be mended before anything runs."
                                      : "Programs can run. Rows with -- only limit what they can do.");
    exit_code = table.bad() ? 1 : 0;
  });
}

void add_version(CLI::App& app) {
  app.add_subcommand("version", "which version this is")->callback([] {
    std::printf("uroce %s (DPDK %d.%02d.%d)\n", UROCE_VERSION, RTE_VER_YEAR, RTE_VER_MONTH, RTE_VER_MINOR);
  });
}

}  // namespace uroce::launcher
