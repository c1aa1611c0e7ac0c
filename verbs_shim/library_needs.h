// What a library would load, read from its file before it is loaded.
#pragma once

namespace uroce::verbs {

/// True for libibverbs under any of its names: with a version, with the hash that a wheel adds, with or without a path.
bool is_libibverbs(const char* file);

/// Whether `file`, as dlopen would find it for a caller at this address, is linked with libibverbs, or with a library
/// that is and that is not loaded yet. False when the file is not found, or is none that can be loaded.
bool needs_libibverbs(const char* file, const void* caller) noexcept;

/// Says once that a library in a namespace of its own (dlmopen) has libibverbs without a device.
void warn_of_namespace(const char* file) noexcept;

}  // namespace uroce::verbs
