// The options of mqnic-card.
#pragma once

#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/wires/knobs.h"

namespace mqnic::card {

struct Options {
  std::string socket;
  std::vector<std::string> wires;  // one for each port, interface by interface
  WireKnobs knobs;
  CardConfig card;
};

/// False when the program ends here, with `code`; help or an error message has been printed.
bool parse_options(int argc, char** argv, Options& options, int& code);

}  // namespace mqnic::card
