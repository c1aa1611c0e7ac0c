#include "uroce/table.h"

#include <gtest/gtest.h>

namespace uroce::launcher {
namespace {

TEST(Table, AlignsNumbersToTheRightAndWordsToTheLeft) {
  EXPECT_EQ(table({{"PID", "PROGRAM ", "QPS"}, {"7", "ib_write_bw", "1"}, {"12345", "rping", "1024"}}),
            "  PID  PROGRAM       QPS\n"
            "    7  ib_write_bw     1\n"
            "12345  rping        1024\n");
}

TEST(Table, LeavesOutWhatWouldBeBlankAtTheEnd) {
  EXPECT_EQ(table({{"QPN", "ERROR "}, {"1", ""}, {"2", "timeout"}}),
            "QPN  ERROR\n"
            "  1\n"
            "  2  timeout\n");
}

TEST(Table, ARemarkMakesNoColumnWider) {
  EXPECT_EQ(table({{"PID", "PORT ", "QPS"}, {"7", "does not answer"}, {"8", "memif", "3"}}),
            "PID  PORT   QPS\n"
            "  7  does not answer\n"
            "  8  memif    3\n");
}

TEST(Table, NothingIsNothing) { EXPECT_EQ(table({}), ""); }

}  // namespace
}  // namespace uroce::launcher
