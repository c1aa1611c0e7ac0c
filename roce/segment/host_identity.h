// Who a program is on a segment: its host's name, MAC and addresses.
//
// Programs with the same host name are one host. Its addresses are those of the machine's own interfaces, so that the
// names and addresses that people use for the machine lead to the device; where there are none, one is leased.
#pragma once

#include <string>
#include <vector>

#include "segment/directory.h"
#include "uroce/address.h"

namespace uroce::segment {

/// The same name has the same MAC on every machine.
MacAddress mac_of_host(const std::string& host);

/// The addresses of `host`. `own`: of the machine's interfaces; those that another host of the segment has are left
/// out, and those beyond kAddressesMax; they are followed by the private address that the host's other programs took
/// before the machine had any. When nothing is left: the private address of the host's other programs, or the first of
/// 198.19.0.0/16 (RFC 2544: for tests of networks) that no host has, searched from a start that depends on the name.
/// `directory` was scanned just now.
std::vector<LocalAddress> choose_addresses(const Directory& directory, const std::string& host,
                                           const std::vector<LocalAddress>& own);

/// True when `address` is one that choose_addresses leases.
bool is_leased(const LocalAddress& address);

}  // namespace uroce::segment
