#include "scribbler.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/big_endian.h"
#include "members.h"

namespace uroce::segment::test {

/// The members that it is, one after the other.
struct Scribbler::Life {
  Directory directory;
  Membership membership;
  Mailbox mailbox;
  OwnMemory base;
  Contact contacts[Board::kVictims];
};

namespace {

constexpr uint32_t kLitterNames = 64;

/// Makes or overwrites a file, written in one go.
void write_file(int directory, const std::string& name, const std::string& text) {
  const int fd = openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return;
  if (write(fd, text.data(), text.size()) < 0 && ftruncate(fd, 0) < 0) return static_cast<void>(close(fd));
  close(fd);
}

void remove_any(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) != 0) unlinkat(directory, name.c_str(), AT_REMOVEDIR);
}

int memory_file(off_t bytes, int seals) {
  const int fd = memfd_create("scribbles", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (ftruncate(fd, bytes) != 0 || fcntl(fd, F_ADD_SEALS, seals) != 0) return fd;
  return fd;
}

/// Sends any bytes with any descriptors to a mailbox, without waiting.
void send_letter(int fd, int directory, const std::string& mailbox, const void* bytes, size_t length,
                 const std::vector<int>& fds) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + mailbox;
  std::copy_n(path.c_str(), path.size() + 1, address.sun_path);
  iovec part{const_cast<void*>(bytes), length};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(64 * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  if (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) usleep(20);  // the mailbox is full: let its owner read
}

}  // namespace

Scribbler::Scribbler(const Board& board, const std::string& directory, uint64_t seed, Role role)
    : board_(board), path_(directory), random_(seed), role_(role) {}
Scribbler::~Scribbler() = default;

bool Scribbler::join(std::string& error) {
  life_ = std::make_unique<Life>();
  MemberRecord record = record_of(below(2) != 0 ? "one" : "wild", below(2) != 0 ? 1 : 9);
  record.role = role_;
  if (!life_->directory.open(path_, error) || !life_->membership.join(life_->directory, record, error) ||
      !life_->mailbox.open(life_->directory, life_->membership.id(), error) ||
      !life_->base.make("wild-base", sizeof(BaseMemory), error)) {
    return false;
  }
  for (uint32_t i = 0; i < Board::kVictims; i++) {
    Contact& contact = life_->contacts[i];
    if (!contact.memory.make("wild-lane", sizeof(LaneMemory), error)) return false;
    // The first good memory that a victim gets is the one that it reads; for some victims other letters come before.
    if (below(4) == 0) continue;
    say_hello(i, life_->base.fd(), contact.memory.fd());
  }
  return true;
}

void Scribbler::leave() {
  if (!life_) return;
  if (below(2) != 0) {
    life_->membership.leave();
  } else {
    life_->membership.forget();  // as the kernel does when a process is killed
  }
  life_.reset();
}

void Scribbler::scribble() {
  const uint32_t what = below(4096);
  if (what == 0) return scribble_file();
  if (what < 12) return scribble_letter();
  Contact& contact = life_->contacts[any_victim()];
  if (what < 2000) return scribble_mark(contact);
  if (what < 2400) return scribble_progress(contact);
  if (what < 3000) return scribble_word(&contact.own(), sizeof(LaneMemory));
  if (what < 3100) return scribble_word(life_->base.data(), 8);  // whether it sleeps
  scribble_word(life_->base.data(), sizeof(BaseMemory));
}

void Scribbler::scribble_word(void* memory, size_t bytes) {
  const size_t at = random_.next_u64() % bytes & ~size_t{7};
  const uint64_t word = below(2) != 0 ? random_.next_u64() : below(300);
  std::memcpy(static_cast<uint8_t*>(memory) + at, &word, 8);
}

/// Where the victim will look next, according to its own memory.
uint64_t Scribbler::position_of(const Contact& contact) const {
  const auto* theirs = static_cast<const LaneMemory*>(contact.theirs.data());
  return theirs != nullptr ? theirs->consumed.load(std::memory_order_relaxed) : 0;
}

/// A mark that is mostly plausible.
void Scribbler::scribble_mark(Contact& contact) {
  const uint64_t position = position_of(contact) + below(below(8) != 0 ? 4 : kSlots);
  Slot& slot = contact.own().slots[position % kSlots];
  Mark mark{static_cast<uint32_t>(position + 1), static_cast<uint16_t>(below(140)), 0};
  if (below(2) != 0) {
    mark.bytes = static_cast<uint16_t>(below(below(2) != 0 ? kFrameBytes + 1 : 0x10000));
    mark.frame = static_cast<uint16_t>(below(below(4) != 0 ? kPoolFrames + 1 : 0x10000));
  }
  if (below(4) == 0) write_frame(slot.bytes, kInlineBytes);
  if (below(8) == 0) {
    mark.frame = Mark::kInSlotWithoutHeader;
    if (below(2) == 0) {
      uint8_t frame[kEthernetBytes + kInlineBytes];
      write_frame(frame, sizeof frame);
      std::memcpy(slot.bytes, frame + kEthernetBytes, kInlineBytes);
    }
  }
  if (mark.frame != 0 && mark.frame <= kPoolFrames && below(2) == 0)
    write_frame(static_cast<BaseMemory*>(life_->base.data())->frames[mark.frame - 1], 200);
  slot.mark.store(below(16) != 0 ? mark.encode() : random_.next_u64(), std::memory_order_release);
}

/// Claims to have read so many of the victim's frames.
void Scribbler::scribble_progress(Contact& contact) {
  std::atomic<uint64_t>& consumed = contact.own().consumed;
  const uint64_t before = consumed.load(std::memory_order_relaxed);
  consumed.store(below(4) == 0 ? random_.next_u64() : before + below(300) - below(300), std::memory_order_relaxed);
}

/// Like a RoCE frame for a queue pair of a victim, with some bytes changed.
void Scribbler::write_frame(uint8_t* bytes, uint32_t length) {
  const uint32_t victim = any_victim();
  const MacAddress mac = card_of_victim(victim).mac;
  for (uint32_t i = 0; i < length; i += 8) {
    const uint64_t word = random_.next_u64();
    std::memcpy(bytes + i, &word, std::min<size_t>(8, length - i));
  }
  std::memcpy(bytes, mac.bytes.data(), 6);
  store_be16(bytes + 12, 0x0800);
  bytes[14] = 0x45;
  bytes[23] = 17;
  store_be16(bytes + 36, 4791);
  store_be32(bytes + 46, board_.victims[victim].qpn[any_victim()]);
  if (below(2) == 0) bytes[below(length)] = static_cast<uint8_t>(below(256));
}

void Scribbler::say_hello(uint32_t victim, int base, int lane) {
  Letter letter;
  letter.kind = Letter::Kind::kHello;
  letter.from = life_->membership.id();
  letter.answer = below(2);
  life_->mailbox.send(board_.victims[victim].id, letter, {base, lane});
}

/// Descriptors of all kinds, in any number.
std::vector<int> Scribbler::bad_descriptors() {
  constexpr int kSizes = F_SEAL_SHRINK | F_SEAL_GROW;
  std::vector<int> fds;
  switch (below(7)) {
    case 0:
      return {memory_file(4096, kSizes), memory_file(sizeof(LaneMemory), kSizes)};  // too short
    case 1:
      return {memory_file(sizeof(BaseMemory), 0), memory_file(sizeof(LaneMemory), 0)};  // could be truncated
    case 2:
      return {memory_file(sizeof(BaseMemory), F_SEAL_GROW), memory_file(sizeof(LaneMemory), F_SEAL_GROW)};
    case 3: {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) return {};
      return {ends[0], ends[1]};
    }
    case 4:
      return {open("/dev/zero", O_RDONLY | O_CLOEXEC), open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    case 5:
      for (uint32_t i = below(60); i > 0; i--) fds.push_back(dup(life_->base.fd()));
      return fds;
    default:
      return {socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), memory_file(sizeof(LaneMemory), kSizes)};
  }
}

void Scribbler::scribble_letter() {
  const uint32_t victim = any_victim();
  const MemberId to = board_.victims[victim].id;
  Contact& contact = life_->contacts[victim];
  LetterFds fds;
  LostLetters lost;
  while (const auto letter = life_->mailbox.receive(fds, lost)) {
    if (letter->kind != Letter::Kind::kHello) continue;
    for (uint32_t i = 0; i < Board::kVictims; i++) {
      if (letter->from == board_.victims[i].id) life_->contacts[i].theirs.map(fds.lane, sizeof(LaneMemory));
    }
    close(fds.base);
    close(fds.lane);
  }
  if (below(4) == 0) return say_hello(victim, life_->base.fd(), contact.memory.fd());
  Letter letter;
  letter.kind = below(2) != 0 ? Letter::Kind::kHello : Letter::Kind::kWake;
  const MemberId froms[] = {life_->membership.id(), life_->membership.id(), random_.next_u64(),
                            board_.victims[any_victim()].id};
  letter.from = froms[below(std::size(froms))];
  letter.answer = below(3);
  uint8_t bytes[sizeof letter + 40] = {};
  std::memcpy(bytes, &letter, sizeof letter);
  if (below(4) == 0) bytes[below(sizeof letter)] = static_cast<uint8_t>(below(256));
  const size_t length = below(4) == 0 ? below(sizeof bytes) : sizeof letter;
  std::vector<int> bad = below(2) != 0 ? bad_descriptors() : std::vector<int>{};
  std::erase(bad, -1);
  const int nameless = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  send_letter(below(4) != 0 ? life_->mailbox.fd() : nameless, life_->directory.fd(), Directory::file_name('s', to),
              bytes, length, bad);
  close(nameless);
  for (const int fd : bad) close(fd);
}

void Scribbler::scribble_file() {
  switch (below(4)) {
    case 0:
      return scribble_card();
    case 1:
      return life_->directory.announce();
    default:
      return litter();
  }
}

void Scribbler::scribble_card() {
  MemberRecord record = life_->membership.record();
  if (below(2) == 0)
    record.mac = {{0x02, 0x75, 0, 0, static_cast<uint8_t>(below(256)), static_cast<uint8_t>(below(256))}};
  for (uint32_t i = below(100); i > 0; i--) record.blocks.push_back(1 + below(kQpnBlocks - 2));
  std::string text = to_text(record);
  for (uint32_t i = below(4); i > 0; i--)
    text[below(static_cast<uint32_t>(text.size()))] = static_cast<char>(below(256));
  if (below(4) == 0) text.resize(below(200'000), 'x');
  const std::string name = Directory::file_name('m', life_->membership.id());
  write_file(life_->directory.fd(), name, text);
  if (below(4) == 0 && truncate((path_ + "/" + name).c_str(), below(200)) != 0) return;
  life_->directory.announce();
}

/// Files named like records and mailboxes, which no member has locked.
void Scribbler::litter() {
  const int directory = life_->directory.fd();
  const MemberId id = 0xbad0 + below(kLitterNames);
  const std::string name = Directory::file_name("msq"[below(3)], id);
  remove_any(directory, name);
  switch (below(7)) {
    case 0:
      mkdirat(directory, name.c_str(), 0700);
      break;
    case 1:
      mkfifoat(directory, name.c_str(), 0600);
      break;
    case 2:
      if (symlinkat("/dev/zero", directory, name.c_str()) != 0) return;
      break;
    case 3:
      if (symlinkat(Directory::file_name('s', board_.victims[any_victim()].id).c_str(), directory, name.c_str()) != 0)
        return;
      break;
    case 4:
      mknodat(directory, name.c_str(), S_IFSOCK | 0600, 0);
      break;
    default:
      write_file(directory, name, to_text(record_of("wild", static_cast<uint8_t>(below(200)))));
      break;
  }
}

}  // namespace uroce::segment::test
