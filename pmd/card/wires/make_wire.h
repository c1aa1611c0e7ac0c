// Wires by their text, as a user writes it.
//
//   none                 nothing is plugged in
//   loop                 a plug that joins what the port sends to what it receives
//   shm:NAME             a cable to whoever else says shm:NAME on this machine
//   tap:IFNAME           a TAP interface of the kernel
//   pcap:IN[:OUT]        plays the file IN, records what is sent to OUT; pcap::OUT only records
//
// and what other parts have registered: the driver adds port:NAME, another DPDK port.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pmd/card/wire.h"
#include "pmd/card/wires/knobs.h"

namespace mqnic::card {

/// nullptr: `error` is one line that says what to change.
std::unique_ptr<Wire> make_wire(const std::string& text, const WireKnobs& knobs, std::string& error);

/// Adds a kind of wire, or replaces it. `argument` is what stands behind "kind:". Before threads call make_wire.
using WireFactory = std::function<std::unique_ptr<Wire>(const std::string& argument, std::string& error)>;
void register_wire_kind(const std::string& kind, WireFactory factory);

/// "none, loop, shm:NAME, ...": for messages and help texts.
std::string wire_kinds();

}  // namespace mqnic::card
