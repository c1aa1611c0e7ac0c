// One that is linked with another library that is.
extern "C" int count_devices();

extern "C" __attribute__((visibility("default"))) int count_devices_through_another() { return count_devices(); }
