// The directory where the processes of one user on one machine meet: sockets, locked files, DPDK's own files.
#pragma once

#include <optional>
#include <string>

namespace uroce {

/// $UROCE_RUNTIME_DIR; else /run/uroce for root, where it may be made; else /tmp/uroce-<uid>; else
/// $XDG_RUNTIME_DIR/uroce. The last is for who finds another user's directory in /tmp: a session has that variable, a
/// service or a job of cron of the same user has not, and they shall meet. The uid is the one outside of user
/// namespaces, so that programs of a user who is root in a namespace of his own (`unshare -Ur`, rootless containers
/// that share the directory) meet his programs outside. The directory is created with mode 0700. Returns "", with one
/// line in `error`, when that fails or the directory belongs to another user, whoever asks.
std::string runtime_dir(std::string& error);

/// The uid of the caller outside of its user namespace. `map` is the text of /proc/self/uid_map.
unsigned outer_uid(unsigned uid, const std::string& map);
/// The caller's, outside of its user namespace. Nothing, when errno says why it is not known.
std::optional<unsigned> machine_uid();

/// A text that differs between machines and between network namespaces, so that ports that meet on a bridge have
/// different MACs.
std::string place_in_the_world();
/// Likewise, for programs that meet in shared memory: the same for all that share a network namespace, whatever they
/// call the machine (containers of one pod have a hostname each). Differs after a reboot.
/// "", when errno says why it is not known.
std::string place_on_the_machine();

}  // namespace uroce
