// The vfio-user protocol: the messages over the socket between a driver or a virtual machine (client) and a device in
// another process (server). The socket is AF_UNIX and SOCK_STREAM, and numbers are in the host's byte order. Contains
// only what a PCI device without migration needs.
//
// Source: the public vfio-user specification, and <linux/vfio.h>, whose structures it carries.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mqnic::vfio_user {

inline constexpr uint16_t kMajor = 0;
inline constexpr uint16_t kMinor = 1;

enum class Command : uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kGetInfo = 4,
  kRegionInfo = 5,
  kRegionIoFds = 6,
  kIrqInfo = 7,
  kSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kDmaRead = 11,
  kDmaWrite = 12,
  kReset = 13,
  kDeviceFeature = 16,
};

/// The header of every message.
struct Header {
  uint16_t message_id;
  uint16_t command;
  uint32_t bytes;  // this header included
  uint32_t flags;
  uint32_t error;  // an errno if kFlagError is set; then the reply consists of the header only
};
static_assert(sizeof(Header) == 16 && offsetof(Header, bytes) == 4 && offsetof(Header, error) == 12);

inline constexpr uint32_t kTypeMask = 0xf, kTypeCommand = 0, kTypeReply = 1;
inline constexpr uint32_t kFlagNoReply = 1u << 4, kFlagError = 1u << 5;

/// Followed by NUL-terminated JSON, which may be left out.
struct Version {
  uint16_t major;
  uint16_t minor;
};
static_assert(sizeof(Version) == 4);

struct DmaMap {
  uint32_t argsz;  // 32
  uint32_t flags;
  uint64_t offset;  // in the file whose descriptor comes with the message
  uint64_t address;
  uint64_t bytes;
};
static_assert(sizeof(DmaMap) == 32 && offsetof(DmaMap, address) == 16);
inline constexpr uint32_t kDmaReadable = 1u << 0, kDmaWritable = 1u << 1;

struct DmaUnmap {
  uint32_t argsz;  // 24
  uint32_t flags;
  uint64_t address;
  uint64_t bytes;
};
static_assert(sizeof(DmaUnmap) == 24);

struct DeviceInfo {
  uint32_t argsz;  // 16
  uint32_t flags;
  uint32_t regions;
  uint32_t irqs;
};
static_assert(sizeof(DeviceInfo) == 16);
inline constexpr uint32_t kDeviceReset = 1u << 0, kDevicePci = 1u << 1;

struct RegionInfo {
  uint32_t argsz;  // in a request: room for the reply; in a reply: the room that it needs
  uint32_t flags;
  uint32_t index;
  uint32_t capability_offset;  // from the start of this structure; 0: none
  uint64_t bytes;
  uint64_t offset;  // in the file that comes with the reply
};
static_assert(sizeof(RegionInfo) == 32 && offsetof(RegionInfo, bytes) == 16);
inline constexpr uint32_t kRegionReadable = 1u << 0, kRegionWritable = 1u << 1, kRegionMmap = 1u << 2,
                          kRegionCapabilities = 1u << 3;

struct CapabilityHeader {
  uint16_t id;
  uint16_t version;
  uint32_t next;  // from the start of RegionInfo; 0: the last one
};
inline constexpr uint16_t kCapabilitySparseMmap = 1, kCapabilityType = 2;

/// The parts of a region that can be mapped; here always one.
struct SparseMmap {
  CapabilityHeader header;
  uint32_t areas;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(SparseMmap) == 32);

struct RegionType {
  CapabilityHeader header;
  uint32_t type;
  uint32_t subtype;
};
static_assert(sizeof(RegionType) == 16);

struct IrqInfo {
  uint32_t argsz;  // 16
  uint32_t flags;
  uint32_t index;
  uint32_t count;
};
static_assert(sizeof(IrqInfo) == 16);
inline constexpr uint32_t kIrqEventfd = 1u << 0;

/// Followed by one byte for each vector (kIrqDataBool), or sent with one eventfd for each (kIrqDataEventfd).
struct SetIrqs {
  uint32_t argsz;
  uint32_t flags;
  uint32_t index;
  uint32_t start;
  uint32_t count;
};
static_assert(sizeof(SetIrqs) == 20);
inline constexpr uint32_t kIrqDataNone = 1u << 0, kIrqDataBool = 1u << 1, kIrqDataEventfd = 1u << 2, kIrqDataMask = 0x7,
                          kIrqActionMask = 1u << 3, kIrqActionUnmask = 1u << 4, kIrqActionTrigger = 1u << 5,
                          kIrqActionsMask = 0x38;

/// Followed by the data, in a reply to a read and in a request to write.
struct RegionAccess {
  uint64_t offset;
  uint32_t region;
  uint32_t count;
};
static_assert(sizeof(RegionAccess) == 16);

/// From the server to the client. Followed by the data, in a reply to a read and in a request to write.
struct DmaAccess {
  uint64_t address;
  uint64_t count;
};
static_assert(sizeof(DmaAccess) == 16);

/// Features are those of <linux/vfio.h>, of which vfio-user has only what is for migration.
struct DeviceFeature {
  uint32_t argsz;
  uint32_t flags;
};
static_assert(sizeof(DeviceFeature) == 8);

// PCI devices
enum Region : uint32_t { kRegionBar0 = 0, kRegionConfig = 7, kPciRegions = 9 };
enum Irq : uint32_t { kIrqIntx = 0, kIrqMsi = 1, kIrqMsix = 2, kPciIrqs = 5 };

// The limits of what this code receives in one message, which it announces when it introduces itself.
inline constexpr uint32_t kDataBytesMax = 4096;
inline constexpr uint32_t kMessageFdsMax = 16;       // QEMU refuses a server that wants more
inline constexpr uint32_t kMessageBytesMax = 16384;  // longer ones end the connection

}  // namespace mqnic::vfio_user
