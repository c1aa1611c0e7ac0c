// The options of uroced.
#pragma once

#include <string>
#include <vector>

#include "host/endpoint_config.h"

namespace uroce::daemon {

struct Options {
  EndpointConfig config;                   // with an uplink
  std::string metrics;                     // where to serve counters, "127.0.0.1:9464"; "": nowhere
  bool busy = false;                       // never sleep
  std::vector<std::string> eal_arguments;  // argv[0] too, when the application's own came behind "--"; else none
};

/// False when the program ends here, with `code`; help or one line that says what is wrong has been printed.
bool parse_options(int argc, char** argv, Options& options, int& code);

}  // namespace uroce::daemon
