// Letters between members: a datagram socket in the segment's directory.
//
// They introduce two members to each other, with descriptors of the memory through which their frames go from then on,
// and wake a member that sleeps. Frames never come this way. Nobody waits for anybody: a mailbox that is full takes no
// more, and whoever has something to say tries again later. Descriptors are open only as long as a letter is under way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "segment/directory.h"

namespace uroce::segment {

/// What a letter says. It travels as these bytes, in the machine's order.
struct Letter {
  /// Known: the hello has arrived; from a member whose own one has arrived, and that has nothing to pass on any more.
  enum class Kind : uint16_t { kHello = 1, kWake = 2, kKnown = 3 };
  static constexpr uint32_t kMagic = 0x6c616e75;
  static constexpr uint16_t kVersion = 2;

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  Kind kind = Kind::kWake;
  MemberId from = 0;
  uint32_t answer = 0;  // of a hello. 1: answer, so that the sender knows that this one has arrived
  uint32_t reserved = 0;
};
static_assert(sizeof(Letter) == 24);

/// The memory that comes with a hello.
struct LetterFds {
  int base = -1;  // the sender's BaseMemory
  int lane = -1;  // its half of the lane to the receiver
};

/// Why letters of others were thrown away, as far as somebody should know.
struct LostLetters {
  bool for_descriptors = false;  // there came more than this process may have open
  bool for_version = false;      // from a program whose letters say something else
};

class Mailbox {
 public:
  Mailbox() = default;
  ~Mailbox() { forget(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// `directory` outlives the mailbox. Returns false, with one line in `error`, when that fails.
  bool open(Directory& directory, MemberId own, std::string& error);
  /// False when its name was removed: nobody can send to it then.
  bool is_there() const;
  /// Makes it anew, with the same number for `fd`. What lay in it is lost, as letters may be. Returns false, with one
  /// line in `error`, when that fails.
  bool open_again(std::string& error);
  /// Readable when there is a letter.
  int fd() const { return fd_; }

  /// Barred: the mailbox is there, and this process does not get to it any more (chroot, setuid).
  enum class Sent : uint8_t { kYes, kFull, kGone, kBarred };
  Sent send(MemberId to, const Letter& letter, const LetterFds& fds = {}) const;
  /// The next good letter; nothing when there is none. Its descriptors are the caller's. What was lost is added.
  std::optional<Letter> receive(LetterFds& fds, LostLetters& lost) const;
  void forget();

 private:
  int make(std::string& error);

  const Directory* directory_ = nullptr;
  MemberId own_ = 0;
  std::string where_;  // the directory, in few characters
  int fd_ = -1;
};

}  // namespace uroce::segment
