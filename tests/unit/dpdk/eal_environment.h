// EAL can be started once in a process. The tests of a program that has it share it.
#pragma once

#include <gtest/gtest.h>
#include <rte_lcore.h>

#include <optional>
#include <string>

#include "dpdk/eal.h"
#include "temporary_directory.h"

namespace uroce {

class EalEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    dir_.emplace();
    EalOptions eal;
    eal.hugepages = Hugepages::kNo;
    std::string error;
    ASSERT_TRUE(start_eal(eal, error)) << error;
    RTE_PER_LCORE(_lcore_id) = rte_get_main_lcore();
  }
  void TearDown() override {
    remove_eal_directory();
    dir_.reset();
  }

 private:
  std::optional<TemporaryRuntimeDir> dir_;
};

/// One for the program, whichever of its files is initialised first.
inline testing::Environment* const kEal = testing::AddGlobalTestEnvironment(new EalEnvironment);

}  // namespace uroce
