// A card in another process, reached over vfio-user.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pmd/hw/bus.h"
#include "pmd/vfio_user/channel.h"

namespace mqnic::vfio_user {

/// Registers are accessed by messages, doorbells through shared memory if the server offers that. DMA memory is shared
/// by the descriptors of its files, so memory without a file is refused with -EOPNOTSUPP.
///
/// When the server goes away, or does not answer for seconds, from then on every read is all-ones, and writes do
/// nothing.
class VfioUserBus final : public Bus {
 public:
  /// Returns nullptr, with one line in `error`, when that fails.
  static std::unique_ptr<VfioUserBus> connect(const std::string& socket_path, std::string& error);
  ~VfioUserBus() override;

  std::string name() const override { return "vfio-user " + path_; }
  size_t bar_bytes() const override { return bar_bytes_; }
  uint32_t read32(uint32_t offset) override;
  void write32(uint32_t offset, uint32_t value) override;
  volatile uint32_t* doorbell_word(unsigned interface, QueueKind kind, unsigned queue,
                                   uint32_t register_offset) override;
  int map_memory(void* address, size_t bytes, int fd, uint64_t fd_offset) override;
  int unmap_memory(void* address, size_t bytes) override;
  unsigned interrupt_count() const override { return interrupts_; }
  int set_interrupt(unsigned number, int event_fd) override;

  /// 0 when the server has no PCI configuration space.
  uint16_t vendor_id() const { return vendor_id_; }
  uint16_t device_id() const { return device_id_; }
  /// PCI reset, after which the card is as after power-on. Returns 0 or a negative errno.
  int reset();
  bool gone();

 private:
  VfioUserBus(std::string path, UniqueFd socket) : path_(std::move(path)), channel_(std::move(socket)) {}

  std::string introduce();
  std::string look_at_device();
  std::string map_doorbells();
  int call(Command command, std::span<const uint8_t> body, std::span<const int> fds, Message& reply);
  int region_info(uint32_t index, RegionInfo& info, Message& reply);

  std::string path_;
  std::mutex mutex_;
  Channel channel_;
  bool gone_ = false;
  uint16_t next_id_ = 1;
  size_t bar_bytes_ = 0;
  unsigned interrupts_ = 0;
  uint16_t vendor_id_ = 0;
  uint16_t device_id_ = 0;
  uint8_t* doorbells_ = nullptr;
  size_t doorbell_bytes_ = 0;
};

}  // namespace mqnic::vfio_user
