// Where virtual cards come from.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pmd/ethdev/arguments.h"
#include "pmd/hw/bus.h"
#include "pmd/hw/failure.h"

namespace mqnic::ethdev {

struct OpenedCard {
  std::unique_ptr<Bus> bus;
  std::vector<unsigned> wire_ends;  // of each port: 0 or 1. Keeps the addresses of the two ends apart
};

/// Makes the card of `card=KIND`. "inline" and "vfio-user" are there; others can be added before EAL probes.
using CardFactory = std::function<Failure(const Arguments&, OpenedCard&)>;
void register_card_kind(const std::string& kind, CardFactory factory);
Failure open_card(const Arguments& arguments, OpenedCard& out);

}  // namespace mqnic::ethdev
