// Files in the directory where the processes of a machine meet.
#pragma once

#include <string>

namespace mqnic::card {

/// $UROCE_RUNTIME_DIR, else /run/uroce for root, else /tmp/uroce-<uid>; made with mode 0700 if it does not exist.
/// Returns "" when that fails; `error` says what to change.
std::string runtime_directory(std::string& error);

/// True for a name of at most 64 letters, digits and "-_." that does not begin with a dot.
bool good_file_name(const std::string& name);

/// Takes an exclusive lock on one byte of a file. The lock belongs to the open file description: so it ends with the
/// process, however that ends, and two descriptions in one process exclude each other, too. Returns 0 or a negative
/// errno (-EAGAIN when the lock is taken).
int lock_byte(int fd, unsigned byte, bool wait);
void unlock_byte(int fd, unsigned byte);
/// True when another open file description has the lock.
bool byte_is_locked(int fd, unsigned byte);

}  // namespace mqnic::card
