// How a program of the tarball starts, beneath an old C library and a new one.
//
// Until glibc 2.33 the code that a program begins with handed its own function for global constructors to
// __libc_start_main. Since 2.34 it hands over none, and a library as new as that looks for the constructors itself. A
// program that was linked here and starts there would have its constructors left out. So the call is intercepted
// (-Wl,--wrap) and brings such a function, which newer libraries take as well, from old programs.
using Constructor = void (*)(int, char**, char**);

extern "C" {

// The linker's names for the table of constructors.
extern __attribute__((visibility("hidden"))) Constructor __init_array_start[];  // NOLINT: the linker's name
extern __attribute__((visibility("hidden"))) Constructor __init_array_end[];    // NOLINT: the linker's name
__attribute__((visibility("hidden"))) void _init();                             // NOLINT: the compiler's name

using Main = int (*)(int, char**, char**);
int __real___libc_start_main(Main program, int argc, char** argv, Constructor init, void (*fini)(),
                             void (*loader_fini)(), void* stack_end);

static void construct(int argc, char** argv, char** environment) {
  _init();
  for (const Constructor* each = __init_array_start; each != __init_array_end; each++) (*each)(argc, argv, environment);
}

__attribute__((visibility("hidden"))) int __wrap___libc_start_main(Main program, int argc, char** argv, Constructor,
                                                                   void (*fini)(), void (*loader_fini)(),
                                                                   void* stack_end) {
  return __real___libc_start_main(program, argc, argv, construct, fini, loader_fini, stack_end);
}

}  // extern "C"
