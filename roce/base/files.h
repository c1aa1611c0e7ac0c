// Files; and directories, as std::filesystem has them, but for its iterator and what uses it, which end the process
// where there is no memory for a name: these throw std::bad_alloc, as everything else does.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace uroce {

/// The names in a directory, in no order. None, if it cannot be read.
std::vector<std::string> names_in(const std::string& directory);

/// Writes all of it at this place. Returns an errno, ENOSPC for example, when only a part was written, or nothing.
int write_all(int fd, std::string_view bytes, off_t at);

/// Removes what has this path, and all that is below. Follows no links.
void remove_tree(const std::string& path);

}  // namespace uroce
