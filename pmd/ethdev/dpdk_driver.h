// DPDK's interface for drivers: the only way in this folder to include these headers.
//
// They are not part of a distribution's development package and come from the matching source package
// (scripts/dpdk-driver-headers.sh). So it is checked here that they are from the release that is built against. A DPDK
// that was built with enable_driver_sdk installs them itself.
#pragma once

#include <rte_version.h>

#if __has_include(<driver_headers_version.h>)
#include <driver_headers_version.h>
static_assert(RTE_VER_YEAR == DRIVER_HEADERS_YEAR && RTE_VER_MONTH == DRIVER_HEADERS_MONTH &&
                  RTE_VER_MINOR == DRIVER_HEADERS_MINOR,
              "the driver headers are of another DPDK release: remove build-deps and configure again");
#endif

#include <bus_pci_driver.h>
#include <bus_vdev_driver.h>
#include <dev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_pci.h>
#include <ethdev_vdev.h>
