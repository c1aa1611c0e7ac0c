// The events of a channel that wait for the program, and the room for those to come: it is made with an id or a
// multicast group, where a program can be told that there is no memory, so that an event finds its place when it comes.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <list>

namespace uroce::verbs {

struct UcmaId;
struct UcmaMulticast;

/// How many places an id or a group has in its channel's room, and how many of them its waiting events have taken.
struct UcmaPlaces {
  uint32_t all = 0;
  uint32_t taken = 0;
};

struct UcmaEvent {
  UcmaId* owner = nullptr;  // of a request: the listener
  UcmaMulticast* multicast = nullptr;
  UcmaId* request = nullptr;  // of a request: the new id
  rdma_ucm_event_resp response{};
  UcmaPlaces* places = nullptr;  // where one is taken; null: the event has memory of its own
};

/// Nothing but what says so needs memory. An event beyond the places of its id takes none that others were given.
class UcmaQueue {
 public:
  /// An id's: no more come of what one command began: the answer, that the connection stands, its end, and the end of
  /// the time that its number rests. A request is of the new id.
  static constexpr uint32_t kPlacesOfId = 4;
  static constexpr uint32_t kPlacesOfMulticast = 1;

  using Nodes = std::list<UcmaEvent>;
  /// Room to be added later. Needs memory.
  static Nodes make_room(uint32_t places) { return Nodes(places); }

  /// As many places as `room` has.
  void add(UcmaPlaces& places, Nodes&& room);
  /// All of its places, when no event has taken one.
  void remove(UcmaPlaces& places);
  /// Needs memory when all `places` are taken: without it it throws, and nothing has changed.
  void push(const UcmaEvent& event, UcmaPlaces& places);
  /// An event that takes no place. Needs memory, as above.
  void push_beside(const UcmaEvent& event);
  void pop(Nodes::iterator event);
  /// The event's place stays taken, in the other queue: for `move_places`.
  void move_event(Nodes::iterator event, UcmaQueue& to);
  /// Those that no event has taken.
  void move_places(const UcmaPlaces& places, UcmaQueue& to);

  Nodes& events() { return events_; }
  const Nodes& events() const { return events_; }
  size_t room() const { return room_.size(); }

 private:
  Nodes events_;
  Nodes room_;  // as many as there are places that no event has taken
};

}  // namespace uroce::verbs
