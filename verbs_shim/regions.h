// What all ways to make a memory region share.
#pragma once

#include <cerrno>
#include <memory>
#include <new>

#include "objects.h"
#include "runtime.h"

namespace uroce::verbs {

/// Makes the structure of a region in `pd`. `register_in(engine, mr)` fills in the rest of it, and returns the region's
/// key; 0 means that the engine's table is full. Null, with errno, when there is no room.
template <typename Register>
ibv_mr* add_region(ibv_pd* pd, Mr::Of of, size_t length, Register&& register_in) try {
  if (!is_found(*pd)) {
    errno = ENOENT;
    return nullptr;
  }
  auto mr = std::make_unique<Mr>();
  auto core = std::make_shared<MrCore>();
  core->length = length;
  NewHandle handle(next_handle(), ours(pd->context).file, core);
  {
    EngineLock lock(endpoint());
    core->key = register_in(lock.engine(), *mr);
  }
  if (core->key == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  mr->context = pd->context;
  mr->pd = pd;
  mr->length = length;
  identify(*mr, *mr, handle.made());
  core->rkey = of != Mr::Of::kNothing ? core->key : 0;
  mr->lkey = core->key;
  mr->rkey = core->rkey;
  mr->of = of;
  mr->core = core;
  count_object(pd, 1);
  return mr.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace uroce::verbs
