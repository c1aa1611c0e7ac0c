// Letters of a process that has lost the way to the directory where members meet (chroot), and has it open still.
#pragma once

#include <sys/socket.h>

#include <string>

namespace uroce::segment {

/// Sends `message` through `fd` to the socket `name` in `directory`, an open directory, wherever this process's root
/// directory is by now. A socket can be named by a path only, and a path begins at the root or working directory that
/// all threads share: so a thread of the moment does it, which has a working directory of its own. Costs as much as a
/// thread. Returns 0 or an errno.
int send_from_inside(int directory, const std::string& name, int fd, const msghdr& message);

}  // namespace uroce::segment
