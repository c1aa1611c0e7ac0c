#include "ucma_queue.h"

#include <iterator>
#include <utility>

namespace uroce::verbs {

void UcmaQueue::add(UcmaPlaces& places, Nodes&& room) {
  places.all += static_cast<uint32_t>(room.size());
  room_.splice(room_.end(), std::move(room));
}

void UcmaQueue::remove(UcmaPlaces& places) {
  for (; places.all > places.taken; places.all--) room_.pop_front();
}

void UcmaQueue::push(const UcmaEvent& event, UcmaPlaces& places) {
  if (places.taken == places.all) return push_beside(event);
  room_.front() = event;
  room_.front().places = &places;
  places.taken++;
  events_.splice(events_.end(), room_, room_.begin());
}

void UcmaQueue::push_beside(const UcmaEvent& event) {
  events_.push_back(event);
  events_.back().places = nullptr;
}

void UcmaQueue::pop(Nodes::iterator event) {
  if (event->places == nullptr) {
    events_.erase(event);
    return;
  }
  event->places->taken--;
  event->places = nullptr;
  room_.splice(room_.begin(), events_, event);
}

void UcmaQueue::move_event(Nodes::iterator event, UcmaQueue& to) {
  to.events_.splice(to.events_.end(), events_, event);
}

void UcmaQueue::move_places(const UcmaPlaces& places, UcmaQueue& to) {
  to.room_.splice(to.room_.end(), room_, room_.begin(), std::next(room_.begin(), places.all - places.taken));
}

}  // namespace uroce::verbs
