#include "pmd/ethdev/dma_memory.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/log.h"

namespace mqnic::ethdev {

namespace {

constexpr char kCallbackName[] = "net_mqnic";

struct Follower {
  void* owner;
  Bus* bus;
};
std::mutex followers_mutex;
std::vector<Follower> followers;

/// Joins adjacent segments that are contiguous in one file into one range: without hugepages there are thousands of
/// segments.
class Mapper {
 public:
  Mapper(Bus& bus, bool join) : bus_(bus), join_(join) {}

  int add(void* address, size_t bytes, int fd, uint64_t fd_offset) {
    const bool joins = join_ && bytes_ != 0 && static_cast<uint8_t*>(address_) + bytes_ == address && fd_ == fd &&
                       (fd < 0 || fd_offset_ + bytes_ == fd_offset);
    if (joins) {
      bytes_ += bytes;
      return 0;
    }
    const int rc = flush();
    address_ = address;
    bytes_ = bytes;
    fd_ = fd;
    fd_offset_ = fd_offset;
    return rc;
  }
  int flush() {
    if (bytes_ == 0) return 0;
    const int rc = bus_.map_memory(address_, bytes_, fd_, fd_offset_);
    bytes_ = 0;
    return rc == -EEXIST ? 0 : rc;
  }

 private:
  Bus& bus_;
  bool join_;
  void* address_ = nullptr;
  size_t bytes_ = 0;
  int fd_ = -1;
  uint64_t fd_offset_ = 0;
};

int add_segment(Mapper& mapper, const rte_memseg* segment) {
  size_t offset = 0;
  int fd = rte_memseg_get_fd_thread_unsafe(segment);
  if (fd >= 0 && rte_memseg_get_fd_offset_thread_unsafe(segment, &offset) != 0) fd = -1;
  return mapper.add(segment->addr, segment->len, fd >= 0 ? fd : -1, fd >= 0 ? offset : 0);
}

int on_segment(const rte_memseg_list* list, const rte_memseg* segment, void* argument) {
  // Memory that was registered but does not belong to DPDK is announced by rte_dev_dma_map.
  if (list->external != 0 && list->heap == 0) return 0;
  return add_segment(*static_cast<Mapper*>(argument), segment);
}

void map_new(Bus& bus, const rte_memseg_list& list, uint8_t* address, size_t bytes) {
  int rc = 0;
  Mapper mapper(bus, list.external != 0);
  for (size_t done = 0; rc == 0 && done < bytes; done += list.page_sz) {
    const rte_memseg* segment = rte_mem_virt2memseg(address + done, &list);
    if (segment == nullptr) return;
    rc = add_segment(mapper, segment);
  }
  if (rc == 0) rc = mapper.flush();
  if (rc != 0) {
    MQNIC_LOG(ERR, "%s: cannot use new memory at %p: %s", bus.name().c_str(), static_cast<void*>(address),
              strerror(-rc));
  }
}

void on_memory_event(rte_mem_event event, const void* address, size_t bytes, void* owner) {
  const std::lock_guard lock(followers_mutex);
  const auto found =
      std::find_if(followers.begin(), followers.end(), [&](const Follower& f) { return f.owner == owner; });
  const rte_memseg_list* list = rte_mem_virt2memseg_list(address);
  if (found == followers.end() || list == nullptr) return;
  auto* begin = static_cast<uint8_t*>(const_cast<void*>(address));
  if (event == RTE_MEM_EVENT_ALLOC) {
    map_new(*found->bus, *list, begin, bytes);
    return;
  }
  const size_t step = list->external != 0 ? bytes : list->page_sz;
  for (size_t done = 0; done < bytes; done += step) found->bus->unmap_memory(begin + done, step);
}

}  // namespace

int follow_memory(void* owner, Bus& bus) {
  {
    const std::lock_guard lock(followers_mutex);
    followers.push_back({owner, &bus});
  }
  // Where memory cannot grow there are no events, and the call fails with ENOTSUP.
  if (rte_mem_event_callback_register(kCallbackName, on_memory_event, owner) != 0 && rte_errno != ENOTSUP) {
    return -rte_errno;
  }
  Mapper mapper(bus, rte_eal_has_hugepages() == 0);
  const int rc = rte_memseg_walk(on_segment, &mapper);
  return rc != 0 ? rc : mapper.flush();
}

void stop_following_memory(void* owner) {
  rte_mem_event_callback_unregister(kCallbackName, owner);
  const std::lock_guard lock(followers_mutex);
  followers.erase(
      std::remove_if(followers.begin(), followers.end(), [&](const Follower& f) { return f.owner == owner; }),
      followers.end());
}

}  // namespace mqnic::ethdev
