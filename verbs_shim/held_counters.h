// Counters that a program opens once and reads again and again, as perftest's -W does. In sysfs each read from the
// beginning of the file gives the current value; here the file is rewritten before such a read.
#pragma once

namespace uroce::verbs {

/// `fd` was opened in the tree (sysfs_tree.h). If it is a counter, remembers the file and brings it up to date.
void hold_counter(int fd);
/// To be called in the child of a fork: files of the parent are not brought up to date here.
void leave_held_counters();

}  // namespace uroce::verbs
