// uroce-sim: the production engine in a simulated network.
#include <cinttypes>
#include <cstdio>

#include "options.h"
#include "scene.h"

namespace uroce::simulate {
namespace {

int run(const Options& options) {
  Scene scene(options);
  if (const std::string why = scene.prepare(); !why.empty()) {
    std::fprintf(stderr, "uroce-sim: %s\n", why.c_str());
    return 2;
  }
  scene.run();
  if (const std::string why = scene.finish(); !why.empty()) {
    std::fprintf(stderr, "uroce-sim: %s\n", why.c_str());
    return 1;
  }
  if (options.hash_only) {
    std::printf("%016" PRIx64 "\n", scene.hash());
  } else {
    print_report(scene);
  }
  if (!scene.runner().memory_intact()) {
    std::fprintf(stderr, "uroce-sim: a byte was written to a wrong place\n");
    return 1;
  }
  return scene.runner().failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace uroce::simulate

int main(int argc, char** argv) {
  using namespace uroce::simulate;
  AllOptions options;
  auto command = Command::kRun;
  int code = 0;
  if (!parse_options(argc, argv, command, options, code)) return code;
  switch (command) {
    case Command::kConnect:
      return connect(options.connect);
    case Command::kRun:
      break;
  }
  return run(options.run);
}
