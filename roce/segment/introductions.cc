#include "segment/introductions.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/no_cancel.h"

namespace uroce::segment {
namespace {

constexpr Duration kFirstRepeat = milliseconds(2);
/// Letters that are not read take room of our own socket, which all letters share: so there are few, at growing
/// intervals.
constexpr unsigned kHellosMost = 6;
/// After so many, 42 ms from the first, its record is read again.
constexpr unsigned kHellosUntilLook = 3;
constexpr unsigned kLettersPerLook = 8;
/// How often the directory is read because of a hello from an unknown member, which repeats it.
constexpr Duration kRefresh = milliseconds(1);

}  // namespace

void Introductions::warn_once(bool& warned, const std::string& line) {
  if (!std::exchange(warned, true)) warn_(line);
}

/// An uplink or a bridge is met beside the programs: a way out of the machine is worth its memory. Where few members
/// are expected at all, each costs a descriptor, too.
bool Introductions::may_meet(const Peer& peer) const {
  const auto& met = peers_.in_contact();
  if (most_.members != 0 && met.size() >= most_.members) return false;
  if (most_.programs == 0 || peer.role != Role::kProgram) return true;
  const auto programs = std::count_if(met.begin(), met.end(), [](const Peer* p) { return p->role == Role::kProgram; });
  return programs < most_.programs;
}

bool Introductions::make_contact(Peer& peer, Instant now) {
  if (!may_meet(peer)) {
    if (!warned_of_quota_)  // no text is made for each frame that is refused
      warn_once(warned_of_quota_,
                most_.members != 0
                    ? "no more than " + std::to_string(most_.members) + " members are met where one is expected"
                    : "no memory for more than " + std::to_string(most_.programs) +
                          " other programs: what is for a further one is dropped; see uroced --max-memory");
    return false;
  }
  OwnMemory memory;
  std::string error;
  if (!memory.make("uroce-lane", sizeof(LaneMemory), error)) {
    warn_once(warned_of_memory_, error);
    return false;
  }
  peer.lane = std::make_unique<Lane>(std::move(memory), pool_);
  peers_.note_contact(peer);
  unconfirmed_++;
  say_hello(peer, true, now);
  return true;
}

void Introductions::say_hello(Peer& peer, bool answer, Instant now) {
  Lane& lane = *peer.lane;
  Letter letter;
  letter.kind = Letter::Kind::kHello;
  letter.from = own_;
  letter.answer = answer ? 1 : 0;
  const auto sent = mailbox_.send(peer.id, letter, {base_.fd(), lane.memory.fd()});
  lane.next_hello = now + Duration{kFirstRepeat.ns << 2 * std::min(lane.hellos, kHellosMost)};
  if (sent == Mailbox::Sent::kYes) lane.hellos++;
  if (sent == Mailbox::Sent::kBarred)
    warn_once(warned_of_bars_,
              "this program changed its root directory, and may not leave it for letters (unshare is refused): it and "
              "programs that it does not know yet do not reach each other");
}

void Introductions::repeat(Instant now) {
  if (unconfirmed_ == 0) return;
  unsigned left = 0;
  bool silent = false;
  for (Peer* peer : peers_.in_contact()) {
    if (peer->lane->confirmed) continue;
    left++;
    if (peer->lane->next_hello > now || peer->lane->hellos >= kHellosMost) continue;
    silent |= peer->lane->hellos >= kHellosUntilLook;
    say_hello(*peer, true, now);
  }
  unconfirmed_ = left;
  if (silent) look_who_is_shut();
}

/// A peer that does not answer may have found out only now that it cannot, and its record says so. What it writes there
/// does not change the directory, which it may not touch.
void Introductions::look_who_is_shut() {
  peers_.refresh(true);
  for (Peer* peer : peers_.in_contact()) {
    if (const std::string line = line_of_shut(*peer); !line.empty()) warn_(line);
  }
}

bool Introductions::read_mail(Instant now) {
  const NoCancel with_descriptors;
  bool rung = false;
  LetterFds fds;
  LostLetters lost;
  for (unsigned count = 0; count < kLettersPerLook; count++) {
    const auto letter = mailbox_.receive(fds, lost);
    if (!letter) break;
    rung |= letter->kind == Letter::Kind::kWake;
    if (letter->kind == Letter::Kind::kKnown) {
      if (const Peer* peer = peers_.find(letter->from); peer != nullptr && peer->lane) on_known(*peer->lane);
    }
    if (letter->kind != Letter::Kind::kHello) continue;
    on_hello(*letter, fds, now);
    close(fds.base);
    close(fds.lane);
  }
  if (lost.for_version)
    warn_once(warned_of_version_,
              "a program of this machine has another version of uroce, and the two do not reach each other: start all "
              "of them, uroced too, from the same installation");
  if (lost.for_descriptors)
    warn_once(
        warned_of_fds_,
        "a program of this machine cannot be reached: this process has no file descriptors left; raise ulimit -n");
  return rung;
}

void Introductions::on_hello(const Letter& letter, const LetterFds& fds, Instant now) {
  Peer* peer = peers_.find(letter.from);
  if (peer == nullptr && now >= next_refresh_) {
    next_refresh_ = now + kRefresh;
    peers_.refresh();
    peer = peers_.find(letter.from);
  }
  if (peer == nullptr) return;  // gone, or not the member that it claims to be
  if (!peer->lane && !make_contact(*peer, now)) return;
  Lane& lane = *peer->lane;
  lane.hellos = 0;  // it reads its letters
  if (!lane.receiver.connected()) {
    PeerMemory base;
    PeerMemory half;
    if (!base.map(fds.base, sizeof(BaseMemory)) || !half.map(fds.lane, sizeof(LaneMemory))) {
      warn_once(warned_of_memory_,
                "a program of this machine gives memory that cannot be used: is it another version?");
      return;
    }
    lane.peer_base = std::move(base);
    lane.peer_lane = std::move(half);
    const auto* memory = static_cast<const LaneMemory*>(lane.peer_lane.data());
    lane.direct.process = fds.sender;
    lane.sender.connect(*memory);
    lane.receiver.connect(*memory, *lane.base());
  }
  if (letter.answer != 0) {
    answer_hello(*peer, now);
  } else {
    on_known(lane);
  }
}

/// The first answer may have found no room. If the peer has mapped our memory by now, its descriptor may be closed.
void Introductions::answer_hello(Peer& peer, Instant now) {
  if (!peer.lane->confirmed) return say_hello(peer, false, now);
  Letter letter;
  letter.kind = Letter::Kind::kKnown;
  letter.from = own_;
  mailbox_.send(peer.id, letter);
}

void Introductions::on_known(Lane& lane) {
  if (!lane.receiver.connected() || lane.confirmed) return;
  lane.confirmed = true;
  lane.memory.close_fd();
}

}  // namespace uroce::segment
