// Starts DPDK's EAL inside a process that was not made for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dpdk/endpoint.h"

namespace uroce {

struct EalOptions {
  std::vector<std::string> extra_args;  // from the user, appended last
  std::string pci_device;               // the only one that is allowed, with arguments after a comma; "": no PCI at all
  Hugepages hugepages = Hugepages::kAuto;
};

/// EAL is started once per process. It makes the calling thread its main lcore, so this must be called from a thread
/// that belongs to uroce; the affinity of that thread is restored. Later calls find EAL running, whose options cannot
/// be changed any more. Returns false, with one line in `error`, when EAL does not start, or when it runs and `options`
/// ask for something else.
bool start_eal(const EalOptions& options, std::string& error);

/// What an endpoint needs of a process that has no EAL: the note, and DPDK's telemetry. Later calls, and calls when EAL
/// runs, do nothing. Returns false, with one line in `error`, when that fails.
bool start_without_eal(std::string& error);

/// Where EAL keeps the files of this process (its telemetry socket): in the runtime directory, like all other files of
/// uroce.
std::string eal_directory();
/// To be called at exit: removes these files, and the note.
void remove_eal_directory();

/// Publishes the note by which `uroce stats` finds this process (endpoint_note.h). Returns false, with one line in
/// `error`, when it cannot be written.
bool publish_note(std::string& error);
void withdraw_note();
/// False when the note, or the telemetry's socket, was removed, for example with the whole runtime directory.
bool own_files_are_there();
/// Makes anew what is missing; the note is to be published then. Returns false, with one line in `error`, when that
/// fails.
bool make_own_files_again(std::string& error);
/// To be called in the child of a fork: the note belongs to the parent.
void leave_note();

}  // namespace uroce
