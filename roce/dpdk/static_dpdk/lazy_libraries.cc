// Libraries that only some drivers need, loaded when such a port is opened.
//
// The verbs shim is loaded into every program that `uroce run` starts, and into its children. libpcap alone would bring
// D-Bus and systemd's library into each of them. So each function that the drivers call is replaced by a jump through a
// slot, which `uroce_load_driver_libraries` fills.
#include <dlfcn.h>

#include <string>
#include <string_view>

#include "dpdk/driver_libraries.h"
#include "dpdk/log.h"

#if !defined(__x86_64__)
#error "static_dpdk/meson.build leaves these drivers out on other processors"
#endif

// net_af_xdp: libbpf and libxdp. net_pcap: libpcap.
// Lists like these have no fixed point in clang-format 14.
// clang-format off
// clang-format off
#define BPF_FUNCTIONS(X) \
  X(bpf_map__fd) X(bpf_map_update_elem) X(bpf_object__close) X(bpf_object__find_map_by_name) X(bpf_object__load) \
  X(bpf_object__next_program) X(bpf_object__open_file) X(bpf_program__fd) X(bpf_xdp_attach) X(bpf_xdp_detach) \
  X(bpf_xdp_query_id) X(libbpf_get_error)
#define XDP_FUNCTIONS(X) \
  X(xsk_socket__create) X(xsk_socket__create_shared) X(xsk_socket__delete) X(xsk_socket__fd) X(xsk_umem__create) \
  X(xsk_umem__delete) X(xsk_umem__fd)
#define PCAP_FUNCTIONS(X) \
  X(pcap_close) X(pcap_dump) X(pcap_dump_close) X(pcap_dump_file) X(pcap_dump_flush) X(pcap_dump_open) X(pcap_file) \
  X(pcap_fileno) X(pcap_geterr) X(pcap_next) \
  X(pcap_next_ex) X(pcap_open_dead_with_tstamp_precision) X(pcap_open_live) X(pcap_open_offline) X(pcap_sendpacket) \
  X(pcap_setdirection) X(pcap_setnonblock) X(pcap_stats)
// clang-format on

// Each function is a jump through its slot; `endbr64` comes first, as its address is taken.
#define DEFINE_JUMP(name)                                                                           \
  extern "C" __attribute__((visibility("hidden"))) void* uroce_slot_##name;                         \
  void* uroce_slot_##name = nullptr;                                                                \
  asm(".pushsection .text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name \
      ":\n  endbr64\n  jmp *uroce_slot_" #name "(%rip)\n.size " #name ", .-" #name "\n.popsection\n");

BPF_FUNCTIONS(DEFINE_JUMP)
XDP_FUNCTIONS(DEFINE_JUMP)
PCAP_FUNCTIONS(DEFINE_JUMP)

namespace {

struct Slot {
  const char* name;
  void** slot;
};

#define SLOT_ENTRY(name) {#name, &uroce_slot_##name},
constexpr Slot kBpf[] = {BPF_FUNCTIONS(SLOT_ENTRY)};
constexpr Slot kXdp[] = {XDP_FUNCTIONS(SLOT_ENTRY)};
constexpr Slot kPcap[] = {PCAP_FUNCTIONS(SLOT_ENTRY)};

/// Silences the library: both print irrelevant messages, such as about sections of other tools' programs.
void silence(void* library, const char* set_print) {
  using SetPrint = void* (*)(void*);
  const auto set = reinterpret_cast<SetPrint>(dlsym(library, set_print));
  if (set != nullptr && !uroce::log_enabled(uroce::LogLevel::kDebug)) set(nullptr);
}

template <size_t N>
bool load(const char* file, const char* package, const Slot (&slots)[N], std::string& error) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    error = std::string(file) + " is missing, which this port needs: apt-get install " + package;
    return false;
  }
  silence(library, "libbpf_set_print");
  silence(library, "libxdp_set_print");
  for (const Slot& slot : slots) {
    *slot.slot = dlsym(library, slot.name);
    if (*slot.slot == nullptr) {
      error = std::string(file) + " is not the release that DPDK was built for: it has no " + slot.name;
      return false;
    }
  }
  return true;
}

}  // namespace

bool uroce_load_driver_libraries(const char* driver, std::string& error) {
  const std::string_view name = driver;
  if (name == "net_af_xdp") {
    return load("libbpf.so.1", "libbpf1", kBpf, error) && load("libxdp.so.1", "libxdp1", kXdp, error);
  }
  if (name == "net_pcap") return load("libpcap.so.0.8", "libpcap0.8", kPcap, error);
  return true;
}
