// The kinds of virtual cards, and how they are made.
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
  std::vector<unsigned> wire_ends;  // for each port, 0 or 1: makes the addresses of the two ends differ
};

/// A factory makes the card for `card=KIND`. "inline" and "vfio-user" exist; others can be added before EAL probes.
using CardFactory = std::function<Failure(const Arguments&, OpenedCard&)>;
void register_card_kind(const std::string& kind, CardFactory factory);
Failure open_card(const Arguments& arguments, OpenedCard& out);

}  // namespace mqnic::ethdev
