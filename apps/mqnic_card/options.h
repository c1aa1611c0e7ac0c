// What the user of mqnic-card asked for.
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

/// False: the program ends here, with `code`; what there was to say has been printed.
bool parse_options(int argc, char** argv, Options& options, int& code);

}  // namespace mqnic::card
