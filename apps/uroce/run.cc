#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "commands.h"
#include "program_file.h"
#include "settings.h"

namespace uroce::launcher {

int run(Settings& settings, std::vector<std::string> words) {
  if (words.empty()) return fail("no program given: uroce run [OPTIONS] -- PROGRAM ARGS...");
  std::string error;
  if (!settings.apply(error)) return fail(error);
  const std::string shim = find_shim();
  if (shim.empty() && access("/proc/self/exe", F_OK) != 0) return fail("there is no /proc: mount -t proc proc /proc");
  if (shim.empty()) return fail(std::string(UROCE_SHIM_NAME) + " is missing: build it, ninja -C build");
  const std::string preloaded = preloadable(shim, error);
  if (preloaded.empty()) return fail(error);
  const std::string program = find_program(words[0]);
  const ProgramFile file = read_program(program);
  if (const std::string why = preload_obstacle(program, file, geteuid() == 0); !why.empty()) return fail(why);
  if (const std::string advice = cleaner_advice(words[0]); !advice.empty()) {
    std::fprintf(stderr, "uroce: %s\n", advice.c_str());
  }
  const char* before = std::getenv("LD_PRELOAD");
  setenv("LD_PRELOAD", preload_value(preloaded, before != nullptr ? before : "", file).c_str(), 1);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int code = errno == ENOENT ? kNotFound : kCannotExecute;
  std::fprintf(stderr, "uroce: cannot run %s: %s%s\n", argv[0], std::strerror(errno),
               errno == ENOENT ? "; `uroce doctor` says what is installed" : "");
  return code;
}

void add_run(CLI::App& app, const std::vector<std::string>& program, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "run a program over uroce: uroce run [OPTIONS] -- PROGRAM ARGS...");
  auto settings = std::make_shared<Settings>();
  settings->add_options(*command);
  command->prefix_command();  // "--" may be left out
  command->allow_extras();
  command->callback([command, settings, program, &exit_code] {
    std::vector<std::string> words = command->remaining();
    if (!words.empty() && (words[0][0] == '-' || !program.empty())) {
      exit_code = fail("run: unexpected '" + words[0] + "'; `uroce run --help` lists the options");
      return;
    }
    exit_code = run(*settings, words.empty() ? program : words);
  });
}

}  // namespace uroce::launcher
