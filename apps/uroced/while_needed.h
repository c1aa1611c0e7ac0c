// When a uroced that programs started for themselves (`--port network`) ends: when none has needed it for a while.
#pragma once

#include <optional>
#include <string>

#include "host/way_out_note.h"
#include "segment/directory.h"
#include "uroce/time.h"

namespace uroce::daemon {

/// Decides; reads nothing.
class Need {
 public:
  explicit Need(Instant start) : last_(start) {}
  /// True when it is over. `programs`: whether there are any; `asked_ago`: how long ago a program asked for it.
  bool is_over(Instant now, bool programs, std::optional<Duration> asked_ago);

 private:
  Instant last_;  // somebody needed it
};

/// Looks now and then who is on the segment in `directory`.
class WhileNeeded {
 public:
  explicit WhileNeeded(Instant start) : need_(start), next_look_(start) {}
  /// Returns false, with one line in `error`, when the directory cannot be opened.
  bool open(const std::string& directory, std::string& error) { return directory_.open(directory, error); }
  /// True when nobody needs it. No program asks for it then until this object ends: it holds the lock.
  bool is_over(Instant now);

 private:
  bool has_programs();

  segment::Directory directory_;
  Need need_;
  Instant next_look_;
  WayOutNote note_;
};

/// What is said from now on goes to a file in the runtime directory: whoever started this reads no more. Returns false,
/// with one line in `error`, when it cannot be written.
bool speak_to_file(std::string& error);

}  // namespace uroce::daemon
