// Wakes a thread that sleeps instead of driving a NIC: a descriptor, and how the NIC is told when to make it readable.
#pragma once

namespace uroce {

class WakeSource {
 public:
  virtual ~WakeSource() = default;

  /// Readable when a frame comes to an armed NIC. Any thread may wait for it; a turn of the engine after `disarm`
  /// clears it.
  virtual int fd() const = 0;

  /// Whether `stand_back` does anything. If not, a thread that stands back has to look now and then.
  virtual bool sees_left_lying() const = 0;

  // To be called by the owner of the engine. The last call counts.
  /// No thread polls: every frame wakes. False when there is something to do already; then it is not armed.
  virtual bool arm() = 0;
  /// Another thread polls: only frames that it leaves lying wake. False when there is already something to do for that
  /// thread.
  virtual bool stand_back() = 0;
  /// The thread is awake: nothing needs to wake it.
  virtual void disarm() = 0;
  /// A receiver that is to be rung has not read its frames: however long the owner wants to sleep, it has to make a
  /// turn within Driving::kWatch. As of the last turn, `arm` or `look`.
  virtual bool watching() const = 0;
  /// Handles what was sent since.
  virtual void look() = 0;
};

}  // namespace uroce
