// What wakes a thread that sleeps instead of driving a NIC: a descriptor, and how the NIC is told when to make it
// readable.
#pragma once

namespace uroce {

class WakeSource {
 public:
  virtual ~WakeSource() = default;

  /// Readable when a frame comes for a NIC that is armed. Any thread may wait for it; a turn of the engine
  /// after `disarm` clears it.
  virtual int fd() const = 0;

  /// Whether `stand_back` does anything. If not, a thread stands back by looking now and then.
  virtual bool sees_left_lying() const = 0;

  // By the owner of the engine. What is said last holds.
  /// Nobody polls: every frame wakes. False when there is something to do already; then nothing is armed.
  virtual bool arm() = 0;
  /// Another thread polls: only frames that it leaves lying wake. False when there is something to do now, for the
  /// other one.
  virtual bool stand_back() = 0;
  /// The thread is awake: nothing wakes it.
  virtual void disarm() = 0;
  /// What was sent lies unread with somebody who wants to know of it: however soundly the owner wants to sleep, it has
  /// to make a turn within Driving::kWatch. As of the last turn, `arm` or `look`.
  virtual bool watching() const = 0;
  /// Sees to what was sent since.
  virtual void look() = 0;
};

}  // namespace uroce
