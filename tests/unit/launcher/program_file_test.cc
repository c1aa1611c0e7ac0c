#include "uroce/program_file.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce::launcher {
namespace {

constexpr const char* kShim = "/lib/shim.so";

ProgramFile dynamic_program(std::vector<std::string> needed = {"libc.so.6"}) {
  ProgramFile program;
  program.elf = program.dynamic = true;
  program.needed = std::move(needed);
  return program;
}

TEST(ProgramFile, ThisProgramIsDynamicAndNamesItsLibraries) {
  const ProgramFile self = read_program("/proc/self/exe");
  EXPECT_TRUE(self.elf && self.dynamic);
  EXPECT_NE(std::find(self.needed.begin(), self.needed.end(), "libc.so.6"), self.needed.end());
  EXPECT_FALSE(self.changes_user || self.carries_capabilities);
  EXPECT_EQ(preload_obstacle("x", self, false), "");
}

TEST(ProgramFile, WhatIsNoElfFileIsNoObstacle) {
  EXPECT_FALSE(read_program("/proc/self/maps").elf);
  EXPECT_FALSE(read_program("/nowhere").elf);
  EXPECT_EQ(preload_obstacle("script", read_program("/nowhere"), false), "");
}

TEST(ProgramFile, AnotherUserIsAnObstacleForEverybodyAndCapabilitiesAreForUsersOnly) {
  ProgramFile program = dynamic_program();
  program.changes_user = true;
  EXPECT_NE(preload_obstacle("p", program, false).find("set-uid"), std::string::npos);
  EXPECT_NE(preload_obstacle("p", program, true).find("set-uid"), std::string::npos);
  program = dynamic_program();
  program.carries_capabilities = true;
  EXPECT_NE(preload_obstacle("p", program, false).find("capabilities"), std::string::npos);
  EXPECT_EQ(preload_obstacle("p", program, true), "");
}

TEST(ProgramFile, AStaticProgramIsAnObstacleForEverybody) {
  ProgramFile program;
  program.elf = true;
  EXPECT_NE(preload_obstacle("p", program, false).find("linked statically"), std::string::npos);
  EXPECT_NE(preload_obstacle("p", program, true).find("linked statically"), std::string::npos);
}

TEST(ProgramFile, ProgramsThatCleanTheEnvironmentAreSpokenOf) {
  for (const char* name : {"sudo", "/usr/bin/sudo", "doas", "pkexec"}) EXPECT_NE(cleaner_advice(name), "") << name;
  for (const char* name : {"env", "/opt/sudoku", "bash"}) EXPECT_EQ(cleaner_advice(name), "") << name;
}

TEST(ProgramFile, TheShimComesBeforeOtherLibraries) {
  EXPECT_EQ(preload_value(kShim, "", dynamic_program()), "/lib/shim.so");
  EXPECT_EQ(preload_value(kShim, "liba.so:libb.so", dynamic_program()), "/lib/shim.so:liba.so:libb.so");
  EXPECT_EQ(preload_value(kShim, "liba.so:/lib/shim.so", dynamic_program()), "/lib/shim.so:liba.so") << "once";
}

TEST(ProgramFile, ASanitizersRuntimeComesFirst) {
  EXPECT_EQ(preload_value(kShim, "", dynamic_program({"libasan.so.8", "libc.so.6"})), "libasan.so.8:/lib/shim.so");
  EXPECT_EQ(preload_value(kShim, "/x/libtsan.so.2:liba.so", dynamic_program()), "/x/libtsan.so.2:/lib/shim.so:liba.so");
  EXPECT_EQ(preload_value(kShim, "/x/libasan.so.8", dynamic_program({"libasan.so.8"})), "/x/libasan.so.8:/lib/shim.so")
      << "the one that the user chose, once";
}

}  // namespace
}  // namespace uroce::launcher
