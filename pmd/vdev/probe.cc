#include <rte_malloc.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "pmd/vdev/driver.h"
#include "pmd/vdev/log.h"
#include "pmd/vdev/ops.h"

namespace uroce::vdev {
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
  dev->data->mac_addrs = static_cast<rte_ether_addr*>(rte_zmalloc("vdev mac", sizeof(rte_ether_addr), 0));
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
  dev->rx_pkt_burst = device->driver.bursts.rx;
  dev->tx_pkt_burst = device->driver.bursts.tx;
  dev->rx_queue_count = device->driver.bursts.waiting;
  *static_cast<Device**>(dev->data->dev_private) = device.release();
  device_ops.link_update(dev, 0);
  rte_eth_dev_probing_finish(dev);
  return 0;
}

}  // namespace

int probe(const Driver& driver, rte_vdev_device* vdev) {
  const char* const name = rte_vdev_device_name(vdev);
  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    VDEV_LOG(ERR, driver, "%s: secondary processes cannot use this driver's ports", name);
    return -ENOTSUP;
  }
  std::unique_ptr<SoftwarePort> port;
  std::string error;
  if (const int rc = driver.open(name, rte_vdev_device_args(vdev), port, error); rc != 0) {
    VDEV_LOG(ERR, driver, "%s", error.c_str());
    return rc;
  }
  const int rc = make_ethdev(vdev, std::make_unique<Device>(driver, std::move(port)));
  if (rc != 0) VDEV_LOG(ERR, driver, "%s: cannot be made: %s", name, std::strerror(-rc));
  return rc;
}

int remove(rte_vdev_device* vdev) {
  rte_eth_dev* const dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));
  if (dev == nullptr) return 0;
  if (dev->data->dev_started != 0) rte_eth_dev_stop(dev->data->port_id);
  return rte_eth_dev_close(dev->data->port_id);
}

}  // namespace uroce::vdev
