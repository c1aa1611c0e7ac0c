// An actor is something that acts at instants of virtual time; an event is what it is told then.
//
// An actor's class defines what its events are: a type `Event`, which is an enum class, or a small struct of an enum
// class and what goes with it. Such a value is scheduled, and the actor gets it back when it is due. An event may bring
// a frame; the queue owns the frame until then.
//
//   class Lamp final : public Actor<Lamp> {
//    public:
//     enum class Event : uint8_t { kOn, kOff };
//     void on_event(Event event, Instant now);   // or (Event event, Frame&& frame, Instant now)
//   };
//   queue.schedule(lamp, when, Lamp::Event::kOff);
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sim/frame.h"
#include "uroce/time.h"

namespace uroce::sim {

/// An event of any actor while it is in the queue. Only Actor, which knows the type, looks into it.
class StoredEvent {
 public:
  static constexpr size_t kMaxBytes = 4;  // events must be small, because the queue moves them around

  StoredEvent() = default;
  template <typename Event>
  static StoredEvent of(const Event& event) {
    static_assert(std::is_trivially_copyable_v<Event> && sizeof(Event) <= kMaxBytes);
    StoredEvent stored;
    std::memcpy(stored.bytes_, &event, sizeof event);
    return stored;
  }
  template <typename Event>
  Event as() const {
    Event event;
    std::memcpy(&event, bytes_, sizeof event);
    return event;
  }

 private:
  alignas(4) std::byte bytes_[kMaxBytes]{};
};

/// What the queue knows about an actor.
class AnyActor {
 public:
  virtual ~AnyActor() = default;
  /// An event that was scheduled for this actor is due. `frame` is the detached frame that it brings, or nullptr.
  virtual void handle(StoredEvent event, void* frame, Instant now) = 0;
};

/// True for an actor's class whose events bring a frame.
template <typename Self>
concept TakesFrames = requires(Self& self, typename Self::Event event, Frame frame, Instant now) {
  self.on_event(event, std::move(frame), now);
};

/// The base of an actor's class, which gives its own name for `Self`.
template <typename Self>
class Actor : public AnyActor {
  void handle(StoredEvent stored, void* frame, Instant now) final {
    Self& self = static_cast<Self&>(*this);
    const auto event = stored.as<typename Self::Event>();
    if constexpr (TakesFrames<Self>) {
      self.on_event(event, Frame::adopt(frame), now);
    } else {
      self.on_event(event, now);
    }
  }
};

}  // namespace uroce::sim
