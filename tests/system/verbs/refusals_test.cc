// Each call that gives a descriptor, makes a name or fills a table of the kernel is refused in turn while a program
// opens the device and makes each kind of object: that is refused with the same errno, or made all the same; nothing is
// lost, and the next try succeeds.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "refused_calls.h"
#include "sweep.h"
#include "sweep_objects.h"

using namespace verbs_test;

namespace {

// About half of today's numbers of refused calls.
constexpr long kOpening[RefusedCalls::kKinds] = {50, 15, 4};
constexpr long kObjects[RefusedCalls::kKinds] = {15, 5, 4};

/// Whether at least `wanted` calls were refused: with hardly any, nothing would be tested.
bool refused_enough(const char* what, int kind, long refused, long wanted) {
  std::printf("%s: %ld calls of kind %d\n", what, refused, kind);
  if (refused < wanted) std::fprintf(stderr, "%s: fewer than %ld calls of kind %d\n", what, wanted, kind);
  return refused >= wanted;
}

/// `opening`: only opens the device. `KIND NUMBER once` or `KIND NUMBER all`: only opens, with refusals from this call
/// on.
int program(int argc, char** argv) {
  if (the_device() == nullptr) return 1;
  bool good = true;
  if (argc == 4) {
    RefusedCalls calls(static_cast<RefusedCalls::Kind>(std::atoi(argv[1])));
    const auto mode = std::strcmp(argv[3], "once") == 0 ? Trouble::kOnce : Trouble::kFromThenOn;
    Sweep(calls).open_in_a_process(std::atol(argv[2]), mode, STDOUT_FILENO);
  }
  for (int kind = 0; kind < RefusedCalls::kKinds; kind++) {
    RefusedCalls calls(static_cast<RefusedCalls::Kind>(kind));
    Sweep sweep(calls);
    sweep.of_opening(Trouble::kOnce);
    sweep.of_opening(Trouble::kFromThenOn);
    good &= sweep.good();
    good &= refused_enough("opening", kind, sweep.refused(), kOpening[kind]);
  }
  if (argc == 2 && std::strcmp(argv[1], "opening") == 0) return good ? 0 : 1;
  ibv_context* const context = ibv_open_device(the_device());
  ibv_pd* const pd = ibv_alloc_pd(context);
  for (int kind = 0; kind < RefusedCalls::kKinds; kind++) {
    RefusedCalls calls(static_cast<RefusedCalls::Kind>(kind));
    Sweep sweep(calls);
    sweep_objects(sweep, context, pd);
    good &= sweep.good();
    good &= refused_enough("objects", kind, sweep.refused(), kObjects[kind]);
  }
  return ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0 && good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return run_supervised(program, argc, argv); }
