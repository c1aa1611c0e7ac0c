// Counters that a program opens once and reads again and again, as perftest's -W does. In sysfs each read from the
// beginning of the file makes its text anew; here the file is written anew before such a read.
#pragma once

namespace uroce::verbs {

/// `fd` was opened in the tree (sysfs_tree.h): remembers the file when it is a counter, and brings it up to date.
void hold_counter(int fd);

}  // namespace uroce::verbs
