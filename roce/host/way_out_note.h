// The file of a user's runtime directory by which programs of a host, and the uroced that they start, agree on who
// starts it and when it may end: a lock, and when somebody last asked for the way out.
//
// One thread. The lock ends with the object, or with the process.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "uroce/time.h"

namespace uroce {

class WayOutNote {
 public:
  WayOutNote() = default;
  ~WayOutNote() { release(); }
  WayOutNote(const WayOutNote&) = delete;
  WayOutNote& operator=(const WayOutNote&) = delete;

  /// Waits for the lock of `host`, at most so long. False, with one line in `error`, when it cannot be had.
  bool take(const std::string& host, Duration patience, std::string& error);
  /// Somebody asks for the way out now; `failure`: why it cannot be had, or "".
  void write(const std::string& failure);
  /// How long ago somebody asked; nothing: never since the machine started.
  std::optional<Duration> asked_ago() const;
  /// Why that came to nothing; "": it did not.
  std::string failure() const;
  void release();

 private:
  UniqueFd fd_;
};

}  // namespace uroce
