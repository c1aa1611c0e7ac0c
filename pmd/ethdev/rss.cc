// Receive-side scaling: the card hashes with a fixed key and looks the queue up in a table.
#include "pmd/ethdev/rss.h"

#include <cerrno>
#include <cstring>

#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/hw/control.h"

namespace mqnic::ethdev {

namespace {

// The usual key of Toeplitz examples, which is part of the FPGA's design and cannot be changed.
constexpr uint8_t kKey[kRssKeyBytes] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                        0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                        0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

bool has_rss(const Port& port) { return (port.interface->features & interface_control::kRss) != 0; }

/// Checks that the card supports the key and the types. The types cannot be chosen one by one, because the card always
/// hashes what it can.
int check_rss(const Port& port, const rte_eth_rss_conf& conf) {
  if (conf.rss_key != nullptr && (conf.rss_key_len != kRssKeyBytes || memcmp(conf.rss_key, kKey, kRssKeyBytes) != 0)) {
    MQNIC_LOG(ERR, "%s: the RSS key is part of the card and cannot be changed", port.name());
    return -ENOTSUP;
  }
  if ((conf.rss_hf & ~kRssTypes) != 0) {
    MQNIC_LOG(ERR, "%s: the card hashes IPv4 only, with the ports of TCP and UDP", port.name());
    return -EINVAL;
  }
  return 0;
}

}  // namespace

int configure_rss(Port& port) {
  const rte_eth_conf& conf = port.dev->data->dev_conf;
  const bool wanted = conf.rxmode.mq_mode == RTE_ETH_MQ_RX_RSS;
  if (conf.rxmode.mq_mode != RTE_ETH_MQ_RX_NONE && !wanted) {
    MQNIC_LOG(ERR, "%s: of the multi-queue modes there is RSS only", port.name());
    return -ENOTSUP;
  }
  if (wanted && !has_rss(port)) {
    MQNIC_LOG(ERR, "%s: this card was built without RSS", port.name());
    return -ENOTSUP;
  }
  if (wanted) {
    const int rc = check_rss(port, conf.rx_adv_conf.rss_conf);
    if (rc != 0) return rc;
  }
  port.rss_types = wanted ? conf.rx_adv_conf.rss_conf.rss_hf : 0;
  const uint16_t queues = port.dev->data->nb_rx_queues;
  port.reta.resize(size_t{1} << port.interface->log2_queue_table);
  for (size_t i = 0; i < port.reta.size(); ++i) port.reta[i] = queues == 0 ? 0 : static_cast<uint16_t>(i % queues);
  return 0;
}

void forget_rss(Port& port) {
  port.rss_types = 0;
  port.reta.clear();
}

void write_rss(Port& port) {
  std::vector<uint16_t> queues(port.reta.size());
  for (size_t i = 0; i < queues.size(); ++i) queues[i] = static_cast<uint16_t>(port.rx.first + port.reta[i]);
  // Without RSS the card uses entry 0, which then has to be queue 0, whatever the table has for RSS.
  const bool on = port.rss_types != 0;
  if (!on && !queues.empty()) queues[0] = static_cast<uint16_t>(port.rx.first);
  set_queue_table(port.bus(), port.hw(), queues);
  enable_rss(port.bus(), *port.interface, port.hw(), on);
}

int update_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* entries, uint16_t size) {
  Port& port = port_of(dev);
  if (!has_rss(port) || size != port.reta.size()) return -EINVAL;
  for (uint16_t i = 0; i < size; ++i) {
    const rte_eth_rss_reta_entry64& group = entries[i / RTE_ETH_RETA_GROUP_SIZE];
    const unsigned bit = i % RTE_ETH_RETA_GROUP_SIZE;
    if ((group.mask >> bit & 1) == 0) continue;
    if (group.reta[bit] >= dev->data->nb_rx_queues) return -EINVAL;
    port.reta[i] = group.reta[bit];
  }
  if (dev->data->dev_started != 0) write_rss(port);
  return 0;
}

int query_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* entries, uint16_t size) {
  const Port& port = port_of(dev);
  if (!has_rss(port) || size != port.reta.size()) return -EINVAL;
  for (uint16_t i = 0; i < size; ++i) {
    rte_eth_rss_reta_entry64& group = entries[i / RTE_ETH_RETA_GROUP_SIZE];
    const unsigned bit = i % RTE_ETH_RETA_GROUP_SIZE;
    if ((group.mask >> bit & 1) != 0) group.reta[bit] = port.reta[i];
  }
  return 0;
}

int update_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf) {
  Port& port = port_of(dev);
  if (!has_rss(port)) return -ENOTSUP;
  const int rc = check_rss(port, *conf);
  if (rc != 0) return rc;
  port.rss_types = conf->rss_hf;
  if (dev->data->dev_started != 0) write_rss(port);
  return 0;
}

int get_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf) {
  const Port& port = port_of(dev);
  if (!has_rss(port)) return -ENOTSUP;
  conf->rss_hf = port.rss_types;
  if (conf->rss_key != nullptr && conf->rss_key_len >= kRssKeyBytes) {
    memcpy(conf->rss_key, kKey, kRssKeyBytes);
    conf->rss_key_len = kRssKeyBytes;
  }
  return 0;
}

}  // namespace mqnic::ethdev
