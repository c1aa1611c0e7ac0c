// Opens the first device and says its name: for a build with a sanitizer, and for one that is linked statically.
#include <cstdio>

#ifdef WITHOUT_VERBS
int main() { std::puts("nothing was preloaded"); }
#else
#include <infiniband/verbs.h>

int main() {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = list != nullptr && list[0] != nullptr ? ibv_open_device(list[0]) : nullptr;
  if (context == nullptr) return 1;
  std::printf("opened %s\n", ibv_get_device_name(list[0]));
  ibv_close_device(context);
  ibv_free_device_list(list);
}
#endif
