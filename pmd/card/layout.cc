#include "pmd/card/layout.h"

#include <bit>
#include <stdexcept>
#include <string>

#include "pmd/hw/doorbell_page.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

void check_range(const char* what, uint64_t value, uint64_t smallest, uint64_t largest) {
  if (value >= smallest && value <= largest) return;
  throw std::invalid_argument(std::string("card: ") + what + " " + std::to_string(value) + " is not in " +
                              std::to_string(smallest) + ".." + std::to_string(largest));
}

}  // namespace

Layout::Layout(const CardConfig& config) {
  check_range("BAR bytes", config.bar_bytes, 1u << 20, 64u << 20);
  if (!std::has_single_bit(config.bar_bytes)) throw std::invalid_argument("card: BAR bytes are not a power of two");
  check_range("interfaces", config.interfaces, 1, 8);
  check_range("ports of an interface", config.ports_per_interface, 1, 8);
  check_range("interrupts", config.interrupts, 1, 2048);
  check_range("largest block (log2)", config.log2_block_max, 0, 3);
  check_range("largest frame", config.max_frame_bytes, 64, 65535);
  check_range("RX FIFO bytes", config.rx_fifo_bytes, 64, 1u << 24);
  check_range("port bits per second", config.port_bits_per_second, 1, UINT64_MAX);

  interface_stride = static_cast<uint32_t>(config.bar_bytes / std::bit_ceil(config.interfaces));
  const unsigned schedulers = config.ports_per_interface;
  // The interface's space is divided into eighths: the four small windows share the first; CQ, TXQ, RXQ and each
  // scheduler have one each.
  const uint32_t large = interface_stride / 8 / std::bit_ceil((schedulers + 4 + 7) / 8);
  const uint32_t small = large / 4;
  csr_bytes = small;
  table_offset = 2 * small;
  event_offset = 3 * small;
  completion_offset = large;
  tx_offset = 2 * large;
  rx_offset = 3 * large;
  scheduler_offset = 4 * large;
  scheduler_stride = large;

  const uint64_t queues_max = doorbell_page::kQueuesMax;
  check_range("CSR window bytes", small, 3 * kCsrWindowBytes, UINT32_MAX);
  check_range("event queues", config.event_queues, 1, std::min<uint64_t>(queues_max, small / 16));
  check_range("completion queues", config.completion_queues, 1, std::min<uint64_t>(queues_max, large / 16));
  check_range("TX queues", config.tx_queues, 1, std::min<uint64_t>(queues_max, large / 32));
  check_range("RX queues", config.rx_queues, 1, std::min<uint64_t>(queues_max, large / 32));
  check_range("RSS table (log2)", config.log2_rss_table, 0, 15);
  check_range("RSS tables' bytes", (uint64_t{4} << config.log2_rss_table) * config.ports_per_interface, 4, small);
}

}  // namespace mqnic::card
