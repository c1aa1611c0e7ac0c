#include "base/slot_hints.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(SlotHints, TheLatestNumbersAreKept) {
  SlotHints hints;
  EXPECT_EQ(hints.slot(0x12345600), 0u) << "a guess that the caller has to check";
  hints.note(0x12345600, 7);
  EXPECT_EQ(hints.slot(0x12345600), 7u);
  hints.note(0x12345600, 9);
  EXPECT_EQ(hints.slot(0x12345600), 9u);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < 8; i++) hints.note(0x4711 + i * 0x100, i);
  for (uint32_t i = 0; i < 8; i++) kept += hints.slot(0x4711 + i * 0x100) == i ? 1 : 0;
  EXPECT_GE(kept, 6u) << "few numbers share a place";
}

}  // namespace
}  // namespace uroce
