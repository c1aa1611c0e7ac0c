// Starting DPDK inside a process that was not made for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dpdk/endpoint.h"

namespace uroce {

struct EalOptions {
  std::vector<std::string> extra_args;  // the user's, last
  std::string pci_device;               // allow this one, arguments behind a comma; "": no PCI at all
  Hugepages hugepages = Hugepages::kAuto;
};

/// Once per process: EAL makes the calling thread its main lcore, so call it from a thread that is ours; its affinity
/// is restored. Later calls find EAL running, which cannot be changed any more. False and one clear line in `error`
/// when it does not start, or when it runs and `options` ask for something else.
bool start_eal(const EalOptions& options, std::string& error);

/// Where EAL keeps the files of this process (its telemetry socket): in the runtime directory, as all that we make.
std::string eal_directory();
/// At exit: this process's files, and its note.
void remove_eal_directory();

/// What `uroce stats` finds this process by (endpoint_note.h). False and one line in `error` when it cannot be written.
bool publish_note(std::string& error);
void withdraw_note();
/// In the child of a fork.
void leave_note();

}  // namespace uroce
