// The arguments that a user writes after the name of a virtual device:
//   --vdev=net_mqnic0,card=inline,wire=shm:cable,loss=0.01
//   --vdev=net_mqnic0,card=vfio-user,socket=/run/card.sock
#pragma once

#include <rte_ether.h>

#include <optional>
#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/wires/knobs.h"
#include "pmd/hw/failure.h"

namespace mqnic::ethdev {

struct Arguments {
  std::string device;  // "net_mqnic0"
  std::string card = "inline";
  std::string socket;              // for card=vfio-user
  std::vector<std::string> wires;  // for card=inline, one for each port in order
  std::optional<rte_ether_addr> mac;
  card::CardConfig config;
  card::WireKnobs knobs;
  std::vector<std::string> given;  // the keys, in order
};

/// `text` is "key=value,key=value". Fails on an unknown key, a bad value, or keys that do not belong together, with one
/// line that names the key.
Failure parse_arguments(const std::string& device, const char* text, Arguments& out);

/// The same for a card on PCI (`-a 0000:03:00.0,mac=02:00:00:00:00:01`), whose only argument is `mac`.
Failure parse_pci_arguments(const std::string& device, const char* text, std::optional<rte_ether_addr>& mac);
#define MQNIC_PCI_ARGUMENTS "mac=<address>"

/// The list of arguments, for `dpdk-pmdinfo` and messages.
#define MQNIC_ARGUMENTS                                                                                            \
  "card=inline|vfio-user socket=<path> wire=<kind[:name]> mac=<address> interfaces=<n> ports=<n> tx_queues=<n> "   \
  "rx_queues=<n> completion_queues=<n> event_queues=<n> interrupts=<n> log2_block_max=<n> log2_rss_table=<n> "     \
  "max_frame=<bytes> tx_fifo=<bytes> rx_fifo=<bytes> ptp=0|1 board_id=<n> bandwidth=<rate> delay=<time> loss=<p> " \
  "corrupt=<p> duplicate=<p> reorder=<p> pause=<quanta@time> seed=<n>"

}  // namespace mqnic::ethdev
