#include "table.h"

#include <algorithm>

namespace uroce::launcher {
namespace {

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::vector<size_t> width(rows.front().size(), 0);
  for (const auto& row : rows) {
    const size_t cells = row.size() < width.size() ? row.size() - 1 : width.size();
    for (size_t i = 0; i < cells; i++) width[i] = std::max(width[i], trimmed(row[i]).size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size() && i < width.size(); i++) {
      const std::string cell = trimmed(row[i]);
      const std::string blanks(width[i] - std::min(width[i], cell.size()), ' ');
      const bool left = rows.front()[i].ends_with(' ');
      line += (i == 0 ? "" : "  ") + (left ? cell + blanks : blanks + cell);
    }
    text += trimmed(line) + '\n';
  }
  return text;
}

}  // namespace uroce::launcher
