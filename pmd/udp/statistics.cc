#include <utility>

#include "pmd/udp/socket_port.h"

namespace uroce::udp {

vdev::Statistics SocketPort::statistics() const {
  const std::lock_guard lock(mutex_);
  const PortCounters& own = counters_;
  const OutboxCounters& tx = outbox_.counters();
  vdev::Statistics all;
  all.rx_packets = own.rx_packets;
  all.rx_bytes = own.rx_bytes;
  all.rx_missed = sockets_.dropped_by_kernel();  // nobody received them in time
  all.rx_errors = own.rx_too_long;
  all.rx_no_mbufs = own.rx_no_mbufs;
  all.tx_packets = tx.tx_packets;
  all.tx_bytes = tx.tx_bytes;
  all.tx_errors = tx.tx_too_long + tx.tx_unreachable + own.tx_no_address + own.tx_not_ours;
  const std::pair<const char*, uint64_t> named[] = {
      {"rx_messages", inbox_.messages()},    {"rx_too_long", own.rx_too_long},
      {"rx_no_mbufs", own.rx_no_mbufs},      {"rx_foreign_ids", own.rx_foreign_ids},
      {"rx_bad_icrc", own.rx_bad_icrc},      {"rx_kernel_dropped", all.rx_missed},
      {"tx_messages", tx.tx_messages},       {"tx_too_long", tx.tx_too_long},
      {"tx_unreachable", tx.tx_unreachable}, {"tx_waits", tx.tx_waits},
      {"tx_no_address", own.tx_no_address},  {"tx_not_ours", own.tx_not_ours},
      {"tx_not_roce", own.tx_not_roce},      {"neighbour_answers", own.neighbour_answers}};
  for (const auto& [name, value] : named) all.named.add(name, value);
  return all;
}

}  // namespace uroce::udp
