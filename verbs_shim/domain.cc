// Protection domains, and what extends them: thread domains, and parent domains with the program's own allocator.
//
// A parent domain is a protection domain under another name: the same objects may be used together. What it adds:
// completion queues of a parent domain with a thread domain take no lock of their own, and the work queues of what is
// made in a parent domain with an allocator lie in memory of that allocator. All else (the objects themselves,
// completion queues, tables) is ours.
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "engine/object_tables.h"
#include "later_abi.h"
#include "operations.h"
#include "runtime.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

constexpr size_t kQueueAlignment = 64;

/// Returns 0 or errno.
int check_parent_domain(ibv_context* context, const ibv_parent_domain_init_attr& attr) {
  constexpr uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kDomainAllowsUnprotected;
  if (attr.pd == nullptr || (attr.comp_mask & ~kKnown) != 0) return EINVAL;
  const bool allocates = (attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocates && (attr.alloc == nullptr || attr.free == nullptr)) return EINVAL;
  const uint64_t file = ours(context).file;
  if (ours(attr.pd->context).file != file) return EINVAL;
  if (attr.td != nullptr && ours(attr.td->context).file != file) return EINVAL;
  return 0;
}

int dealloc_parent_domain(Pd& pd) {
  if (pd.users != 0) return with_errno(EBUSY);
  if (pd.thread_domain != nullptr) pd.thread_domain->users--;
  pd.extended->users--;
  pd.core->parent_domains--;
  count_object(pd.context, -1);
  delete &pd;
  return 0;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  auto pd = std::make_unique<Pd>();
  pd->core = std::make_shared<PdCore>();
  NewHandle handle(next_handle(), ours(context).file, pd->core);
  {
    EngineLock lock(endpoint());
    pd->id = pd->core->id = lock->objects().allocate_pd();
  }
  if (pd->id == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  pd->context = context;
  identify(*pd, *pd, handle.made());
  count_object(context, 1);
  return pd.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT int ibv_dealloc_pd(ibv_pd* base) {
  if (is_the_parents(base->context)) return 0;
  if (!is_found(*base)) return with_errno(ENOENT);
  Pd& pd = ours(base);
  if (pd.is_parent) return dealloc_parent_domain(pd);
  if (Handles<PdCore>::get().find(pd.handle, ours(pd.context).file) == nullptr) return with_errno(ENOENT);
  if (pd.core->parent_domains != 0) return with_errno(EBUSY);
  {
    EngineLock lock(endpoint());
    if (!lock->objects().deallocate_pd(pd.id)) return with_errno(EBUSY);
  }
  Handles<PdCore>::get().remove(pd.handle);
  count_object(pd.context, -1);
  delete &pd;
  return 0;
}

namespace uroce::verbs {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  if (attr->comp_mask != 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto td = std::make_unique<ThreadDomain>();
  td->context = context;
  count_object(context, 1);
  return td.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

int dealloc_td(ibv_td* td) {
  if (is_the_parents(td->context)) return 0;
  if (ours(td).users != 0) return with_errno(EBUSY);
  count_object(td->context, -1);
  delete &ours(td);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) try {
  if (is_the_parents(context)) {
    refuse_to_child();
    return nullptr;
  }
  if (const int error = check_parent_domain(context, *attr); error != 0) {
    errno = error;
    return nullptr;
  }
  auto pd = std::make_unique<Pd>();
  Pd& extended = ours(attr->pd);
  pd->context = context;
  identify(*pd, *pd, extended.handle);
  pd->id = extended.id;
  pd->core = extended.core;
  pd->is_parent = true;
  pd->extended = &extended;
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    pd->alloc = attr->alloc;
    pd->free = attr->free;
  }
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) pd->alloc_context = attr->pd_context;
  if (attr->td != nullptr) {
    pd->thread_domain = &ours(attr->td);
    pd->thread_domain->users++;
  }
  extended.users++;
  pd->core->parent_domains++;
  count_object(context, 1);
  return pd.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

DomainMemory::~DomainMemory() {
  if (memory_ != nullptr) pd_->free(pd_, pd_->alloc_context, memory_, resource_);
}

void DomainMemory::swap(DomainMemory& other) {
  std::swap(pd_, other.pd_);
  std::swap(memory_, other.memory_);
  std::swap(resource_, other.resource_);
}

bool DomainMemory::take(Pd& pd, size_t bytes, Resource resource) {
  if (pd.alloc == nullptr || bytes == 0) return true;
  void* memory = pd.alloc(&pd, pd.alloc_context, bytes, kQueueAlignment, resource);
  if (memory == IBV_ALLOCATOR_USE_DEFAULT) return true;
  if (memory == nullptr) return false;
  pd_ = &pd;
  memory_ = memory;
  resource_ = resource;
  return true;
}

}  // namespace uroce::verbs
