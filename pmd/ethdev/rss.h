// Chooses the queue of a packet: the redirection table, and the types that are hashed.
#pragma once

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

int update_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* entries, uint16_t size);
int query_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* entries, uint16_t size);
int update_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf);
int get_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf);
/// Sets the default table, and the types that the configuration asks for.
int configure_rss(Port& port);
/// As before the first configuration.
void forget_rss(Port& port);
void write_rss(Port& port);
inline constexpr uint64_t kRssTypes = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP |
                                      RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV4_OTHER;
inline constexpr size_t kRssKeyBytes = 40;

}  // namespace mqnic::ethdev
