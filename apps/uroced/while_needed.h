// When a uroced that programs started for themselves (`--port network`) ends: when none has needed it for a while.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/unique_fd.h"
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

/// Looks now and then whether programs of `host` that asked for the network are on the segment in `directory`.
class WhileNeeded {
 public:
  WhileNeeded(std::string host, Instant start) : host_(std::move(host)), need_(start), next_look_(start) {}
  /// Returns false, with one line in `error`, when the directory cannot be opened.
  bool open(const std::string& directory, std::string& error) { return directory_.open(directory, error); }
  /// True when nobody needs it. No program asks for it then until this object ends: it holds the lock.
  bool is_over(Instant now);

 private:
  bool has_programs();

  const std::string host_;
  segment::Directory directory_;
  Need need_;
  Instant next_look_;
  WayOutNote note_;
};

/// A file in the runtime directory for what is said when whoever started this reads no more; /dev/null if it cannot be
/// had.
UniqueFd open_log(const std::string& host);

}  // namespace uroce::daemon
