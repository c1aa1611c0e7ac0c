#pragma once

#include <string>

/// Loads what `driver` ("net_af_xdp") needs beyond DPDK. False and one line in `error` when it is not installed. Only
/// there where DPDK is linked statically, hence weak: its shared drivers have their libraries with them.
__attribute__((weak)) bool uroce_load_driver_libraries(const char* driver, std::string& error);
