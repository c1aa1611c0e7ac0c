// The directory where the processes of one user on one machine meet: sockets, locked files, DPDK's own files.
#pragma once

#include <optional>
#include <string>

namespace uroce {

/// $UROCE_RUNTIME_DIR; else /run/uroce for root, where it may be made; else /tmp/uroce-<uid>; else
/// $XDG_RUNTIME_DIR/uroce. The last is only for a user who finds the one in /tmp taken by another user: a session has
/// that variable, a service or a cron job of the same user has not, and these have to meet. The uid is the one outside
/// of user namespaces, so that programs of a user who is root in a namespace of his own (`unshare -Ur`, rootless
/// containers that share the directory) meet his programs outside. The directory is made with mode 0700. Returns "",
/// with one line in `error`, when that fails, or when it belongs to another user, even if root asks.
std::string runtime_dir(std::string& error);

/// The uid of the caller outside of its user namespace. `map` is the text of /proc/self/uid_map.
unsigned outer_uid(unsigned uid, const std::string& map);
/// The caller's uid outside of its user namespace. Nothing, when errno says why it is not known.
std::optional<unsigned> machine_uid();

/// A text that differs between machines and between network namespaces, so that ports that meet on a bridge have
/// different MACs.
std::string place_in_the_world();
/// Likewise, for programs that meet in shared memory: the same for all that share a network namespace, whatever they
/// call the machine (each container of a pod has a hostname of its own). Differs after a reboot.
/// "", when errno says why it is not known.
std::string place_on_the_machine();

}  // namespace uroce
