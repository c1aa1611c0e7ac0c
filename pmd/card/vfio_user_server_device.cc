#include "pmd/card/vfio_user_server_device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pmd/hw/doorbell_page.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace vu = vfio_user;
namespace {

constexpr size_t kMsixEntryBytes = 16;
constexpr uint32_t kUnmapAll = 1u << 1;  // VFIO_DMA_UNMAP_FLAG_ALL

template <typename T>
bool read_struct(const vu::Message& message, T& value) {
  if (message.body.size() < sizeof value) return false;
  std::memcpy(&value, message.body.data(), sizeof value);
  return true;
}

template <typename T>
void append(std::vector<uint8_t>& body, const T& value) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
  body.insert(body.end(), bytes, bytes + sizeof value);
}

/// Only an eventfd is accepted: writing to anything else could block, or do harm.
bool is_eventfd(int fd) {
  char target[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), target, sizeof target - 1) > 0 && std::strcmp(target, "anon_inode:[eventfd]") == 0;
}

}  // namespace

VfioUserDevice::VfioUserDevice(Card& card, HostMemory& memory, DmaMessages& messages)
    : card_(card),
      messages_(messages),
      memory_(memory, messages),
      config_space_(card.config()),
      msix_table_(card.config().interrupts * kMsixEntryBytes),
      interrupts_(card.config().interrupts) {
  card_.set_interrupt_handler([this](unsigned vector) { fire(vector); });
}

VfioUserDevice::~VfioUserDevice() {
  end_client();
  card_.set_interrupt_handler({});
}

bool VfioUserDevice::start_client() {
  const size_t bytes = doorbell_page::bytes(card_.config().interfaces);
  vu::UniqueFd file(memfd_create("mqnic-doorbells", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return false;
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return false;
  doorbell_file_ = std::move(file);
  doorbells_ = static_cast<uint8_t*>(memory);
  card_.set_doorbell_words(reinterpret_cast<volatile uint32_t*>(__builtin_assume_aligned(doorbells_, 4096)));
  introduced_ = false;
  return true;
}

void VfioUserDevice::end_client() {
  card_.reset();
  card_.set_doorbell_words(nullptr);
  memory_.clear();
  config_space_.reset();
  std::fill(msix_table_.begin(), msix_table_.end(), uint8_t{0});
  for (vu::UniqueFd& interrupt : interrupts_) interrupt.reset();
  if (doorbells_ != nullptr) munmap(doorbells_, doorbell_page::bytes(card_.config().interfaces));
  doorbells_ = nullptr;
  doorbell_file_.reset();
  introduced_ = false;
}

int VfioUserDevice::handle(vu::Message& request, Reply& reply) {
  const auto command = static_cast<vu::Command>(request.header.command);
  if (introduced_ == (command == vu::Command::kVersion)) return EINVAL;
  switch (command) {
    case vu::Command::kVersion:
      return version(request, reply);
    case vu::Command::kDmaMap:
      return dma_map(request);
    case vu::Command::kDmaUnmap:
      return dma_unmap(request, reply);
    case vu::Command::kGetInfo:
      return device_info(request, reply);
    case vu::Command::kRegionInfo:
      return region_info(request, reply);
    case vu::Command::kIrqInfo:
      return irq_info(request, reply);
    case vu::Command::kSetIrqs:
      return set_irqs(request);
    case vu::Command::kRegionRead:
      return region_read(request, reply);
    case vu::Command::kRegionWrite:
      return region_write(request, reply);
    case vu::Command::kReset:
      return reset(request);
    case vu::Command::kDeviceFeature:
      return device_feature(request);
    case vu::Command::kRegionIoFds:
    case vu::Command::kDmaRead:
    case vu::Command::kDmaWrite:
      break;
  }
  return EOPNOTSUPP;
}

int VfioUserDevice::version(const vu::Message& request, Reply& reply) {
  vu::Version theirs{};
  if (!read_struct(request, theirs) || theirs.major != vu::kMajor) return EINVAL;
  const auto capabilities = vu::parse_version_json(std::span(request.body).subspan(sizeof theirs));
  if (!capabilities) return EINVAL;
  messages_.set_bytes_max(capabilities->data_bytes_max);
  introduced_ = true;
  append(reply.body, vu::Version{vu::kMajor, std::min(theirs.minor, vu::kMinor)});
  const std::string json = vu::version_json();
  reply.body.insert(reply.body.end(), json.c_str(), json.c_str() + json.size() + 1);
  return 0;
}

int VfioUserDevice::dma_map(const vu::Message& request) {
  vu::DmaMap map{};
  if (!read_struct(request, map) || map.argsz < sizeof map || request.fds.size() > 1) return EINVAL;
  return memory_.map(map, request.fds.empty() ? -1 : request.fds[0].get());
}

int VfioUserDevice::dma_unmap(const vu::Message& request, Reply& reply) {
  vu::DmaUnmap unmap{};
  if (!read_struct(request, unmap) || unmap.argsz < sizeof unmap) return EINVAL;
  if (unmap.flags == kUnmapAll && unmap.address == 0 && unmap.bytes == 0) {
    memory_.clear();
  } else if (unmap.flags != 0) {
    return EINVAL;
  } else if (const int error = memory_.unmap(unmap.address, unmap.bytes); error != 0) {
    return error;
  }
  append(reply.body, unmap);
  return 0;
}

int VfioUserDevice::device_info(const vu::Message& request, Reply& reply) const {
  vu::DeviceInfo info{};
  if (!read_struct(request, info) || info.argsz < sizeof info) return EINVAL;
  append(reply.body,
         vu::DeviceInfo{sizeof info, vu::kDeviceReset | vu::kDevicePci, doorbell_page::kRegionIndex + 1, vu::kPciIrqs});
  return 0;
}

uint64_t VfioUserDevice::region_bytes(uint32_t region) const {
  switch (region) {
    case vu::kRegionBar0:
      return card_.config().bar_bytes;
    case vu::kRegionConfig:
      return PciConfigSpace::kBytes;
    case doorbell_page::kRegionIndex:
      return doorbell_page::bytes(card_.config().interfaces);
    default:
      return 0;
  }
}

int VfioUserDevice::region_info(const vu::Message& request, Reply& reply) const {
  vu::RegionInfo info{};
  if (!read_struct(request, info) || info.argsz < sizeof info || info.index > doorbell_page::kRegionIndex)
    return EINVAL;
  const uint32_t room = info.argsz;
  info = {sizeof info, 0, info.index, 0, region_bytes(info.index), 0};
  if (info.bytes != 0) info.flags = vu::kRegionReadable | vu::kRegionWritable;
  if (info.index != doorbell_page::kRegionIndex) {
    append(reply.body, info);
    return 0;
  }
  info.flags |= vu::kRegionMmap | vu::kRegionCapabilities;
  info.argsz = sizeof info + sizeof(vu::SparseMmap) + sizeof(vu::RegionType);
  // A client that left no room for the capabilities learns how much they need, and asks again.
  const bool whole = room >= info.argsz;
  if (whole) info.capability_offset = sizeof info;
  append(reply.body, info);
  if (whole) {
    append(reply.body,
           vu::SparseMmap{{vu::kCapabilitySparseMmap, 1, sizeof info + sizeof(vu::SparseMmap)}, 1, 0, 0, info.bytes});
    append(reply.body,
           vu::RegionType{{vu::kCapabilityType, 1, 0}, doorbell_page::kRegionType, doorbell_page::kRegionSubtype});
  }
  reply.fd = doorbell_file_.get();
  return 0;
}

int VfioUserDevice::irq_info(const vu::Message& request, Reply& reply) const {
  vu::IrqInfo info{};
  if (!read_struct(request, info) || info.argsz < sizeof info || info.index >= vu::kPciIrqs) return EINVAL;
  const bool msix = info.index == vu::kIrqMsix;
  append(reply.body, vu::IrqInfo{sizeof info, msix ? vu::kIrqEventfd : 0, info.index,
                                 msix ? static_cast<uint32_t>(interrupts_.size()) : 0});
  return 0;
}

int VfioUserDevice::set_irqs(vu::Message& request) {
  vu::SetIrqs set{};
  if (!read_struct(request, set) || set.argsz < sizeof set || set.index >= vu::kPciIrqs) return EINVAL;
  // No kind of interrupt can be masked here, and all but MSI-X have no vectors.
  if ((set.flags & vu::kIrqActionsMask) != vu::kIrqActionTrigger) return EINVAL;
  if ((set.flags & ~(vu::kIrqActionsMask | vu::kIrqDataMask)) != 0) return EINVAL;
  const uint64_t vectors = set.index == vu::kIrqMsix ? interrupts_.size() : 0;
  if (set.start > vectors || set.count > vectors - set.start) return EINVAL;
  return set_msix(request, set);
}

int VfioUserDevice::set_msix(vu::Message& request, const vu::SetIrqs& set) {
  const std::span<const uint8_t> flags = std::span(request.body).subspan(sizeof set);
  switch (set.flags & vu::kIrqDataMask) {
    case vu::kIrqDataNone:
      if (!flags.empty() || !request.fds.empty()) return EINVAL;
      if (set.count == 0 && set.index == vu::kIrqMsix) {
        for (vu::UniqueFd& interrupt : interrupts_) interrupt.reset();
      }
      for (uint32_t i = 0; i < set.count; i++) fire(set.start + i);
      return 0;
    case vu::kIrqDataBool:
      if (flags.size() != set.count || !request.fds.empty()) return EINVAL;
      for (uint32_t i = 0; i < set.count; i++) {
        if (flags[i] != 0) fire(set.start + i);
      }
      return 0;
    case vu::kIrqDataEventfd:
      if (!flags.empty() || set.count == 0) return EINVAL;
      // Without any descriptors, these vectors have none from now on.
      if (!request.fds.empty() && request.fds.size() != set.count) return EINVAL;
      for (const vu::UniqueFd& fd : request.fds) {
        if (!is_eventfd(fd.get())) return EINVAL;
      }
      for (uint32_t i = 0; i < set.count; i++) {
        interrupts_[set.start + i] = request.fds.empty() ? vu::UniqueFd() : std::move(request.fds[i]);
      }
      return 0;
    default:
      return EINVAL;
  }
}

void VfioUserDevice::fire(unsigned vector) {
  if (vector >= interrupts_.size() || !interrupts_[vector]) return;
  // A client may have filled the counter on purpose; losing an interrupt is better than a card that hangs.
  pollfd entry{interrupts_[vector].get(), POLLOUT, 0};
  const uint64_t one = 1;
  if (poll(&entry, 1, 0) != 1 || (entry.revents & POLLOUT) == 0) return;
  while (write(entry.fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool VfioUserDevice::check_access(const vu::RegionAccess& access) const {
  const uint64_t bytes = region_bytes(access.region);
  if (access.count == 0 || access.count > vu::kDataBytesMax) return false;
  return access.offset <= bytes && access.count <= bytes - access.offset;
}

uint8_t* VfioUserDevice::msix_table_at(uint64_t offset) {
  const uint64_t at = offset - kMsixTableOffset;
  return offset >= kMsixTableOffset && at < msix_table_.size() ? msix_table_.data() + at : nullptr;
}

/// Registers are words. A read of a part of one returns that part.
void VfioUserDevice::read_bar(uint64_t offset, std::span<uint8_t> out) {
  for (size_t done = 0; done < out.size();) {
    const uint64_t aligned = (offset + done) & ~uint64_t{3};
    const size_t skip = (offset + done) - aligned;
    const size_t count = std::min(out.size() - done, sizeof(uint32_t) - skip);
    uint32_t word = 0;
    if (const uint8_t* const entry = msix_table_at(aligned)) {
      std::memcpy(&word, entry, sizeof word);
    } else {
      word = card_.read32(static_cast<uint32_t>(aligned));
    }
    std::memcpy(out.data() + done, reinterpret_cast<const uint8_t*>(&word) + skip, count);
    done += count;
  }
}

/// A command register takes only whole words, because half a command makes no sense.
int VfioUserDevice::write_bar(uint64_t offset, std::span<const uint8_t> data) {
  if (offset % sizeof(uint32_t) != 0 || data.size() % sizeof(uint32_t) != 0) return EINVAL;
  for (size_t done = 0; done < data.size(); done += sizeof(uint32_t)) {
    uint32_t word = 0;
    std::memcpy(&word, data.data() + done, sizeof word);
    if (uint8_t* const entry = msix_table_at(offset + done)) {
      std::memcpy(entry, &word, sizeof word);
    } else {
      card_.write32(static_cast<uint32_t>(offset + done), word);
    }
  }
  return 0;
}

int VfioUserDevice::region_read(const vu::Message& request, Reply& reply) {
  vu::RegionAccess access{};
  if (!read_struct(request, access) || request.body.size() != sizeof access || !check_access(access)) return EINVAL;
  append(reply.body, access);
  reply.body.resize(sizeof access + access.count);
  const std::span<uint8_t> out = std::span(reply.body).subspan(sizeof access);
  if (access.region == vu::kRegionBar0) {
    read_bar(access.offset, out);
  } else if (access.region == vu::kRegionConfig) {
    config_space_.read(access.offset, out);
  } else {
    std::memcpy(out.data(), doorbells_ + access.offset, out.size());
  }
  return 0;
}

int VfioUserDevice::region_write(const vu::Message& request, Reply& reply) {
  vu::RegionAccess access{};
  if (!read_struct(request, access) || !check_access(access) || request.body.size() != sizeof access + access.count) {
    return EINVAL;
  }
  const std::span<const uint8_t> data = std::span(request.body).subspan(sizeof access);
  if (access.region == vu::kRegionBar0) {
    if (const int error = write_bar(access.offset, data); error != 0) return error;
  } else if (access.region == vu::kRegionConfig) {
    config_space_.write(access.offset, data);
  } else {
    std::memcpy(doorbells_ + access.offset, data.data(), data.size());
  }
  append(reply.body, access);
  return 0;
}

int VfioUserDevice::reset(const vu::Message& request) {
  if (!request.body.empty()) return EINVAL;
  card_.reset();
  config_space_.reset();
  std::fill(msix_table_.begin(), msix_table_.end(), uint8_t{0});
  std::memset(doorbells_, 0, doorbell_page::bytes(card_.config().interfaces));
  return 0;
}

/// All features are for migration, and the card cannot migrate. ENOTTY is how VFIO says that a device lacks a feature.
int VfioUserDevice::device_feature(const vu::Message& request) {
  vu::DeviceFeature feature{};
  if (!read_struct(request, feature) || feature.argsz < sizeof feature) return EINVAL;
  return ENOTTY;
}

}  // namespace mqnic::card
