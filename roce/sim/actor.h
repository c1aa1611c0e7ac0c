// Something that acts at instants of virtual time, and what it is told then.
//
// An actor says what its events are: a type `Event` of its own, which is an enum class, or a small struct of an enum
// class and what goes with it. Somebody schedules such a value, and the actor gets it back when it is due. An event may
// bring a frame; the queue owns the frame meanwhile.
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

/// An event of any actor while it is in the queue. Nobody looks into it but Actor, which knows the type.
class StoredEvent {
 public:
  static constexpr size_t kMaxBytes = 4;  // events are small, as the queue moves them around

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

/// What the queue knows of an actor.
class AnyActor {
 public:
  virtual ~AnyActor() = default;
  /// An event that was scheduled for this actor is due. `frame`: what it brings, detached; nullptr: nothing.
  virtual void handle(StoredEvent event, void* frame, Instant now) = 0;
};

/// The actor's class takes a frame with its events.
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
