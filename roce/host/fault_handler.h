// One handler for SIGSEGV and SIGBUS: faults of guarded functions (base/guarded_memory.h) become errors there, all
// others go where they would go without us.
//
// Who else handles these signals, ASan, a JVM, Go, the program itself, keeps its place behind ours: its handler runs
// with the mask and on the stack that it asked for, and without any, the process dies at the instruction and address
// of its fault. Whoever installs a handler later would replace ours; the verbs shim stands in front of sigaction and
// its relatives and calls `program_sigaction` instead. A DPDK application that wants the handler calls
// `install_fault_handler` after it has installed its own.
#pragma once

#include <csignal>

namespace uroce {

/// For the whole process; calls after the first change nothing. The two signals are unblocked in the calling thread: a
/// fault in a thread that blocks them ends the process, whatever the handler would do.
void install_fault_handler();
bool fault_handler_installed();

/// SIGSEGV and SIGBUS, once our handler is there.
bool is_fault_signal(int signal);
/// sigaction(2) as the program means it, for those two: installs or asks for the handler behind ours.
int program_sigaction(int signal, const struct sigaction* action, struct sigaction* old);

}  // namespace uroce
