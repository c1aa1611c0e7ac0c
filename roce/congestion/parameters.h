// Settings of congestion control by name, as a command line, an environment variable or a scenario file gives them.
#pragma once

#include <string>
#include <string_view>

#include "congestion/config.h"

namespace uroce {

/// Sets one parameter by the name that it has in config.h; TIMELY's and Swift's begin with `timely_` and `swift_`.
/// Returns false, with one line in `error`, when the name is unknown or the value is out of range.
///
/// The name `profile` sets many parameters at once. Its values are `paper` (the defaults), `nic` (as NICs are shipped)
/// and `hpcc` (as in the simulations of HPCC's authors; these scale with the highest rate as it is set at that moment).
bool set_congestion_parameter(CongestionConfig& config, std::string_view name, std::string_view value,
                              std::string& error);
/// The same for an assignment "name=value".
bool set_congestion_parameter(CongestionConfig& config, std::string_view assignment, std::string& error);
/// All names, separated by blanks.
std::string congestion_parameter_names();

}  // namespace uroce
