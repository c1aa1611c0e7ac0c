// The ids of all channels of the process: their numbers, and how they end.
#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/immortal.h"
#include "dpdk/endpoint_cm.h"
#include "runtime.h"
#include "ucma.h"

namespace uroce::verbs {

namespace {

// Threads of the program may still use it while it exits.
Ucma*& current() {
  static Immortal<Ucma> first;
  static Ucma* ucma = &*first;
  return ucma;
}

/// A number that `table` does not have. Numbers of ended ids are not reused soon.
template <typename Table>
uint32_t free_number(const Table& table, uint32_t& next) {
  while (table.contains(next)) next++;
  return next++;
}

template <typename Object, typename Table>
Object* find_in(const Table& table, uint32_t number, int& error) {
  const auto found = table.find(number);
  error = found != table.end() ? 0 : ENOENT;
  return found != table.end() ? found->second.get() : nullptr;
}

}  // namespace

Ucma& Ucma::get() { return *current(); }

// Another thread of the parent may have been changing it, so nothing in it is touched.
void Ucma::leave() { current() = new Ucma; }

UcmaId* Ucma::find_id(const UcmaFile& file, uint32_t number, int& error) {
  const std::lock_guard guard(mutex);
  auto* const id = find_in<UcmaId>(ids_, number, error);
  if (id == nullptr || id->file == &file) return id;
  error = EINVAL;
  return nullptr;
}

UcmaMulticast* Ucma::find_multicast(const UcmaFile& file, uint32_t number, int& error) {
  const std::lock_guard guard(mutex);
  auto* const multicast = find_in<UcmaMulticast>(multicasts_, number, error);
  if (multicast == nullptr || multicast->id->file == &file) return multicast;
  error = EINVAL;
  return nullptr;
}

UcmaId& Ucma::add_id(UcmaFile& file, cm::PortSpace port_space, QpType qp_type) {
  auto id = std::make_unique<UcmaId>();
  id->file = &file;
  id->port_space = port_space;
  id->qp_type = qp_type;
  auto room = UcmaQueue::make_room(UcmaQueue::kPlacesOfId);
  const std::lock_guard guard(mutex);
  id->number = free_number(ids_, next_number_);
  UcmaId& added = *(ids_[id->number] = std::move(id));
  file.queue.add(added.places, std::move(room));
  file.ids++;
  return added;
}

UcmaMulticast& Ucma::add_multicast(UcmaId& id, uint64_t uid) {
  auto multicast = std::make_unique<UcmaMulticast>();
  multicast->id = &id;
  multicast->uid = uid;
  auto room = UcmaQueue::make_room(UcmaQueue::kPlacesOfMulticast);
  const std::lock_guard guard(mutex);
  multicast->number = free_number(multicasts_, next_number_);
  UcmaMulticast& added = *(multicasts_[multicast->number] = std::move(multicast));
  id.file->queue.add(added.places, std::move(room));
  return added;
}

uint32_t Ucma::destroy(UcmaId& id) {
  // The lock is kept until the end, so that no event arrives for what is going away.
  std::optional<EngineLock> engine;
  if (id.id != nullptr) engine.emplace(endpoint());
  UcmaId* going;
  {
    const std::lock_guard guard(mutex);
    going = drop_events(*id.file, &id, nullptr);
  }
  for (const UcmaId* one = going; one != nullptr; one = one->next_going) {
    if (one->id != nullptr) endpoint().connections().manager().destroy_id(one->id, endpoint().now());
  }
  if (engine.has_value()) endpoint().drive();
  const std::lock_guard guard(mutex);
  const uint32_t reported = id.events_reported;
  std::erase_if(multicasts_, [&](const auto& entry) {
    const bool goes = entry.second->id == &id;
    if (goes) id.file->queue.remove(entry.second->places);
    return goes;
  });
  while (going != nullptr) {
    UcmaId* const ended = std::exchange(going, going->next_going);
    ended->file->queue.remove(ended->places);
    ended->file->ids--;
    ids_.erase(uint32_t{ended->number});
  }
  return reported;
}

uint32_t Ucma::destroy(UcmaMulticast& multicast) {
  EngineLock engine(endpoint());
  endpoint().connections().manager().leave_multicast(*multicast.id->id, &multicast, endpoint().now());
  endpoint().drive();
  const std::lock_guard guard(mutex);
  drop_events(*multicast.id->file, nullptr, &multicast);
  multicast.id->file->queue.remove(multicast.places);
  const uint32_t reported = multicast.events_reported;
  multicasts_.erase(uint32_t{multicast.number});
  return reported;
}

UcmaId* Ucma::any_of(const UcmaFile& file) {
  const std::lock_guard guard(mutex);
  if (file.ids == 0) return nullptr;
  const auto found = std::find_if(ids_.begin(), ids_.end(), [&](const auto& id) { return id.second->file == &file; });
  return found->second.get();
}

void Ucma::destroy_all_of(UcmaFile& file) {
  const std::lock_guard commands(command_mutex);
  while (UcmaId* const next = any_of(file)) destroy(*next);
}

}  // namespace uroce::verbs
