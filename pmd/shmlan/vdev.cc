// --vdev=net_shmlan0,...: a DPDK application joins a segment.
#include <rte_malloc.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "pmd/shmlan/arguments.h"
#include "pmd/shmlan/log.h"
#include "pmd/shmlan/ops.h"

namespace uroce::shmlan {

RTE_LOG_REGISTER(log_type, pmd.net.shmlan, NOTICE);

namespace {

rte_intr_handle* make_interrupt_handle() {
  rte_intr_handle* const handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (handle == nullptr) return nullptr;
  // EAL is not to read a counter from the descriptor: it has none.
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
  dev->data->mac_addrs = static_cast<rte_ether_addr*>(rte_zmalloc("shmlan mac", sizeof(rte_ether_addr), 0));
  if (device->interrupt == nullptr || dev->data->mac_addrs == nullptr) {
    rte_intr_instance_free(device->interrupt);
    rte_eth_dev_release_port(dev);
    return -ENOMEM;
  }
  std::memcpy(dev->data->mac_addrs->addr_bytes, device->station->mac().bytes.data(), RTE_ETHER_ADDR_LEN);
  dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
  dev->data->all_multicast = 1;
  dev->intr_handle = device->interrupt;
  dev->dev_ops = &device_ops;
  dev->rx_pkt_burst = rx_burst;
  dev->tx_pkt_burst = tx_burst;
  dev->rx_queue_count = rx_queue_count;
  *static_cast<Device**>(dev->data->dev_private) = device.release();
  device_ops.link_update(dev, 0);
  rte_eth_dev_probing_finish(dev);
  return 0;
}

int probe(rte_vdev_device* vdev) {
  const char* const name = rte_vdev_device_name(vdev);
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    SHMLAN_LOG(ERR, "%s: secondary processes cannot use this driver's ports", name);
    return -ENOTSUP;
  }
  Arguments arguments;
  std::string error;
  if (!parse_arguments(name, rte_vdev_device_args(vdev), arguments, error)) {
    SHMLAN_LOG(ERR, "%s", error.c_str());
    return -EINVAL;
  }
  auto station = Station::join(arguments, error);
  if (!station) {
    SHMLAN_LOG(ERR, "%s", error.c_str());
    return -ENODEV;
  }
  const int rc = make_ethdev(vdev, std::make_unique<Device>(std::move(station)));
  if (rc != 0) SHMLAN_LOG(ERR, "%s: cannot be made: %s", name, std::strerror(-rc));
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
constinit rte_vdev_driver shmlan_vdev_driver = make_driver();

}  // namespace

RTE_PMD_REGISTER_VDEV(net_shmlan, shmlan_vdev_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_shmlan, SHMLAN_ARGUMENTS);

}  // namespace uroce::shmlan
