// --vdev=net_udp0,...: a DPDK application has the UDP port of RoCE.
#include <cerrno>

#include "pmd/udp/arguments.h"
#include "pmd/udp/log.h"
#include "pmd/udp/socket_port.h"
#include "pmd/vdev/driver.h"

namespace uroce::udp {

RTE_LOG_REGISTER(log_type, pmd.net.udp, NOTICE);

namespace {

int open_port(const char* device, const char* text, std::unique_ptr<vdev::SoftwarePort>& out, std::string& error) {
  Arguments arguments;
  if (!parse_arguments(device, text, arguments, error)) return -EINVAL;
  out = SocketPort::open(arguments, error);
  return out ? 0 : -ENODEV;
}

constexpr vdev::Driver kDriver{
    .name = "net_udp",
    .log_type = log_type,
    .open = open_port,
    .bursts = vdev::bursts_of<SocketPort>(),
    .rx_offloads = 0,
    .tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE,
    .usual_ring = 512,
    .rx_mode = "recvmmsg, datagrams put together by the kernel",
    .tx_mode = "sendmmsg, messages cut by the kernel",
    .no_link_interrupt = "it has no interrupt for the link",
};

constinit rte_vdev_driver udp_vdev_driver = vdev::make_vdev_driver<kDriver>();

}  // namespace

RTE_PMD_REGISTER_VDEV(net_udp, udp_vdev_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_udp, UDP_ARGUMENTS);

}  // namespace uroce::udp
