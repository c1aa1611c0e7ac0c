// A member that has gone wild: it writes anything, anywhere where it may write. That is its own memory, which its peers
// read, its own files in the segment's directory, and letters to everybody.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "board.h"
#include "segment/directory.h"
#include "segment/layout.h"
#include "segment/mailbox.h"
#include "segment/shared_memory.h"

namespace uroce::segment::test {

class Scribbler {
 public:
  /// All that it does follows from the seed, and from what the victims do.
  Scribbler(const Board& board, const std::string& directory, uint64_t seed, Role role = Role::kProgram);
  ~Scribbler();
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

  /// Becomes a member and makes contact with the victims. False, with a line in `error`, when that fails.
  bool join(std::string& error);
  /// Ends this membership, as if killed or in order. Its files in the directory stay.
  void leave();
  void scribble();

 private:
  /// The memory shared with a victim.
  struct Contact {
    OwnMemory memory;  // our half of the lane
    PeerMemory theirs;

    LaneMemory& own() const { return *static_cast<LaneMemory*>(memory.data()); }
  };
  struct Life;

  // Memory.
  void scribble_word(void* memory, size_t bytes);
  void scribble_mark(Contact& contact);
  void scribble_progress(Contact& contact);
  uint64_t position_of(const Contact& contact) const;
  void write_frame(uint8_t* bytes, uint32_t length);
  // Letters.
  void scribble_letter();
  void say_hello(uint32_t victim, int base, int lane);
  std::vector<int> bad_descriptors();
  // Files.
  void scribble_file();
  void scribble_card();
  void litter();

  uint32_t below(uint32_t bound) { return random_.below(bound); }
  uint32_t any_victim() { return below(Board::kVictims); }

  const Board& board_;
  const std::string path_;
  SeededRandom random_;
  const Role role_;
  std::unique_ptr<Life> life_;
};

}  // namespace uroce::segment::test
