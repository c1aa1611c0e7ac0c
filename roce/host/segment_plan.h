// Where the members of a segment meet, and which host of it a program belongs to.
//
// A user's programs meet in a directory of that user. Users who are to share a device meet in kSharedSegments, which
// only root can make; programs look there first, so that they find the uplink of their machine by themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/endpoint_config.h"
#include "host/port_plan.h"
#include "segment/directory.h"

namespace uroce {

/// Where `uroced --group` has its segments. Programs with UROCE_RUNTIME_DIR do not look there.
inline constexpr const char* kSharedSegments = "/run/uroced";

/// The addresses of all interfaces that are up, IPv4 before IPv6, without link-local ones. `netdev_name` becomes the
/// first interface that has any, which is the one that the device is shown to belong to; it stays as it is if there is
/// none. Nothing, when errno says why the kernel could not be asked.
std::optional<std::vector<LocalAddress>> addresses_of_machine(std::string& netdev_name);

/// What the host of the machine's programs is called: short, and the same for all of this user in this network
/// namespace, but those that were given addresses (`config`) which the machine does not have. "", when errno says why
/// it is not known.
std::string host_of_machine(const EndpointConfig& config);

/// Whether a program of `host` finds a living uplink in the directory, as it was last scanned.
bool has_way_out(const segment::Directory& directory, const EndpointConfig& config, const std::string& host);

/// Members of a segment do without DPDK's EAL, so settings for it would change nothing. Returns false, with one line in
/// `error`, when there are any. `port`: as the user knows it.
bool does_without_eal(const EndpointConfig& config, const char* port, std::string& error);

/// Fills in what concerns the segment: directory, host, MAC, addresses, MTU.
/// A program belongs to the host of the segment's uplink, if there is one, unless it asks for another host or for
/// addresses that the uplink does not have.
/// Returns false, with one line in `error`, when that fails.
bool plan_segment(const EndpointConfig& config, PortPlan& plan, std::string& error);

/// Where the members of segment `name` ("": the one without a name) meet: below `place`, or, if that is "", where this
/// user's programs find it. Nothing is made but the runtime directory. Returns "", with one line in `error`, when that
/// fails.
std::string find_segment_directory(const std::string& name, const std::string& place, std::string& error);

/// Where the members of segment `name` meet, for the process that will be its uplink: makes the directory, for users
/// of `group` if that is not "". Returns "", with one line in `error`, when that fails.
std::string make_segment_directory(const std::string& name, const std::string& group, std::string& error);

}  // namespace uroce
