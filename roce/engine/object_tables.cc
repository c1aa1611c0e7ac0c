#include "engine/object_tables.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "engine/engine_config.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "transport/tag_matching.h"
#include "transport/xrc_queues.h"

namespace uroce {

namespace {

/// The next number that no object has. `made`: how many numbers were tried before.
template <typename T>
uint32_t free_number(const std::vector<std::unique_ptr<T>>& objects, uint64_t& made) {
  for (;;) {
    const auto number = static_cast<uint32_t>(++made & ((1u << ObjectTables::kNumberBits) - 1));
    const bool first_time = made == number;
    const auto has_it = [number](const std::unique_ptr<T>& object) { return object->listed_as == number; };
    if (first_time || std::none_of(objects.begin(), objects.end(), has_it)) return number;
  }
}

/// Adds the new object at the end, and notes its place in it.
template <typename T>
T* append(std::vector<std::unique_ptr<T>>& objects, std::unique_ptr<T> object, uint64_t& made) {
  object->listed_as = free_number(objects, made);
  object->place = static_cast<uint32_t>(objects.size());
  objects.push_back(std::move(object));
  return objects.back().get();
}

/// Removes an object; the last one takes its place.
template <typename T>
bool erase_unused(std::vector<std::unique_ptr<T>>& objects, T* object) {
  if (object->users != 0) return false;
  ensure(object->place < objects.size() && objects[object->place].get() == object, "an object knows its place");
  auto& place = objects[object->place];
  place.swap(objects.back());
  place->place = object->place;
  objects.pop_back();
  return true;
}

}  // namespace

ObjectTables::ObjectTables(const EngineConfig& config, RandomSource& random, Observer& observer)
    : observer_(observer),
      cqs_max_(config.max_cqs),
      srqs_max_(config.max_srqs),
      ahs_max_(config.max_ahs),
      memory_(std::make_unique<MemoryTable>(config.max_regions, random, config.max_pds)),
      pds_(config.max_pds + 1),
      xrc_queues_(std::make_unique<XrcQueues>(config.max_srqs, random)) {}

ObjectTables::~ObjectTables() = default;

PdId ObjectTables::allocate_pd() {
  for (PdId pd = 1; pd < pds_.size(); pd++) {
    if (pds_[pd].given_out) continue;
    pds_[pd].given_out = true;
    return pd;
  }
  return 0;
}

bool ObjectTables::deallocate_pd(PdId pd) {
  if (pd >= pds_.size() || !pds_[pd].given_out) return false;
  if (pds_[pd].users != 0 || memory_->in_use_by(pd) != 0) return false;
  pds_[pd].given_out = false;
  return true;
}

void ObjectTables::for_each_pd(const std::function<void(PdId, uint32_t)>& f) const {
  for (PdId pd = 1; pd < pds_.size(); pd++) {
    if (pds_[pd].given_out) f(pd, pds_[pd].users + memory_->in_use_by(pd));
  }
}

/// A number that was never given out is not counted: callers without protection domains use 0.
void ObjectTables::hold_pd(PdId pd) {
  if (pd < pds_.size()) pds_[pd].users++;
}

void ObjectTables::release_pd(PdId pd) {
  if (pd >= pds_.size()) return;
  ensure(pds_[pd].users != 0, "who leaves a protection domain was in it");
  pds_[pd].users--;
}

CompletionQueue* ObjectTables::create_cq(uint32_t capacity, void* user) {
  if (cqs_.size() >= cqs_max_) return nullptr;
  return append(cqs_, std::make_unique<CompletionQueue>(capacity, observer_, user), cqs_made_);
}

bool ObjectTables::destroy_cq(CompletionQueue* cq) {
  if (!erase_unused(cqs_, cq)) return false;
  std::erase(moderated_, cq);
  return true;
}

void ObjectTables::moderate(CompletionQueue& cq, uint32_t count, Duration period) {
  std::erase(moderated_, &cq);
  if (period.ns != 0) moderated_.push_back(&cq);
  cq.moderate(count, period);
}

Instant ObjectTables::next_event() const {
  Instant next = Instant::never();
  for (const CompletionQueue* cq : moderated_) next = std::min(next, cq->next_event());
  return next;
}

void ObjectTables::raise_due(Instant now) {
  for (CompletionQueue* cq : moderated_) cq->raise_due(now);
}

SharedReceiveQueue* ObjectTables::create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge, void* user, void* memory) {
  if (srqs_.size() >= srqs_max_) return nullptr;
  SharedReceiveQueue* srq =
      append(srqs_, std::make_unique<SharedReceiveQueue>(pd, max_wr, max_sge, observer_, user, memory), srqs_made_);
  hold_pd(pd);
  return srq;
}

bool ObjectTables::destroy_srq(SharedReceiveQueue* srq) {
  if (srq->users != 0) return false;
  const XrcAttachment xrc = srq->xrc();
  if (xrc.domain != 0) {
    xrc.cq->remove(srq->slots());
    xrc.cq->users--;
    xrc_queues_->remove(*srq);
    xrc_domains_.release(xrc.domain);
  }
  if (TagMatching* const tags = srq->tags(); tags != nullptr) {
    for (const WorkQueueSlots* slots : {&srq->slots(), &tags->tag_slots(), &tags->op_slots()})
      tags->cq().remove(*slots);
    tags->cq().users--;
  }
  release_pd(srq->pd());
  return erase_unused(srqs_, srq);
}

bool ObjectTables::attach_xrc(SharedReceiveQueue& srq, XrcdId domain, CompletionQueue& cq) try {
  const uint32_t number = xrc_queues_->add(srq);
  if (number == 0) return false;
  srq.set_xrc({domain, &cq, number});
  xrc_domains_.hold(domain);
  cq.users++;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool ObjectTables::attach_tags(SharedReceiveQueue& srq, CompletionQueue& cq, uint32_t max_tags, uint32_t max_ops) try {
  srq.set_tags(std::make_unique<TagMatching>(cq, max_tags, max_ops));
  cq.users++;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::unique_ptr<AddressHandle> ObjectTables::create_ah(PdId pd, const Route& path, uint8_t static_rate) {
  if (ahs_full()) return nullptr;
  auto ah = std::make_unique<AddressHandle>();
  ah->pd = pd;
  ah->path = path;
  ah->header = RouteHeader(path);
  ah->resolved = !path.dst_mac.is_zero();
  ah->static_rate = static_rate;
  ah->place = static_cast<uint32_t>(ahs_.size());
  ahs_.push_back(ah.get());
  hold_pd(pd);
  return ah;
}

void ObjectTables::destroy_ah(AddressHandle* ah) {
  ensure(ah->place < ahs_.size() && ahs_[ah->place] == ah, "an address handle knows its place");
  release_pd(ah->pd);
  AddressHandle*& place = ahs_[ah->place];
  place = ahs_.back();
  place->place = ah->place;
  ahs_.pop_back();
}

void ObjectTables::hold(const QpInit& init) {
  hold_pd(init.pd);
  xrc_domains_.hold(init.xrcd);
  if (init.send_cq != nullptr) init.send_cq->users++;
  if (init.recv_cq != nullptr) init.recv_cq->users++;
  if (init.srq != nullptr) init.srq->users++;
}

void ObjectTables::release(const QpInit& init) {
  for (CompletionQueue* const cq : {init.send_cq, init.recv_cq}) {
    if (cq == nullptr) continue;  // XRC
    ensure(cq->users != 0, "a QP's completion queues know that it uses them");
    cq->users--;
  }
  release_pd(init.pd);
  xrc_domains_.release(init.xrcd);
  if (init.srq != nullptr) init.srq->users--;
}

void ObjectTables::on_resolved(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  for (AddressHandle* ah : ahs_) {
    if (ah->path.dst_ip != ip || ah->path.vlan_id != vlan_id) continue;
    ah->path.dst_mac = mac;
    ah->header.set_dst_mac(mac);
    ah->resolved = true;
  }
}

}  // namespace uroce
