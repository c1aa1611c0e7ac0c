// The driver's log, "pmd.net.shmlan", with one line per message.
#pragma once

#include <rte_log.h>

namespace uroce::shmlan {
extern int log_type;
}  // namespace uroce::shmlan

#define SHMLAN_LOG(level, format, ...) \
  rte_log(RTE_LOG_##level, uroce::shmlan::log_type, "net_shmlan: " format "\n", ##__VA_ARGS__)
