// The card as a vfio-user device, which answers one command after the other. Knows no socket.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"
#include "pmd/card/vfio_user_server_config_space.h"
#include "pmd/card/vfio_user_server_memory.h"
#include "pmd/vfio_user/channel.h"

namespace mqnic::card {

/// The client is not trusted: every length, index and range is checked, and a wrong one is answered with an error.
class VfioUserDevice {
 public:
  /// All outlive the device.
  VfioUserDevice(Card& card, HostMemory& memory, DmaMessages& messages);
  ~VfioUserDevice();
  VfioUserDevice(const VfioUserDevice&) = delete;
  VfioUserDevice& operator=(const VfioUserDevice&) = delete;

  struct Reply {
    std::vector<uint8_t> body;
    int fd = -1;  // to be sent with the reply; still belongs to the device
  };
  /// Returns 0, or the positive errno for the error reply.
  int handle(vfio_user::Message& request, Reply& reply);

  /// A client comes, and nothing is left of the one before: the card is reset, the old client's memory is unmapped, and
  /// its doorbells are no longer looked at. False when there is no memory for doorbells.
  bool start_client();
  void end_client();
  /// True when the client has introduced itself.
  bool introduced() const { return introduced_; }
  /// True when some of the client's memory can be reached only by messages.
  bool asks_client() const { return memory_.asks(); }

 private:
  int version(const vfio_user::Message& request, Reply& reply);
  int dma_map(const vfio_user::Message& request);
  int dma_unmap(const vfio_user::Message& request, Reply& reply);
  int device_info(const vfio_user::Message& request, Reply& reply) const;
  int region_info(const vfio_user::Message& request, Reply& reply) const;
  int irq_info(const vfio_user::Message& request, Reply& reply) const;
  int set_irqs(vfio_user::Message& request);
  int set_msix(vfio_user::Message& request, const vfio_user::SetIrqs& set);
  int region_read(const vfio_user::Message& request, Reply& reply);
  int region_write(const vfio_user::Message& request, Reply& reply);
  int reset(const vfio_user::Message& request);
  static int device_feature(const vfio_user::Message& request);

  uint64_t region_bytes(uint32_t region) const;
  bool check_access(const vfio_user::RegionAccess& access) const;
  void read_bar(uint64_t offset, std::span<uint8_t> out);
  int write_bar(uint64_t offset, std::span<const uint8_t> data);
  uint8_t* msix_table_at(uint64_t offset);
  void fire(unsigned vector);

  Card& card_;
  DmaMessages& messages_;
  ClientMemory memory_;
  PciConfigSpace config_space_;
  std::vector<uint8_t> msix_table_;
  std::vector<vfio_user::UniqueFd> interrupts_;
  vfio_user::UniqueFd doorbell_file_;
  uint8_t* doorbells_ = nullptr;
  bool introduced_ = false;
};

}  // namespace mqnic::card
