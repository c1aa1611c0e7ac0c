// --vdev=net_shmlan0,...: a DPDK application joins a segment.
#include <cerrno>

#include "pmd/shmlan/arguments.h"
#include "pmd/shmlan/log.h"
#include "pmd/shmlan/station.h"
#include "pmd/vdev/driver.h"

namespace uroce::shmlan {

RTE_LOG_REGISTER(log_type, pmd.net.shmlan, NOTICE);

namespace {

int open_port(const char* device, const char* text, std::unique_ptr<vdev::SoftwarePort>& out, std::string& error) {
  Arguments arguments;
  if (!parse_arguments(device, text, arguments, error)) return -EINVAL;
  out = Station::join(arguments, error);
  return out ? 0 : -ENODEV;
}

constexpr vdev::Driver kDriver{
    .name = "net_shmlan",
    .log_type = log_type,
    .open = open_port,
    .bursts = vdev::bursts_of<Station>(),
    .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER,
    .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE,
    .usual_ring = segment::kSlots,
    .rx_mode = "copied out of shared memory",
    .tx_mode = "copied into shared memory",
    .no_link_interrupt = "the link is always up: it has no interrupt",
};

constinit rte_vdev_driver shmlan_vdev_driver = vdev::make_vdev_driver<kDriver>();

}  // namespace

RTE_PMD_REGISTER_VDEV(net_shmlan, shmlan_vdev_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_shmlan, SHMLAN_ARGUMENTS);

}  // namespace uroce::shmlan
