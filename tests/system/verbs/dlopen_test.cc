// A program that loads libibverbs by itself, as NCCL does.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace {

void use(void* library) {
  ASSERT_NE(library, nullptr) << dlerror();
  const auto get_list =
      reinterpret_cast<decltype(&ibv_get_device_list)>(dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1"));
  const auto free_list =
      reinterpret_cast<decltype(&ibv_free_device_list)>(dlvsym(library, "ibv_free_device_list", "IBVERBS_1.1"));
  const auto name =
      reinterpret_cast<decltype(&ibv_get_device_name)>(dlvsym(library, "ibv_get_device_name", "IBVERBS_1.1"));
  ASSERT_NE(get_list, nullptr);
  ASSERT_NE(free_list, nullptr);
  ASSERT_NE(name, nullptr);
  EXPECT_NE(dlvsym(library, "ibv_reg_mr_iova2", "IBVERBS_1.8"), nullptr);
  int count = 0;
  ibv_device** list = get_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(name(list[0]), "uroce0");
  free_list(list);
  dlclose(library);
}

TEST(DlopenTest, EveryNameOfTheLibrary) {
  use(dlopen("libibverbs.so", RTLD_NOW));
  use(dlopen("libibverbs.so.1", RTLD_NOW));
  use(dlopen("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", RTLD_LAZY));
  use(dlopen("libibverbs-1a2b3c4d.so.1.14.44.0", RTLD_NOW));
  use(dlmopen(LM_ID_BASE, "libibverbs.so.1", RTLD_NOW));
}

TEST(DlopenTest, OtherLibrariesAreLoadedAsEver) {
  EXPECT_NE(dlopen(nullptr, RTLD_NOW), nullptr);
  void* math = dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(math, nullptr);
  EXPECT_NE(dlsym(math, "cos"), nullptr);
  EXPECT_EQ(dlopen("libibverbs_is_not_in_here.so", RTLD_NOW), nullptr);
  EXPECT_EQ(dlopen("no/such/library.so", RTLD_NOW), nullptr);
  EXPECT_NE(dlerror(), nullptr);
}

}  // namespace
