// The operations of a port, apart from packets.
#include "pmd/ethdev/ops.h"

#include <rte_string_fns.h>

#include <algorithm>
#include <cstdio>

#include "pmd/ethdev/interrupts.h"
#include "pmd/ethdev/lifecycle.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/queue_setup.h"
#include "pmd/ethdev/registers_dump.h"
#include "pmd/ethdev/rss.h"
#include "pmd/ethdev/rx_burst.h"
#include "pmd/ethdev/statistics.h"
#include "pmd/ethdev/timesync.h"
#include "pmd/ethdev/tx_burst.h"
#include "pmd/hw/boards.h"
#include "pmd/hw/control.h"

namespace mqnic::ethdev {

namespace {

constexpr uint16_t kDescriptorsMin = 64, kDescriptorsMax = 32768, kDescriptorsDefault = 1024;
constexpr uint16_t kBurstDefault = 32;

uint64_t rx_offloads(const Port& port) {
  uint64_t offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
  if (port.log2_block_max != 0) offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
  if ((port.interface->features & interface_control::kRxChecksum) != 0) {
    offloads |= RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
  }
  if ((port.interface->features & interface_control::kRxHash) != 0) offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
  if ((port.interface->features & interface_control::kPtpTimestamps) != 0 && port.card->clock() != nullptr) {
    offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
  }
  return offloads;
}

uint64_t tx_offloads(const Port& port) {
  const uint64_t pieces = port.log2_block_max != 0 ? RTE_ETH_TX_OFFLOAD_MULTI_SEGS : 0;
  return pieces | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
         RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
}

int get_infos(rte_eth_dev* dev, rte_eth_dev_info* info) {
  const Port& port = port_of(dev);
  info->max_rx_pktlen = port.largest_frame();
  info->max_mtu = static_cast<uint16_t>(port.largest_frame() - kFrameOverhead);
  info->min_mtu = RTE_ETHER_MIN_MTU;
  info->min_rx_bufsize = RTE_ETHER_MIN_LEN;
  info->max_rx_queues =
      static_cast<uint16_t>(std::min<uint32_t>({port.rx.count, port.completion.count - 1, RTE_MAX_QUEUES_PER_PORT}));
  info->max_tx_queues =
      static_cast<uint16_t>(std::min<uint32_t>({port.tx.count, port.completion.count - 1, RTE_MAX_QUEUES_PER_PORT}));
  info->max_mac_addrs = 1;
  info->rx_offload_capa = info->rx_queue_offload_capa = rx_offloads(port);
  info->tx_offload_capa = info->tx_queue_offload_capa = tx_offloads(port);
  const uint32_t pieces = 1u << port.log2_block_max;
  info->rx_desc_lim = {kDescriptorsMax, kDescriptorsMin, 1, static_cast<uint16_t>(pieces),
                       static_cast<uint16_t>(pieces)};
  info->tx_desc_lim = info->rx_desc_lim;
  info->default_rxconf.rx_free_thresh = kBurstDefault;
  info->default_txconf.tx_free_thresh = kBurstDefault;
  info->default_rxportconf = {kBurstDefault, kDescriptorsDefault, 1};
  info->default_txportconf = {kBurstDefault, kDescriptorsDefault, 1};
  if ((port.interface->features & interface_control::kRss) != 0) {
    info->flow_type_rss_offloads = kRssTypes;
    info->reta_size = static_cast<uint16_t>(1u << port.interface->log2_queue_table);
    info->hash_key_size = kRssKeyBytes;
  }
  info->dev_capa = RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP | RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP;
  info->speed_capa = 0;  // the card does not tell
  return 0;
}

int update_link(rte_eth_dev* dev, int) {
  const Port& port = port_of(dev);
  rte_eth_link link{};
  link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
  link.link_autoneg = RTE_ETH_LINK_FIXED;
  link.link_speed = RTE_ETH_SPEED_NUM_NONE;
  if (port.bus().needs_run()) port.bus().run();
  if (!port.card->check_removed() && dev->data->dev_started != 0 &&
      link_state(port.bus(), port.hw()) == LinkState::kUp) {
    link.link_status = RTE_ETH_LINK_UP;
    link.link_speed = RTE_ETH_SPEED_NUM_UNKNOWN;  // no register contains it
  }
  return rte_eth_linkstatus_set(dev, &link);
}

int is_removed(rte_eth_dev* dev) { return port_of(dev).card->check_removed() ? 1 : 0; }

// The card has no MAC filter, so it always receives everything.
int receive_all(rte_eth_dev*) { return 0; }
int receive_less(rte_eth_dev*) { return -ENOTSUP; }
int set_mac(rte_eth_dev*, rte_ether_addr*) { return 0; }
int set_multicast_list(rte_eth_dev*, rte_ether_addr*, uint32_t) { return 0; }

int get_firmware_version(rte_eth_dev* dev, char* text, size_t bytes) {
  const CardDescription& card = port_of(dev).card->description();
  const auto byte = [](uint32_t word, unsigned i) { return word >> (8 * i) & 0xff; };
  const uint32_t v = card.firmware_version;
  const char* const name = board_name(card.board_id);
  const int n =
      snprintf(text, bytes, "%u.%u.%u.%u git %08x board 0x%08x%s%s", byte(v, 3), byte(v, 2), byte(v, 1), byte(v, 0),
               card.git_hash, card.board_id, name == nullptr ? "" : " ", name == nullptr ? "" : name);
  if (n < 0) return -EINVAL;
  return static_cast<size_t>(n) < bytes ? 0 : n + 1;
}

const uint32_t* get_ptypes(rte_eth_dev*) {
  static const uint32_t types[] = {RTE_PTYPE_L2_ETHER, RTE_PTYPE_L3_IPV4_EXT_UNKNOWN, RTE_PTYPE_UNKNOWN};
  return types;
}

void get_rxq_info(rte_eth_dev* dev, uint16_t number, rte_eth_rxq_info* info) {
  const RxQueue& queue = *port_of(dev).rx_queue(number);
  info->mp = queue.pool;
  info->scattered_rx = queue.log2_block != 0 ? 1 : 0;
  info->nb_desc = static_cast<uint16_t>(queue.entries);
  info->rx_buf_size = queue.room;
  info->conf.rx_free_thresh = static_cast<uint16_t>(queue.refill_threshold);
  info->conf.rx_deferred_start = queue.deferred_start ? 1 : 0;
  info->conf.offloads = queue.offloads;
}

void get_txq_info(rte_eth_dev* dev, uint16_t number, rte_eth_txq_info* info) {
  const TxQueue& queue = *port_of(dev).tx_queue(number);
  info->nb_desc = static_cast<uint16_t>(queue.entries);
  info->conf.tx_free_thresh = static_cast<uint16_t>(queue.free_threshold);
  info->conf.tx_deferred_start = queue.deferred_start ? 1 : 0;
  info->conf.offloads = queue.offloads;
}

int get_rx_burst_mode(rte_eth_dev* dev, uint16_t, rte_eth_burst_mode* mode) {
  const bool scatter = dev->data->scattered_rx != 0;
  const bool plain = dev->rx_pkt_burst == choose_rx_burst(scatter, false);
  snprintf(mode->info, sizeof(mode->info), "Scalar%s%s", scatter ? " Scatter" : "", plain ? "" : " Offloads");
  return 0;
}

int get_tx_burst_mode(rte_eth_dev* dev, uint16_t, rte_eth_burst_mode* mode) {
  snprintf(mode->info, sizeof(mode->info), "Scalar%s", dev->tx_pkt_burst == choose_tx_burst(true) ? " Gather" : "");
  return 0;
}

int get_flow_control(rte_eth_dev* dev, rte_eth_fc_conf* conf) {
  const Port& port = port_of(dev);
  if ((port.hw().features & port_control::kFeatureLfc) == 0) return -ENOTSUP;
  if (port.card->check_removed()) return -ENODEV;
  const PauseSetup setup = pause_setup(port.bus(), port.hw());
  *conf = {};
  conf->high_water = setup.watermark_bytes;
  conf->pause_time = 0xffff;
  conf->mode = setup.send && setup.obey ? RTE_ETH_FC_FULL
               : setup.send             ? RTE_ETH_FC_TX_PAUSE
               : setup.obey             ? RTE_ETH_FC_RX_PAUSE
                                        : RTE_ETH_FC_NONE;
  return 0;
}

int set_flow_control(rte_eth_dev* dev, rte_eth_fc_conf* conf) {
  Port& port = port_of(dev);
  if ((port.hw().features & port_control::kFeatureLfc) == 0) return -ENOTSUP;
  if (port.card->check_removed()) return -ENODEV;
  if (conf->mac_ctrl_frame_fwd != 0 || conf->autoneg != 0) {
    MQNIC_LOG(ERR, "%s: the card cannot forward pause frames or negotiate flow control", port.name());
    return -ENOTSUP;
  }
  if (conf->high_water > port_control::kWatermarkMask || conf->high_water > port.interface->rx_fifo_bytes) {
    MQNIC_LOG(ERR, "%s: high_water %u is more than the RX FIFO of %u bytes", port.name(), conf->high_water,
              port.interface->rx_fifo_bytes);
    return -EINVAL;
  }
  const bool send = conf->mode == RTE_ETH_FC_FULL || conf->mode == RTE_ETH_FC_TX_PAUSE;
  const bool obey = conf->mode == RTE_ETH_FC_FULL || conf->mode == RTE_ETH_FC_RX_PAUSE;
  set_pause(port.bus(), port.hw(), {send, obey, conf->high_water});
  return 0;
}

int refuse_pfc(rte_eth_dev* dev, rte_eth_pfc_conf*) {
  MQNIC_LOG(ERR, "%s: this card has registers for priority flow control, but nothing behind them", port_of(dev).name());
  return -ENOTSUP;
}

int clean_up_tx(void* tx_queue, uint32_t most) {
  auto& queue = *static_cast<TxQueue*>(tx_queue);
  if (!queue.running.load(std::memory_order_relaxed)) return 0;
  if (queue.run != nullptr) queue.run->run();
  return static_cast<int>(reap(queue, most == 0 ? queue.entries : most));
}

constexpr eth_dev_ops make_ops() {
  eth_dev_ops ops{};
  ops.dev_configure = configure_port;
  ops.dev_start = start_port;
  ops.dev_stop = stop_port;
  ops.dev_close = close_port;
  ops.dev_reset = reset_port;
  ops.link_update = update_link;
  ops.is_removed = is_removed;
  ops.promiscuous_enable = receive_all;
  ops.promiscuous_disable = receive_less;
  ops.allmulticast_enable = receive_all;
  ops.allmulticast_disable = receive_less;
  ops.mac_addr_set = set_mac;
  ops.set_mc_addr_list = set_multicast_list;
  ops.mtu_set = set_mtu;
  ops.stats_get = get_stats;
  ops.stats_reset = reset_stats;
  ops.xstats_get = get_xstats;
  ops.xstats_reset = reset_stats;
  ops.xstats_get_names = get_xstats_names;
  ops.dev_infos_get = get_infos;
  ops.rxq_info_get = get_rxq_info;
  ops.txq_info_get = get_txq_info;
  ops.rx_burst_mode_get = get_rx_burst_mode;
  ops.tx_burst_mode_get = get_tx_burst_mode;
  ops.fw_version_get = get_firmware_version;
  ops.dev_supported_ptypes_get = get_ptypes;
  ops.rx_queue_start = start_one_rx_queue;
  ops.rx_queue_stop = stop_one_rx_queue;
  ops.tx_queue_start = start_one_tx_queue;
  ops.tx_queue_stop = stop_one_tx_queue;
  ops.rx_queue_setup = setup_rx_queue;
  ops.rx_queue_release = release_rx_queue;
  ops.rx_queue_intr_enable = enable_rx_interrupt;
  ops.rx_queue_intr_disable = disable_rx_interrupt;
  ops.tx_queue_setup = setup_tx_queue;
  ops.tx_queue_release = release_tx_queue;
  ops.tx_done_cleanup = clean_up_tx;
  ops.flow_ctrl_get = get_flow_control;
  ops.flow_ctrl_set = set_flow_control;
  ops.priority_flow_ctrl_set = refuse_pfc;
  ops.rss_hash_update = update_rss;
  ops.rss_hash_conf_get = get_rss;
  ops.reta_update = update_reta;
  ops.reta_query = query_reta;
  ops.get_reg = get_registers;
  ops.timesync_enable = enable_timesync;
  ops.timesync_disable = disable_timesync;
  ops.timesync_read_rx_timestamp = read_rx_timestamp;
  ops.timesync_read_tx_timestamp = read_tx_timestamp;
  ops.timesync_adjust_time = adjust_time;
  ops.timesync_read_time = read_time;
  ops.timesync_write_time = write_time;
  ops.read_clock = read_clock;
  return ops;
}

}  // namespace

constinit const eth_dev_ops port_ops = make_ops();

}  // namespace mqnic::ethdev
