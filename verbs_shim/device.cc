// Listing, naming, opening and closing the device.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/fork.h"
#include "base/no_cancel.h"
#include "dpdk/log.h"
#include "identity.h"
#include "objects.h"
#include "operations.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

Device& the_device() {
  static Device* const device = [] {
    auto* d = new Device{};
    d->node_type = IBV_NODE_CA;
    d->transport_type = IBV_TRANSPORT_IB;
    std::snprintf(d->name, sizeof d->name, "%s", kDeviceName);
    std::snprintf(d->dev_name, sizeof d->dev_name, "%s", kUverbsName);
    std::snprintf(d->dev_path, sizeof d->dev_path, "/sys/class/infiniband_verbs/%s", kUverbsName);
    std::snprintf(d->ibdev_path, sizeof d->ibdev_path, "/sys/class/infiniband/%s", kDeviceName);
    return d;
  }();
  return *device;
}

// The open contexts, as a linked list through the contexts themselves.
std::mutex contexts_mutex;
Context* first_context = nullptr;

void add_to_contexts(Context& context) {
  const std::lock_guard guard(contexts_mutex);
  context.next_open = std::exchange(first_context, &context);
}

void take_from_contexts(Context& context) {
  const std::lock_guard guard(contexts_mutex);
  Context** at = &first_context;
  while (*at != &context) at = &(*at)->next_open;
  *at = context.next_open;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  EndpointIdentity identity;
  if (!Runtime::get().identify(identity)) return nullptr;
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(void*)));
  if (list == nullptr) return nullptr;
  list[0] = &the_device();
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}

UROCE_VERBS_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }

UROCE_VERBS_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

UROCE_VERBS_EXPORT int ibv_get_device_index(ibv_device*) { return 0; }

UROCE_VERBS_EXPORT __be64 ibv_get_device_guid(ibv_device*) {
  EndpointIdentity identity;
  return Runtime::get().identify(identity) ? guid_of(identity.guid_mac()) : 0;
}

namespace uroce::verbs {

ibv_context* make_context(uint64_t file, int cmd_fd) try {
  auto context = std::make_unique<Context>();
  fill_operations(*context);
  ibv_context& base = context->verbs.context;
  if (context->async.fd() < 0) {
    log_message(LogLevel::kError, "cannot open the device: no file descriptors: %s", std::strerror(errno));
    return nullptr;
  }
  context->file = file;
  base.device = &the_device();
  base.async_fd = context->async.fd();
  base.cmd_fd = cmd_fd;
  base.num_comp_vectors = 1;
  pthread_mutex_init(&base.mutex, nullptr);
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  add_to_contexts(*context);
  static_cast<void>(context.release());  // its owner is the program now
  return &base;
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT ibv_context* ibv_open_device(ibv_device*) {
  const NoCancel with_a_descriptor;
  if (!Runtime::get().open()) return nullptr;
  static std::atomic<uint64_t> files{0};
  const uint64_t file = ++files;
  const int cmd_fd = open_command_file(file);
  if (cmd_fd < 0) {
    log_message(LogLevel::kError, "cannot open the device: no file descriptors: %s", std::strerror(errno));
    return nullptr;
  }
  ibv_context* context = make_context(file, cmd_fd);
  if (context == nullptr) {
    const int error = errno;
    syscall(SYS_close, cmd_fd);
    errno = error;
  }
  return context;
}

UROCE_VERBS_EXPORT int ibv_close_device(ibv_context* base) {
  Context& context = ours(base);
  if (is_the_parents(base)) return 0;
  take_from_contexts(context);
  syscall(SYS_close, base->cmd_fd);
  uint32_t left;
  {
    const std::lock_guard guard(context.mutex);
    left = context.objects;
  }
  if (left != 0) {
    // This is allowed: a kernel would clean up. Here the objects still point at the context, so it stays.
    log_message(LogLevel::kInfo, "the device was closed with %u objects alive", left);
    return 0;
  }
  pthread_mutex_destroy(&base->mutex);
  delete &context;
  return 0;
}

namespace uroce::verbs {

void leave_contexts() {
  renew_after_fork(contexts_mutex);
  first_context = nullptr;
  Handles<PdCore>::get().leave();
  Handles<MrCore>::get().leave();
  leave_device_memory();
}

void push_to_contexts(const ibv_async_event& event) {
  const std::lock_guard guard(contexts_mutex);
  for (Context* context = first_context; context != nullptr; context = context->next_open) context->async.push(event);
}

uint32_t next_handle() {
  static std::atomic<uint32_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

void count_object(ibv_context* base, int difference) {
  Context& context = ours(base);
  const std::lock_guard guard(context.mutex);
  context.objects += static_cast<uint32_t>(difference);
}

void count_object(ibv_pd* pd, int difference) {
  ours(pd).users += static_cast<uint32_t>(difference);
  count_object(pd->context, difference);
}

void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged, uint32_t taken) {
  const NoCancel with_the_mutex;
  pthread_mutex_lock(&mutex);
  while (acknowledged != taken) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace uroce::verbs
