#include "pmd/vfio_user/client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "pmd/hw/doorbell_page.h"
#include "pmd/hw/registers.h"

namespace mqnic::vfio_user {
namespace {

constexpr int kAnswerPatienceMs = 5000;
constexpr uint32_t kRegionInfoBytesMax = 1024;

template <typename T>
std::span<const uint8_t> bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

template <typename T>
bool read_struct(const Message& message, T& value) {
  if (message.body.size() < sizeof value) return false;
  std::memcpy(&value, message.body.data(), sizeof value);
  return true;
}

}  // namespace

std::unique_ptr<VfioUserBus> VfioUserBus::connect(const std::string& socket_path, std::string& error) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof address.sun_path) {
    error = "vfio-user: the socket's path has 1 to " + std::to_string(sizeof address.sun_path - 1) + " characters";
    return nullptr;
  }
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    error = "vfio-user " + socket_path + ": " + std::strerror(errno) + "; is mqnic-card running with --socket " +
            socket_path + "?";
    return nullptr;
  }
  std::unique_ptr<VfioUserBus> bus(new VfioUserBus(socket_path, std::move(fd)));
  std::string why = bus->introduce();
  if (why.empty()) why = bus->look_at_device();
  if (why.empty()) why = bus->map_doorbells();
  if (!why.empty()) {
    error = bus->name() + ": " + why;
    return nullptr;
  }
  return bus;
}

VfioUserBus::~VfioUserBus() {
  if (doorbells_ != nullptr) munmap(doorbells_, doorbell_bytes_);
}

/// Sends a command and waits for its reply. Returns 0, the server's negative errno, or -ENODEV when the server is gone.
int VfioUserBus::call(Command command, std::span<const uint8_t> body, std::span<const int> fds, Message& reply) {
  if (gone_) return -ENODEV;
  const uint16_t id = next_id_++;
  const Header header{id, static_cast<uint16_t>(command), static_cast<uint32_t>(sizeof header + body.size()),
                      kTypeCommand, 0};
  if (!channel_.send(header, body, fds)) {
    gone_ = true;
    return -ENODEV;
  }
  // Anything but the reply, such as a command of the server or the reply to something else, breaks the protocol as it
  // was negotiated.
  const bool good = channel_.receive(reply, kAnswerPatienceMs) == Channel::Received::kMessage &&
                    (reply.header.flags & kTypeMask) == kTypeReply && reply.header.message_id == id &&
                    reply.header.command == header.command;
  if (!good) {
    gone_ = true;
    return -ENODEV;
  }
  if ((reply.header.flags & kFlagError) == 0) return 0;
  const uint32_t code = reply.header.error;
  return code != 0 && code < 4096 ? -static_cast<int>(code) : -EIO;
}

std::string VfioUserBus::introduce() {
  const std::string json = version_json();
  const Version version{kMajor, kMinor};
  std::vector<uint8_t> body(sizeof version + json.size() + 1);
  std::memcpy(body.data(), &version, sizeof version);
  std::memcpy(body.data() + sizeof version, json.c_str(), json.size() + 1);
  Message reply;
  const int result = call(Command::kVersion, body, {}, reply);
  if (result == -ENODEV) return "the server closed the connection or does not answer; has it another client?";
  if (result != 0) return std::string("the server refuses this client: ") + std::strerror(-result);
  Version theirs{};
  if (!read_struct(reply, theirs) || theirs.major != kMajor) return "the server speaks another version of the protocol";
  const auto capabilities = parse_version_json(std::span(reply.body).subspan(sizeof theirs));
  if (!capabilities || capabilities->data_bytes_max < sizeof(uint32_t))
    return "the server introduces itself with nonsense";
  return "";
}

int VfioUserBus::region_info(uint32_t index, RegionInfo& info, Message& reply) {
  const RegionInfo request{kRegionInfoBytesMax, 0, index, 0, 0, 0};
  const int result = call(Command::kRegionInfo, bytes_of(request), {}, reply);
  if (result != 0) return result;
  return read_struct(reply, info) && info.index == index ? 0 : -EPROTO;
}

std::string VfioUserBus::look_at_device() {
  Message reply;
  const DeviceInfo ask{sizeof(DeviceInfo), 0, 0, 0};
  DeviceInfo device{};
  if (call(Command::kGetInfo, bytes_of(ask), {}, reply) != 0 || !read_struct(reply, device))
    return "no device information";
  if ((device.flags & kDevicePci) == 0 || device.regions < kPciRegions) return "not a PCI device";

  RegionInfo bar{};
  if (region_info(kRegionBar0, bar, reply) != 0 || bar.bytes == 0 || bar.bytes > UINT32_MAX) return "no BAR0";
  bar_bytes_ = bar.bytes;

  const RegionAccess identity{0, kRegionConfig, 4};
  if (call(Command::kRegionRead, bytes_of(identity), {}, reply) == 0 && reply.body.size() == sizeof identity + 4) {
    std::memcpy(&vendor_id_, reply.body.data() + sizeof identity, 2);
    std::memcpy(&device_id_, reply.body.data() + sizeof identity + 2, 2);
  }
  const IrqInfo msix{sizeof(IrqInfo), 0, kIrqMsix, 0};
  IrqInfo irqs{};
  if (device.irqs > kIrqMsix && call(Command::kIrqInfo, bytes_of(msix), {}, reply) == 0 && read_struct(reply, irqs) &&
      (irqs.flags & kIrqEventfd) != 0 && irqs.count <= 2048) {
    interrupts_ = irqs.count;
  }
  return gone_ ? "the server went away" : "";
}

/// A server without doorbells is no error: write32 is slower, but works.
std::string VfioUserBus::map_doorbells() {
  RegionInfo info{};
  Message reply;
  if (region_info(doorbell_page::kRegionIndex, info, reply) != 0) return gone_ ? "the server went away" : "";
  const uint32_t want = kRegionMmap | kRegionCapabilities;
  if ((info.flags & want) != want || reply.fds.size() != 1) return "";
  // The type of the region says what it is for.
  bool ours = false;
  RegionType type{};
  for (uint64_t at = info.capability_offset, steps = 0; at >= sizeof info && steps < 16;
       at = type.header.next, steps++) {
    if (at + sizeof(CapabilityHeader) > reply.body.size()) break;
    std::memcpy(&type.header, reply.body.data() + at, sizeof type.header);
    if (type.header.id != kCapabilityType || at + sizeof type > reply.body.size()) continue;
    std::memcpy(&type, reply.body.data() + at, sizeof type);
    ours = type.type == doorbell_page::kRegionType && type.subtype == doorbell_page::kRegionSubtype;
  }
  // Without the seals the server could truncate the memory, and so crash this process.
  const int seals = fcntl(reply.fds[0].get(), F_GET_SEALS);
  struct stat file {};
  if (!ours || seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(reply.fds[0].get(), &file) != 0) return "";
  if (info.bytes == 0 || info.offset > static_cast<uint64_t>(file.st_size) ||
      info.bytes > static_cast<uint64_t>(file.st_size) - info.offset) {
    return "its doorbell memory is shorter than it says";
  }
  void* const memory = mmap(nullptr, info.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, reply.fds[0].get(),
                            static_cast<off_t>(info.offset));
  if (memory == MAP_FAILED) return std::string("cannot map its doorbells: ") + std::strerror(errno);
  doorbells_ = static_cast<uint8_t*>(memory);
  doorbell_bytes_ = info.bytes;
  return "";
}

uint32_t VfioUserBus::read32(uint32_t offset) {
  const std::lock_guard lock(mutex_);
  const RegionAccess access{offset, kRegionBar0, sizeof(uint32_t)};
  Message reply;
  uint32_t value = kAllOnes;
  if (call(Command::kRegionRead, bytes_of(access), {}, reply) != 0) return value;
  if (reply.body.size() == sizeof access + sizeof value) {
    std::memcpy(&value, reply.body.data() + sizeof access, sizeof value);
  }
  return value;
}

// Waits for the answer, because a later write through the doorbells' memory must not overtake this one.
void VfioUserBus::write32(uint32_t offset, uint32_t value) {
  const std::lock_guard lock(mutex_);
  struct {
    RegionAccess access;
    uint32_t value;
    uint32_t unused;
  } const request{{offset, kRegionBar0, sizeof value}, value, 0};
  Message reply;
  call(Command::kRegionWrite, bytes_of(request).first(sizeof(RegionAccess) + sizeof value), {}, reply);
}

volatile uint32_t* VfioUserBus::doorbell_word(unsigned interface, QueueKind kind, unsigned queue, uint32_t) {
  const size_t at = doorbell_page::word_index(interface, static_cast<unsigned>(kind), queue) * sizeof(uint32_t);
  // Without doorbells, doorbell_bytes_ is 0.
  if (queue >= doorbell_page::kQueuesMax || at + sizeof(uint32_t) > doorbell_bytes_) return nullptr;
  return reinterpret_cast<volatile uint32_t*>(__builtin_assume_aligned(doorbells_ + at, sizeof(uint32_t)));
}

int VfioUserBus::map_memory(void* address, size_t bytes, int fd, uint64_t fd_offset) {
  if (fd < 0) return -EOPNOTSUPP;
  const std::lock_guard lock(mutex_);
  const DmaMap map{sizeof(DmaMap), kDmaReadable | kDmaWritable, fd_offset, reinterpret_cast<uint64_t>(address), bytes};
  Message reply;
  return call(Command::kDmaMap, bytes_of(map), {&fd, 1}, reply);
}

int VfioUserBus::unmap_memory(void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const DmaUnmap unmap{sizeof(DmaUnmap), 0, reinterpret_cast<uint64_t>(address), bytes};
  Message reply;
  return call(Command::kDmaUnmap, bytes_of(unmap), {}, reply);
}

int VfioUserBus::set_interrupt(unsigned number, int event_fd) {
  if (number >= interrupts_) return -EINVAL;
  const std::lock_guard lock(mutex_);
  // Without a descriptor, the vector has none from now on.
  const SetIrqs set{sizeof(SetIrqs), kIrqDataEventfd | kIrqActionTrigger, kIrqMsix, number, 1};
  const std::span<const int> fds = event_fd >= 0 ? std::span<const int>(&event_fd, 1) : std::span<const int>();
  Message reply;
  return call(Command::kSetIrqs, bytes_of(set), fds, reply);
}

int VfioUserBus::reset() {
  const std::lock_guard lock(mutex_);
  Message reply;
  return call(Command::kReset, {}, {}, reply);
}

bool VfioUserBus::gone() {
  const std::lock_guard lock(mutex_);
  return gone_;
}

}  // namespace mqnic::vfio_user
