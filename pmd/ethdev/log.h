// The driver's log, "pmd.net.mqnic", with one line per message.
#pragma once

#include <rte_log.h>

namespace mqnic::ethdev {
extern int log_type;
}  // namespace mqnic::ethdev

#define MQNIC_LOG(level, format, ...) \
  rte_log(RTE_LOG_##level, mqnic::ethdev::log_type, "net_mqnic: " format "\n", ##__VA_ARGS__)
