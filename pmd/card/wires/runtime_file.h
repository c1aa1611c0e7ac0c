// Files in the directory where the processes of a machine meet.
#pragma once

#include <string>

namespace mqnic::card {

/// $UROCE_RUNTIME_DIR, else /run/uroce for root, else $XDG_RUNTIME_DIR/uroce, else /tmp/uroce-<uid>; made with mode
/// 0700 when it is not there. Empty: `error` says what to change.
std::string runtime_directory(std::string& error);

/// Letters, digits and "-_.", at most 64, the first one not a dot.
bool good_file_name(const std::string& name);

/// Exclusive lock on one byte of a file. It belongs to the open file description, so that it goes away with the
/// process, however that ends, and two descriptions in one process exclude each other too. 0 or a negative errno
/// (-EAGAIN: taken).
int lock_byte(int fd, unsigned byte, bool wait);
void unlock_byte(int fd, unsigned byte);
/// Another open file description has the lock.
bool byte_is_locked(int fd, unsigned byte);

}  // namespace mqnic::card
