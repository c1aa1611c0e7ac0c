// One line in a driver's log.
#pragma once

#include <rte_log.h>

#define VDEV_LOG(level, driver, format, ...) \
  rte_log(RTE_LOG_##level, (driver).log_type, "%s: " format "\n", (driver).name, ##__VA_ARGS__)
