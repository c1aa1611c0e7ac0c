// Handles of objects that a device made: they can be moved but not copied, and their destructor gives them back to the
// device.
#pragma once

#include <memory>

#include "uroce/export.h"

namespace uroce {

struct AddressHandle;

namespace rdma {

struct DeviceCore;
struct ConnectionsCore;
// The library's own objects. The names are unique, so that they cannot clash with other types.
struct HeldCompletionQueue;
struct HeldSharedReceiveQueue;
struct HeldQueuePair;
struct HeldCompletionChannel;
struct HeldConnection;
struct HeldListener;

template <typename T>
struct Release {
  DeviceCore* core = nullptr;
  void operator()(T* object) const;
};

template <>
UROCE_API void Release<HeldCompletionQueue>::operator()(HeldCompletionQueue* object) const;
template <>
UROCE_API void Release<HeldSharedReceiveQueue>::operator()(HeldSharedReceiveQueue* object) const;
template <>
UROCE_API void Release<HeldQueuePair>::operator()(HeldQueuePair* object) const;
template <>
UROCE_API void Release<AddressHandle>::operator()(AddressHandle* object) const;
template <>
UROCE_API void Release<HeldCompletionChannel>::operator()(HeldCompletionChannel* object) const;
template <>
UROCE_API void Release<HeldConnection>::operator()(HeldConnection* object) const;
template <>
UROCE_API void Release<HeldListener>::operator()(HeldListener* object) const;

template <typename T>
using Handle = std::unique_ptr<T, Release<T>>;

}  // namespace rdma
}  // namespace uroce
