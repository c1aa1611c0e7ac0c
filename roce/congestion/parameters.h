// Settings of congestion control by name: what a command line, an environment variable or a scenario's file says.
#pragma once

#include <string>
#include <string_view>

#include "congestion/config.h"

namespace uroce {

/// "none", "dcqcn", "timely", "swift". False: none of them, and nothing was changed.
bool parse_congestion_algorithm(std::string_view text, CongestionAlgorithm& algorithm);
const char* congestion_algorithm_name(CongestionAlgorithm algorithm);

/// Sets one parameter by the name that it has in config.h; TIMELY's and Swift's begin with `timely_` and `swift_`.
/// False and one clear line in `error` when the name is unknown or the value is out of range.
///
/// `profile` sets many at once: `paper` (the defaults), `nic` (as NICs are shipped), `hpcc` (as in the simulations of
/// HPCC's authors; scales with the highest rate as it is set at that moment).
bool set_congestion_parameter(CongestionConfig& config, std::string_view name, std::string_view value,
                              std::string& error);
/// "name=value".
bool set_congestion_parameter(CongestionConfig& config, std::string_view assignment, std::string& error);
/// All names, separated by blanks.
std::string congestion_parameter_names();

}  // namespace uroce
