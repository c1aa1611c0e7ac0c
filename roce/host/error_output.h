// Lines on stderr from a library that others have loaded: writing one neither waits, nor raises a signal, nor is a
// point where the thread can be cancelled. A line for which there is no room is left out, and the next one says how
// many were.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace uroce {

class ErrorOutput {
 public:
  /// Looks at what descriptor 2 is. A program that was started without one will open a file of its own there, and one
  /// that has closed it, too: nothing is written to that.
  ErrorOutput();

  /// Writes the line, which has a newline at its end, as a whole or not at all. Longer ones than `kLongest` are cut.
  void write(std::string line);

  static constexpr size_t kLongest = 2048;

 private:
  /// True when descriptor 2 is the program's stderr.
  bool is_stderr(mode_t& mode);

  bool never_ = false;  // descriptor 2 is, or was, not open
  dev_t device_ = 0;
  ino_t inode_ = 0;
  uint64_t left_out_ = 0;
  bool is_cut_ = false;  // the last line has no end
};

}  // namespace uroce
