// Hosts of plug-ins load them with RTLD_DEEPBIND, so that a plug-in's libraries are not replaced by those of the host.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

extern "C" __attribute__((visibility("default"))) const char* whose_is_it() { return "the program's"; }

namespace {

std::string plugins;  // the directory

template <typename R>
R call(const std::string& file, const char* function, int mode) {
  void* const plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | mode);
  if (plugin == nullptr) {
    ADD_FAILURE() << dlerror();
    return {};
  }
  return reinterpret_cast<R (*)()>(dlsym(plugin, function))();
}

TEST(DeepbindTest, APluginHasTheDevice) {
  EXPECT_EQ(call<int>(plugins + "/libdevices_plugin.so", "count_devices", RTLD_DEEPBIND), 1);
}

TEST(DeepbindTest, AlsoThroughAnotherLibrary) {
  EXPECT_EQ(call<int>(plugins + "/libthrough_another_plugin.so", "count_devices_through_another", RTLD_DEEPBIND), 1);
}

// It is found in LD_LIBRARY_PATH.
TEST(DeepbindTest, AlsoByItsNameAlone) {
  EXPECT_EQ(call<int>("libdevices_plugin.so", "count_devices", RTLD_DEEPBIND), 1);
}

TEST(DeepbindTest, OthersKeepTheirOwn) {
  const std::string file = plugins + "/libown_words_plugin.so";
  EXPECT_STREQ(call<const char*>(file, "ask_whose_it_is", RTLD_DEEPBIND), "the plug-in's");
}

TEST(DeepbindTest, WhatIsNoLibraryIsRefusedAsEver) {
  for (const char* file : {"/dev/null", "/etc/passwd", "/", "no-such-library.so", ""}) {
    dlopen(file, RTLD_NOW | RTLD_DEEPBIND);
  }
  EXPECT_EQ(dlopen("/etc/passwd", RTLD_NOW | RTLD_DEEPBIND), nullptr);
  EXPECT_NE(std::string(dlerror()).find("/etc/passwd"), std::string::npos);
}

void load_into_a_namespace() {
  void* const plugin = dlmopen(LM_ID_NEWLM, (plugins + "/libdevices_plugin.so").c_str(), RTLD_NOW);
  std::exit(plugin != nullptr ? 3 : 4);
}

TEST(DeepbindTest, ANamespaceOfItsOwnIsSaid) {
  EXPECT_EXIT(load_into_a_namespace(), testing::ExitedWithCode(3),
              "dlmopen: .*libdevices_plugin.so is linked with libibverbs, and finds no device");
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  plugins = argv[1];
  return RUN_ALL_TESTS();
}
