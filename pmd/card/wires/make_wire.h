// Makes wires from text, as a user writes it.
//
//   none                 nothing is plugged in
//   loop                 a plug that joins what the port sends to what it receives
//   shm:NAME             a cable to another process on this machine that uses shm:NAME
//   tap:IFNAME           a TAP interface of the kernel
//   pcap:IN[:OUT]        plays the file IN, records what is sent to OUT; pcap::OUT only records
//
// Other parts can register further kinds: the driver adds port:NAME, another DPDK port.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pmd/card/wire.h"
#include "pmd/card/wires/knobs.h"

namespace mqnic::card {

/// Returns nullptr, with one line in `error` that says what to change, when that fails.
std::unique_ptr<Wire> make_wire(const std::string& text, const WireKnobs& knobs, std::string& error);

/// Adds a kind of wire, or replaces it. The factory's `argument` is what comes after "kind:". To be called before any
/// thread calls make_wire.
using WireFactory = std::function<std::unique_ptr<Wire>(const std::string& argument, std::string& error)>;
void register_wire_kind(const std::string& kind, WireFactory factory);

/// "none, loop, shm:NAME, ...": for messages and help texts.
std::string wire_kinds();

}  // namespace mqnic::card
