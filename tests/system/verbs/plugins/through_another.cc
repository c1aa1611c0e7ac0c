// A plug-in that is linked with a library that is linked with libibverbs.
extern "C" int count_devices();

extern "C" __attribute__((visibility("default"))) int count_devices_through_another() { return count_devices(); }
