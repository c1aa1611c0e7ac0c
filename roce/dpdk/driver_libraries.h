#pragma once

#include <string>

/// Loads the libraries that `driver` (for example "net_af_xdp") needs beside DPDK. Returns false, with one line in
/// `error`, when one is not installed. The function exists only where DPDK is linked statically, hence it is weak:
/// DPDK's shared drivers load their libraries themselves.
__attribute__((weak)) bool uroce_load_driver_libraries(const char* driver, std::string& error);
