// The directory where the processes of one user on one machine meet: sockets, locked files, DPDK's own files.
#pragma once

#include <string>

namespace uroce {

/// $UROCE_RUNTIME_DIR; else /run/uroce for root, where it may be made; else $XDG_RUNTIME_DIR/uroce; else
/// /tmp/uroce-<uid>. The uid is the one outside of user namespaces: who is root of a namespace of his own (`unshare
/// -Ur`, rootless containers that share the directory) meets his programs outside. Created with mode 0700. "" and one
/// line in `error` when that cannot be, or when it belongs to somebody else.
std::string runtime_dir(std::string& error);

/// Who the caller is outside of the user namespace that it may be in, as /proc/self/uid_map tells. `map`: its text.
unsigned outer_uid(unsigned uid, const std::string& map);

}  // namespace uroce
