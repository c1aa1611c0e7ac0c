#include "pmd/card/device.h"

#include <algorithm>

#include "pmd/card/block_header.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

// What a build of a 100G design reports about itself.
constexpr uint32_t kFpgaJtagId = 0x04b57093;
constexpr uint32_t kFirmware = 0x00010001, kFirmwareVersion = 0x00000100, kBoardVersion = 0x01000000;
constexpr uint32_t kBuildDate = 1701504649;  // after the last register change of this generation
constexpr uint32_t kGitHash = 0x0, kRelease = 0x0;
constexpr uint32_t kCorePeriod = 4u << 16 | 1u;            // 4/1 ns
constexpr uint32_t kReferencePeriod = 1024u << 16 | 165u;  // 1024/165 ns
constexpr uint32_t kCoreHz = 250'000'000, kMacHz = 322'265'625;

}  // namespace

Device::Device(Context& context, const Layout& layout)
    : context_(&context),
      layout_(&layout),
      msix_table_(size_t{context.config.interrupts} * 4),
      msix_pending_((size_t{context.config.interrupts} + 63) / 64 * 2) {
  reset();
}

void Device::reset() {
  std::fill(msix_pending_.begin(), msix_pending_.end(), 0);
  // As PCI demands, every vector is masked at the beginning.
  for (size_t i = 0; i < msix_table_.size(); ++i) msix_table_[i] = i % 4 == 3 ? 1 : 0;
}

uint32_t* Device::msix_word(uint32_t offset) {
  if (offset < kMsixTableOffset || offset >= kMsixWindow + kCsrWindowBytes) return nullptr;
  const bool pending = offset >= kMsixPbaOffset;
  std::vector<uint32_t>& words = pending ? msix_pending_ : msix_table_;
  const size_t index = (offset - (pending ? kMsixPbaOffset : kMsixTableOffset)) / 4;
  return index < words.size() ? &words[index] : nullptr;
}

uint32_t Device::read(uint32_t offset) {
  if (offset < kCsrWindowBytes) return read_list(offset);
  if (const uint32_t* word = msix_word(offset)) return *word;
  if (offset >= kStatsWindow && offset < kStatsWindow + kStatsCount * kStatsStride) {
    const uint64_t value = context_->dma.statistic((offset - kStatsWindow) / kStatsStride);
    return static_cast<uint32_t>(offset % kStatsStride == 0 ? value : value >> 32);
  }
  return 0;
}

bool Device::write(uint32_t offset, uint32_t value) {
  if (uint32_t* word = msix_word(offset)) {
    *word = value;
    return true;
  }
  if (offset == kIrqBlock + irq::kMinimumIntervalUs) {
    context_->interrupts.set_interval_us(value);
    return true;
  }
  if (context_->config.ptp && offset >= kPtpBlock && offset < kClockBlock) {
    return context_->clock.write(offset - kPtpBlock, value, context_->now_ns);
  }
  return false;
}

uint32_t Device::read_list(uint32_t offset) {
  if (offset < kIrqBlock) return read_firmware(offset);
  if (offset < kInterfacesBlock) {
    const uint32_t at = offset - kIrqBlock;
    return at < kBlockHeaderBytes ? block_header(BlockType::kIrq, version::kIrq, kInterfacesBlock, at)
                                  : context_->interrupts.interval_us();
  }
  if (offset < kAppBlock) return read_interfaces(offset - kInterfacesBlock);
  if (offset < kStatsBlock) {
    // In a build without an application there is a hole here, which is part of the list.
    return offset == kAppBlock + kBlockNext ? kStatsBlock : 0;
  }
  if (offset < kPtpBlock) return read_statistics_block(offset - kStatsBlock);
  if (offset < kClockBlock) return context_->config.ptp ? read_ptp(offset - kPtpBlock) : 0;
  return read_clock(offset - kClockBlock);
}

uint32_t Device::read_firmware(uint32_t offset) const {
  namespace reg = firmware_id;
  switch (offset) {
    case reg::kFpgaId:
      return kFpgaJtagId;
    case reg::kFirmwareId:
      return kFirmware;
    case reg::kFirmwareVersion:
      return kFirmwareVersion;
    case reg::kBoardId:
      return context_->config.board_id;
    case reg::kBoardVersion:
      return kBoardVersion;
    case reg::kBuildDate:
      return kBuildDate;
    case reg::kGitHash:
      return kGitHash;
    case reg::kReleaseInfo:
      return kRelease;
    default:
      return offset < kBlockHeaderBytes ? block_header(BlockType::kFirmwareId, version::kFirmwareId, kIrqBlock, offset)
                                        : 0;
  }
}

uint32_t Device::read_interfaces(uint32_t offset) const {
  switch (offset) {
    case interfaces::kOffset:
      return 0;
    case interfaces::kCount:
      return context_->config.interfaces;
    case interfaces::kStride:
      return layout_->interface_stride;
    case interfaces::kCsrOffset:
      return layout_->csr_bytes;
    default:
      return offset < kBlockHeaderBytes ? block_header(BlockType::kInterfaces, version::kInterfaces, kAppBlock, offset)
                                        : 0;
  }
}

uint32_t Device::read_statistics_block(uint32_t offset) const {
  switch (offset) {
    case stats::kOffset:
      return kStatsWindow;
    case stats::kCount:
      return kStatsCount;
    case stats::kStride:
      return kStatsStride;
    case stats::kFlags:
      return 0;
    default:
      break;
  }
  const uint32_t next = context_->config.ptp ? kPtpBlock : kClockBlock;
  return offset < kBlockHeaderBytes ? block_header(BlockType::kStats, version::kStats, next, offset) : 0;
}

uint32_t Device::read_ptp(uint32_t offset) {
  if (offset < kBlockHeaderBytes) return block_header(BlockType::kPtp, version::kPtp, kClockBlock, offset);
  uint32_t value = 0;
  return context_->clock.read(offset, context_->now_ns, value) ? value : 0;
}

uint32_t Device::read_clock(uint32_t offset) const {
  namespace reg = clock_info;
  const uint32_t channels = 2 * context_->config.interfaces * context_->config.ports_per_interface;  // TX and RX
  switch (offset) {
    case reg::kCount:
      return channels;
    case reg::kReferencePeriod:
      return kReferencePeriod;
    case reg::kClockPeriod:
      return kCorePeriod;
    case reg::kFrequency:
      return kCoreHz;
    default:
      break;
  }
  if (offset < kBlockHeaderBytes) return block_header(BlockType::kClockInfo, version::kClockInfo, 0, offset);
  return offset >= reg::kChannels && offset < reg::kChannels + 4 * channels ? kMacHz : 0;
}

}  // namespace mqnic::card
