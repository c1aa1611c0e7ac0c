// --vdev=net_udp0,...: a DPDK application has the UDP port of RoCE.
#include <rte_malloc.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "pmd/udp/arguments.h"
#include "pmd/udp/log.h"
#include "pmd/udp/ops.h"

namespace uroce::udp {

RTE_LOG_REGISTER(log_type, pmd.net.udp, NOTICE);

namespace {

rte_intr_handle* make_interrupt_handle() {
  rte_intr_handle* const handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (handle == nullptr) return nullptr;
  // What waits behind the descriptor is not a number to be read.
  rte_intr_type_set(handle, RTE_INTR_HANDLE_VDEV);
  rte_intr_efd_counter_size_set(handle, 0);
  rte_intr_fd_set(handle, -1);
  return handle;
}

/// The ethdev then owns `device`.
int make_ethdev(rte_vdev_device* vdev, std::unique_ptr<Device> device) {
  rte_eth_dev* const dev = rte_eth_vdev_allocate(vdev, sizeof(Device*));
  if (dev == nullptr) return -ENOMEM;
  device->interrupt = make_interrupt_handle();
  dev->data->mac_addrs = static_cast<rte_ether_addr*>(rte_zmalloc("udp mac", sizeof(rte_ether_addr), 0));
  if (device->interrupt == nullptr || dev->data->mac_addrs == nullptr) {
    rte_intr_instance_free(device->interrupt);
    rte_eth_dev_release_port(dev);
    return -ENOMEM;
  }
  std::memcpy(dev->data->mac_addrs->addr_bytes, device->port->mac().bytes.data(), RTE_ETHER_ADDR_LEN);
  dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
  dev->data->all_multicast = 1;
  dev->intr_handle = device->interrupt;
  dev->dev_ops = &device_ops;
  dev->rx_pkt_burst = rx_burst;
  dev->tx_pkt_burst = tx_burst;
  *static_cast<Device**>(dev->data->dev_private) = device.release();
  device_ops.link_update(dev, 0);
  rte_eth_dev_probing_finish(dev);
  return 0;
}

int probe(rte_vdev_device* vdev) {
  const char* const name = rte_vdev_device_name(vdev);
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    UDP_LOG(ERR, "%s: secondary processes cannot use this driver's ports", name);
    return -ENOTSUP;
  }
  Arguments arguments;
  std::string error;
  if (!parse_arguments(name, rte_vdev_device_args(vdev), arguments, error)) {
    UDP_LOG(ERR, "%s", error.c_str());
    return -EINVAL;
  }
  auto port = SocketPort::open(arguments, error);
  if (!port) {
    UDP_LOG(ERR, "%s", error.c_str());
    return -ENODEV;
  }
  const int rc = make_ethdev(vdev, std::make_unique<Device>(std::move(port)));
  if (rc != 0) UDP_LOG(ERR, "%s: cannot be made: %s", name, std::strerror(-rc));
  return rc;
}

int remove(rte_vdev_device* vdev) {
  rte_eth_dev* const dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));
  return dev == nullptr ? 0 : remove_device(dev);
}

constexpr rte_vdev_driver make_driver() {
  rte_vdev_driver driver{};
  driver.probe = probe;
  driver.remove = remove;
  return driver;
}

// Constant: EAL's registration may run before other initialisers.
constinit rte_vdev_driver udp_vdev_driver = make_driver();

}  // namespace

RTE_PMD_REGISTER_VDEV(net_udp, udp_vdev_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_udp, UDP_ARGUMENTS);

}  // namespace uroce::udp
