// Files and directories, for what std::filesystem's directory iterator and its users would do: those end the process
// when there is no memory for a name, while these throw std::bad_alloc, as everything else does.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace uroce {

/// The names in a directory, in no order; none if it cannot be read.
std::vector<std::string> names_in(const std::string& directory);

/// Writes all bytes at this offset. Returns an errno, ENOSPC for example, when not all could be written; else 0.
int write_all(int fd, std::string_view bytes, off_t at);

/// Makes the file `path` have these bytes, or leaves it as it is and returns an errno: they are written to `beside`, in
/// the same file system, which then takes the name.
int replace_file(const std::string& path, const std::string& beside, std::string_view bytes);

/// Removes the file or directory with this path, and all below it. Follows no links.
void remove_tree(const std::string& path);

}  // namespace uroce
