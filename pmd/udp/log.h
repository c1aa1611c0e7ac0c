// The driver's log, "pmd.net.udp", with one line per message.
#pragma once

#include <rte_log.h>

namespace uroce::udp {
extern int log_type;
}  // namespace uroce::udp

#define UDP_LOG(level, format, ...) \
  rte_log(RTE_LOG_##level, uroce::udp::log_type, "net_udp: " format "\n", ##__VA_ARGS__)
