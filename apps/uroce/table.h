// Rows of text in columns for a terminal.
#pragma once

#include <string>
#include <vector>

namespace uroce::launcher {

/// The first row is the heading. A column whose heading ends with a blank is aligned to the left, any other to the
/// right; the blank is not shown. The last cell of a row that is shorter than the heading is a remark, which may be as
/// long as it likes. Blanks at the end of a line are left out.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace uroce::launcher
