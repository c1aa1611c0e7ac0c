// DPDK's interface for drivers, for software ones: the only way in these folders to include these headers, of which
// distributions leave some out (scripts/dpdk-driver-headers.sh). They have to be from the release that is built
// against.
#pragma once

#include <rte_version.h>

#if __has_include(<driver_headers_version.h>)
#include <driver_headers_version.h>
static_assert(RTE_VER_YEAR == DRIVER_HEADERS_YEAR && RTE_VER_MONTH == DRIVER_HEADERS_MONTH &&
                  RTE_VER_MINOR == DRIVER_HEADERS_MINOR,
              "the driver headers are of another DPDK release: remove build-deps and configure again");
#endif

#include <bus_vdev_driver.h>
#include <dev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
