// The card's registers: an FPGA NIC with the open Corundum design, register generation v4 (2023-07-10 and later).
//
// Offsets are bytes from the start of BAR0, or from the start of the block or queue that they belong to. All accesses
// are 32 bits, little-endian. Source: Corundum's register documentation and RTL.
#pragma once

#include <cstdint>

namespace mqnic {

/// The result of a read when nothing answers, because the card is gone or has to be reset.
inline constexpr uint32_t kAllOnes = 0xffffffffu;

// ---- Block list: every block begins with these three words.
inline constexpr uint32_t kBlockType = 0x00;
inline constexpr uint32_t kBlockVersion = 0x04;
inline constexpr uint32_t kBlockNext = 0x08;  // relative to the region's base; 0: the list ends

enum class BlockType : uint32_t {
  kNone = 0,  // a hole: skipped
  kClockInfo = 0xc008,
  kPtp = 0xc080,
  kInterfaces = 0xc000,
  kInterfaceControl = 0xc001,
  kPort = 0xc002,
  kPortControl = 0xc003,
  kScheduler = 0xc004,
  kApp = 0xc005,
  kStats = 0xc006,
  kIrq = 0xc007,
  kEventQueues = 0xc010,
  kCompletionQueues = 0xc020,
  kTxQueues = 0xc030,
  kRxQueues = 0xc031,
  kRxQueueMap = 0xc090,
  kSchedulerRoundRobin = 0xc040,
  kFirmwareId = 0xffffffff,
};

/// The versions of the v4 generation, which are the only ones that this code supports.
namespace version {
inline constexpr uint32_t kFirmwareId = 0x100;
inline constexpr uint32_t kIrq = 0x100;
inline constexpr uint32_t kInterfaces = 0x100;
inline constexpr uint32_t kApp = 0x200;
inline constexpr uint32_t kStats = 0x100;
inline constexpr uint32_t kClockInfo = 0x100;
inline constexpr uint32_t kPtp = 0x200;
inline constexpr uint32_t kInterfaceControl = 0x400;
inline constexpr uint32_t kQueueManager = 0x400;  // EQ, CQ, TXQ, RXQ
inline constexpr uint32_t kRxQueueMap = 0x200;
inline constexpr uint32_t kPort = 0x200;
inline constexpr uint32_t kPortControl = 0x300;
inline constexpr uint32_t kScheduler = 0x300;
inline constexpr uint32_t kSchedulerRoundRobin = 0x100;
}  // namespace version

namespace firmware_id {
inline constexpr uint32_t kFpgaId = 0x0c, kFirmwareId = 0x10, kFirmwareVersion = 0x14, kBoardId = 0x18,
                          kBoardVersion = 0x1c, kBuildDate = 0x20, kGitHash = 0x24, kReleaseInfo = 0x28;
}
namespace irq {
inline constexpr uint32_t kMinimumIntervalUs = 0x0c;  // 16 bits
}
namespace interfaces {
inline constexpr uint32_t kOffset = 0x0c, kCount = 0x10, kStride = 0x14, kCsrOffset = 0x18;
}
namespace stats {
inline constexpr uint32_t kOffset = 0x0c, kCount = 0x10, kStride = 0x14, kFlags = 0x18;
}
namespace clock_info {
inline constexpr uint32_t kCount = 0x0c, kReferencePeriod = 0x10, kClockPeriod = 0x18, kFrequency = 0x1c,
                          kChannels = 0x20;
}

/// PTP hardware clock. Reading the first word of the snapshot latches the rest of it; the current time is live. Writing
/// the last word of a group asks for an update, which is pending for a while; what is written meanwhile is lost.
namespace ptp {
inline constexpr uint32_t kControl = 0x0c;  // bit 8 PPS, 16 locked, 24..29 an update is pending
inline constexpr uint32_t kSetTodPending = 1u << 24, kOffsetTodPending = 1u << 25;  // kControl
inline constexpr uint32_t kCurrentFns = 0x10, kCurrentTodNs = 0x14, kCurrentTodSecL = 0x18, kCurrentTodSecH = 0x1c,
                          kCurrentRelNsL = 0x20, kCurrentRelNsH = 0x24, kCurrentPtm = 0x28;
inline constexpr uint32_t kSnapshotFns = 0x30, kSnapshotTodNs = 0x34, kSnapshotTodSecL = 0x38, kSnapshotTodSecH = 0x3c,
                          kSnapshotRelNsL = 0x40, kSnapshotRelNsH = 0x44, kSnapshotPtm = 0x48;
inline constexpr uint32_t kOffsetTodNs = 0x50, kSetTodNs = 0x54, kSetTodSecL = 0x58, kSetTodSecH = 0x5c,
                          kSetRelNsL = 0x60, kSetRelNsH = 0x64, kOffsetRelNs = 0x68, kOffsetFns = 0x6c;
inline constexpr uint32_t kNominalPeriodFns = 0x70, kNominalPeriodNs = 0x74, kPeriodFns = 0x78, kPeriodNs = 0x7c;
}  // namespace ptp

namespace interface_control {
inline constexpr uint32_t kFeatures = 0x0c, kPortCount = 0x10, kSchedulerCount = 0x14, kMaxTxMtu = 0x20,
                          kMaxRxMtu = 0x24, kTxMtu = 0x28,
                          kRxMtu = 0x2c,  // frame sizes: the Ethernet header counts, the FCS does not
    kTxFifoBytes = 0x30, kRxFifoBytes = 0x34;
// kFeatures
inline constexpr uint32_t kRss = 1u << 0, kPtpTimestamps = 1u << 4, kTxChecksum = 1u << 8, kRxChecksum = 1u << 9,
                          kRxHash = 1u << 10, kLinkFlowControl = 1u << 11, kPriorityFlowControl = 1u << 12;
}  // namespace interface_control

/// Queue managers: EQ, CQ, TXQ, RXQ. `kOffset` is relative to the interface's base.
namespace queue_manager {
inline constexpr uint32_t kOffset = 0x0c, kCount = 0x10, kStride = 0x14;
inline constexpr uint32_t kEventStride = 0x10, kCompletionStride = 0x10, kRingStride = 0x20;
}  // namespace queue_manager

namespace rx_queue_map {
inline constexpr uint32_t kConfig = 0x0c;  // 7:0 ports, 15:8 log2 of the table's entries
inline constexpr uint32_t kPorts = 0x10, kPortStride = 0x10;
// of a port: queue = table[(tdest & app mask) + (hash & rss mask)]
inline constexpr uint32_t kTableOffset = 0x00, kRssMask = 0x04, kAppMask = 0x08;
}  // namespace rx_queue_map

namespace port {
inline constexpr uint32_t kListOffset = 0x0c;
}
namespace scheduler {
inline constexpr uint32_t kListOffset = 0x0c;
}

namespace port_control {
inline constexpr uint32_t kFeatures = 0x0c, kTxControl = 0x10, kRxControl = 0x14, kQuantaStep = 0x18,
                          kLinkFlowControl = 0x1c, kPriorityFlowControl = 0x20;  // + 4 for each priority
// kFeatures
inline constexpr uint32_t kFeatureLfc = 1u << 0, kFeaturePfc = 1u << 1, kFeatureInternalMac = 1u << 2;
// kTxControl, kRxControl
inline constexpr uint32_t kEnable = 1u << 0, kPause = 1u << 8, kLinkUp = 1u << 16, kInReset = 1u << 17,
                          kPauseRequest = 1u << 24, kPauseAck = 1u << 25;
// kLinkFlowControl
inline constexpr uint32_t kWatermarkMask = 0x00ffffff, kLfcTxEnable = 1u << 24, kLfcRxEnable = 1u << 25,
                          kLfcTxRequest = 1u << 28, kLfcRxRequest = 1u << 29;
}  // namespace port_control

namespace scheduler_round_robin {
inline constexpr uint32_t kOffset = 0x0c, kChannelCount = 0x10, kChannelStride = 0x14, kControl = 0x18,
                          kDestination = 0x1c;
inline constexpr uint32_t kEnable = 1u << 0;  // kControl
// a channel's word; there is one for each TXQ
inline constexpr uint32_t kChannelEnable = 1u << 0, kChannelGlobalEnable = 1u << 1, kChannelControlEnable = 1u << 2,
                          kChannelActive = 1u << 16, kChannelScheduled = 1u << 24;
}  // namespace scheduler_round_robin

/// Registers of one TXQ or RXQ.
namespace ring_register {
inline constexpr uint32_t kBaseL = 0x00, kBaseH = 0x04, kControlStatus = 0x08, kSizeCqn = 0x0c, kPointers = 0x10;
inline constexpr uint32_t kEnabled = 1u << 0, kActive = 1u << 3;  // kControlStatus
/// Where commands are written. Any register of the queue that is not writable itself would do.
inline constexpr uint32_t kCommand = kPointers;
}  // namespace ring_register

/// Registers of one CQ or EQ.
namespace cq_register {
inline constexpr uint32_t kBaseL = 0x00, kBaseH = 0x04, kControlStatus = 0x08, kPointers = 0x0c;
// kControlStatus: 15:0 EQN (of a CQ) or IRQ number (of an EQ), 31:28 log2 size
inline constexpr uint32_t kEnabled = 1u << 16, kArmed = 1u << 17, kContinuous = 1u << 18, kActive = 1u << 19;
inline constexpr uint32_t kCommand = kPointers;
}  // namespace cq_register

/// Command words.
namespace command {
constexpr uint32_t set_size(uint32_t log2_entries, uint32_t log2_block = 0) {
  return 0x80020000u | log2_block << 8 | log2_entries;
}
/// The CQ of a TXQ or RXQ, the EQ of a CQ, the interrupt of an EQ.
constexpr uint32_t set_target(uint32_t number) { return 0xc0000000u | (number & 0x00ffffffu); }
constexpr uint32_t set_producer(uint16_t pointer) { return 0x80800000u | pointer; }
constexpr uint32_t set_consumer(uint16_t pointer) { return 0x80900000u | pointer; }
constexpr uint32_t set_consumer_and_arm(uint16_t pointer) { return 0x80910000u | pointer; }
constexpr uint32_t enable(bool on) { return 0x40000100u | (on ? 1u : 0u); }
constexpr uint32_t arm(bool on) { return 0x40000200u | (on ? 1u : 0u); }
/// Asks for the largest block. The card clamps the size, and shows the result in ring_register::kSizeCqn, 31:28.
inline constexpr uint32_t kProbeBlock = 0x8002ff00u;
}  // namespace command

/// Pointers are 16 bits and run freely; a ring must be smaller than their range.
inline constexpr uint32_t kLog2RingMax = 15;
/// Log2 of the descriptors of a packet: no card has more, and the register has only two bits for it.
inline constexpr uint32_t kLog2BlockMax = 3;
inline constexpr uint32_t kRingBaseAlignment = 4096;
/// How many packets the TX engine takes from rings before the first of them leaves (DESC_TABLE_SIZE of tx_engine.v).
inline constexpr uint32_t kTxTakenMost = 32;

// PCI
inline constexpr uint16_t kPciVendorCorundum = 0x1234, kPciVendorCorundumAlt = 0x5543, kPciDevice = 0x1001;
inline constexpr uint32_t kMsixTableOffset = 0x10000, kMsixPbaOffset = 0x18000;

}  // namespace mqnic
