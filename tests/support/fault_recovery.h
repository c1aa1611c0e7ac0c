// The handler of SIGSEGV and SIGBUS that tests of guarded functions need: nothing but the recovery.
#pragma once

#include <csignal>

#include "base/guarded_memory.h"

namespace uroce::test {

/// While it lives, memory faults of guarded functions are thrown; others end the test as usual.
class FaultRecovery {
 public:
  FaultRecovery() {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &segv_before_);
    sigaction(SIGBUS, &action, &bus_before_);
  }
  ~FaultRecovery() {
    sigaction(SIGSEGV, &segv_before_, nullptr);
    sigaction(SIGBUS, &bus_before_, nullptr);
  }
  FaultRecovery(const FaultRecovery&) = delete;
  FaultRecovery& operator=(const FaultRecovery&) = delete;

 private:
  static void on_fault(int signal, siginfo_t* info, void* context) {
    if (!recover_from_fault(*info, context)) std::signal(signal, SIG_DFL);
  }
  struct sigaction segv_before_ {};
  struct sigaction bus_before_ {};
};

}  // namespace uroce::test
