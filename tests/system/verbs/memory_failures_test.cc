// Each request for memory fails in turn while a program opens the device, creates, and registers: what it asked for is
// refused with ENOMEM, or made all the same; nothing is lost, and the next try succeeds.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "failing_memory.h"
#include "sweep.h"
#include "sweep_cm.h"
#include "sweep_objects.h"

using namespace verbs_test;

// Failed allocations: about half of today's number. With hardly any, nothing would be tested.
constexpr long kFewest = 400;

/// `short`: without the parts that take a process for each allocation. `NUMBER once` or `NUMBER all`: only opens, with
/// failures from this allocation on.
int main(int argc, char** argv) {
  FailingMemory memory;
  Sweep sweep(memory);
  if (the_device() == nullptr) return 1;
  if (argc == 3) {
    const bool once = std::strcmp(argv[2], "once") == 0;
    sweep.open_in_a_process(std::atol(argv[1]), once ? Trouble::kOnce : Trouble::kFromThenOn, STDOUT_FILENO);
  }
  if (argc == 1) sweep.of_opening(Trouble::kOnce);
  sweep.of_opening(Trouble::kFromThenOn);
  ibv_context* const context = ibv_open_device(the_device());
  ibv_pd* const pd = ibv_alloc_pd(context);
  sweep_objects(sweep, context, pd);
  sweep_cm(sweep, memory);
  if (ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0) sweep.complain("the rest", 0, {}, "busy");
  std::printf("%ld requests failed\n", sweep.refused());
  if (sweep.refused() < kFewest) std::fprintf(stderr, "fewer than %ld requests failed\n", kFewest);
  return sweep.good() && sweep.refused() >= kFewest ? 0 : 1;
}
