// The objects of a device other than queue pairs: completion queues, receive queues, regions, destinations.
#include "api/device_core.h"
#include "dpdk/endpoint.h"
#include "engine/object_tables.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/receive_queue.h"
#include "uroce/completion_queue.h"
#include "uroce/destination.h"
#include "uroce/memory_region.h"
#include "uroce/shared_receive_queue.h"

namespace uroce::rdma {

uint32_t CompletionQueue::capacity() const { return real(queue_.get())->capacity(); }
uint32_t CompletionQueue::size() const { return real(queue_.get())->size(); }
bool CompletionQueue::overrun() const { return real(queue_.get())->overrun(); }
uint32_t CompletionQueue::poll(std::span<Completion> out) { return real(queue_.get())->poll(out); }

void CompletionQueue::request_event(bool solicited_only) {
  using Wake = uroce::CompletionQueue::Wake;
  real(queue_.get())->arm(solicited_only ? Wake::kSolicited : Wake::kAny);
  // A program that requests an event is about to sleep: the endpoint's thread, if any, need not wait for it to drive.
  uroce::Endpoint* const endpoint = queue_.get_deleter().core->endpoint;
  if (endpoint != nullptr) endpoint->wake_thread();
}

// An object that is still in use stays, and is destroyed with the device.
template <>
void Release<HeldCompletionQueue>::operator()(HeldCompletionQueue* queue) const {
  core->engine->objects().destroy_cq(real(queue));
}

template <>
void Release<HeldSharedReceiveQueue>::operator()(HeldSharedReceiveQueue* queue) const {
  core->engine->objects().destroy_srq(real(queue));
}

PostResult SharedReceiveQueue::post(const RecvWr& wr) { return real(queue_.get())->post(wr); }
void SharedReceiveQueue::set_limit(uint32_t limit) { real(queue_.get())->set_limit(limit); }

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  if (this == &other) return *this;
  release();
  core_ = std::exchange(other.core_, nullptr);
  key_ = std::exchange(other.key_, 0);
  address_ = other.address_;
  length_ = other.length_;
  return *this;
}

void MemoryRegion::release() {
  if (key_ != 0) core_->engine->memory().deregister(key_);
}

bool Destination::resolved() const { return handle_->resolved; }

template <>
void Release<AddressHandle>::operator()(AddressHandle* handle) const {
  core->engine->destroy_ah(handle);
  delete handle;
}

}  // namespace uroce::rdma
