// Functions that a C library may be too old to have (glibc 2.31 has none of these). A shim that was linked for old
// libraries wraps them all the same: its own parts call them, and a program may ask for them by name.
#pragma once

namespace uroce::verbs {

/// A definition of `name` by the kernel's call, or null: there is none for other names.
void* call_of_newer_libraries(const char* name);

}  // namespace uroce::verbs
