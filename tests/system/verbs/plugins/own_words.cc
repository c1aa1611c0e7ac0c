// A plug-in that has nothing to do with libibverbs, and a function that the program has, too.
extern "C" __attribute__((visibility("default"), noinline)) const char* whose_is_it() { return "the plug-in's"; }
extern "C" __attribute__((visibility("default"))) const char* ask_whose_it_is() { return whose_is_it(); }
