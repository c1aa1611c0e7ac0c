// One handler for SIGSEGV and SIGBUS. Faults of guarded functions (base/guarded_memory.h) become exceptions there; all
// others are handled as they would be without this handler.
//
// A handler that ASan, a JVM, Go or the program itself has installed before is kept and called for those others, with
// the mask and on the stack that it asked for; if there is none, the process dies at the instruction and address of its
// fault. A handler that is installed later would replace this one, so the verbs shim intercepts sigaction and its
// relatives and calls `program_sigaction` instead. A DPDK application that wants this handler calls
// `install_fault_handler` after it has installed its own.
#pragma once

#include <csignal>

namespace uroce {

/// Installs the handler for the whole process; calls after the first change nothing. Also unblocks the two signals in
/// the calling thread, because a fault in a thread that blocks them ends the process without calling any handler.
void install_fault_handler();
bool fault_handler_installed();

/// True for SIGSEGV and SIGBUS once the handler is installed.
bool is_fault_signal(int signal);
/// What sigaction(2) means to the program for those two signals: sets or returns the program's own handler, which is
/// called by this one.
int program_sigaction(int signal, const struct sigaction* action, struct sigaction* old);

}  // namespace uroce
