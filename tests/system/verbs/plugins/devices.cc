// A plug-in that is linked with libibverbs.
#include <infiniband/verbs.h>

extern "C" __attribute__((visibility("default"))) int count_devices() {
  int count = -1;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) return 0;
  ibv_free_device_list(list);
  return count;
}
