// Letters between members: a datagram socket in the segment's directory.
//
// They introduce two members to each other, with descriptors of the memory through which their frames go from then on,
// and wake a member that sleeps. Frames never go this way. No member waits for another: a full mailbox takes no more,
// and the sender tries again later. Descriptors are open only as long as a letter is under way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "segment/directory.h"

namespace uroce::segment {

/// What a letter says. It travels as these bytes, in the machine's order.
struct Letter {
  /// kKnown: the hello has arrived; the sender's own hello has, too, so that it has no descriptors to pass on any more.
  enum class Kind : uint16_t { kHello = 1, kWake = 2, kKnown = 3 };
  static constexpr uint32_t kMagic = 0x6c616e75;
  static constexpr uint16_t kVersion = 3;

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  Kind kind = Kind::kWake;
  MemberId from = 0;
  uint32_t answer = 0;  // of a hello. 1: answer, so that the sender knows that this one has arrived
  uint32_t reserved = 0;
};
static_assert(sizeof(Letter) == 24);

/// The process that sent a letter, as the kernel says. 0: it is not known, or has no number here.
struct LetterSender {
  int pid = 0;
  uint32_t uid = 0;
};

/// The memory that comes with a hello, and from whom.
struct LetterFds {
  int base = -1;  // the sender's BaseMemory
  int lane = -1;  // its half of the lane to the receiver
  LetterSender sender = {};
};

/// Why letters of others were thrown away, as far as a user should know.
struct LostLetters {
  bool for_descriptors = false;  // more came than this process may have open
  bool for_version = false;      // from a program with another version of letters
};

class Mailbox {
 public:
  Mailbox() = default;
  ~Mailbox() { forget(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// `directory` outlives the mailbox. Returns false, with one line in `error`, when that fails.
  bool open(Directory& directory, MemberId own, std::string& error);
  /// False when its name was removed: then no member can send to it.
  bool is_there() const;
  /// Makes it anew, with the same number for `fd`. The letters in it are lost, as letters may be. Returns false, with
  /// one line in `error`, when that fails.
  bool open_again(std::string& error);
  /// To be called before `open`: the kernel names the senders of letters.
  void ask_for_senders() { asks_for_senders_ = true; }
  /// Readable when there is a letter.
  int fd() const { return fd_; }

  /// kBarred: this process changed its root directory, and the kernel refuses what it takes to send all the same.
  enum class Sent : uint8_t { kYes, kFull, kGone, kBarred };
  Sent send(MemberId to, const Letter& letter, const LetterFds& fds = {}) const;
  /// The next good letter; nothing when there is none. Its descriptors are the caller's. Losses are noted in `lost`.
  std::optional<Letter> receive(LetterFds& fds, LostLetters& lost) const;
  void forget();

 private:
  int make(std::string& error);

  const Directory* directory_ = nullptr;
  MemberId own_ = 0;
  std::string where_;  // the directory, in few characters
  bool asks_for_senders_ = false;
  int fd_ = -1;
};

}  // namespace uroce::segment
