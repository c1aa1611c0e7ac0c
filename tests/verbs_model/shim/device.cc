// The device under test.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbs_model/shim/verbs_machine.h"

namespace uroce::model {

namespace {

constexpr int kGidIndex = 1;  // IPv4

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "verbs model: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

ibv_context* open_shim() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count != 1 || std::strcmp(ibv_get_device_name(list[0]), "uroce0") != 0) {
    std::fprintf(stderr, "verbs model: this machine's own libibverbs answers: the shim has to be preloaded\n");
    std::exit(1);
  }
  ibv_context* context = ibv_open_device(list[0]);
  if (context == nullptr) give_up("the device does not open");
  ibv_free_device_list(list);
  return context;
}

}  // namespace

Device& Device::get() {
  static Device* const device = new Device;
  return *device;
}

Device::Device() : context_(open_shim()) {
  idle_ = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ibv_port_attr port{};
  if (idle_ == nullptr || ibv_query_port(context_, 1, &port) != 0) give_up("no queue or no port");
  if (port.active_mtu != IBV_MTU_4096) give_up("programs are drawn for a port with MTU 4096");
  if (fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK) != 0) give_up("async_fd");
  packets_fd_ = open("/sys/class/infiniband/uroce0/ports/1/hw_counters/loopback_packets", O_RDONLY | O_CLOEXEC);
  if (packets_fd_ < 0) give_up("no counter of packets");
}

ibv_ah_attr Device::own_address() const {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  if (ibv_query_gid(context_, 1, kGidIndex, &attr.grh.dgid) != 0) give_up("no address");
  attr.grh.sgid_index = kGidIndex;
  attr.grh.hop_limit = 64;
  attr.port_num = 1;
  return attr;
}

Instant Device::now() const {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  if (ibv_query_rt_values_ex(context_, &values) != 0) give_up("no clock");
  return Instant{values.raw_clock.tv_sec * 1'000'000'000 + values.raw_clock.tv_nsec};
}

void Device::turn() {
  ibv_wc none;
  if (ibv_poll_cq(idle_, 1, &none) != 0) give_up("a queue of nobody has a completion");
}

uint64_t Device::packets() const {
  char text[32] = "";
  if (pread(packets_fd_, text, sizeof text - 1, 0) <= 0) give_up("the counter of packets cannot be read");
  return std::strtoull(text, nullptr, 10);
}

bool Device::take_event(ibv_async_event& event) {
  if (ibv_get_async_event(context_, &event) != 0) return false;
  ibv_ack_async_event(&event);
  return true;
}

}  // namespace uroce::model
