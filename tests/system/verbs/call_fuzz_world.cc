#include <algorithm>
#include <cstdio>
#include <cstring>

#include "call_fuzz.h"

namespace call_fuzz {

void Judge::problem(const char* call, const char* what, int value) {
  problems_++;
  std::printf("call %llu, %s: %s (%d, %s)\n", static_cast<unsigned long long>(calls_), call, what, value,
              std::strerror(value));
}

void Judge::sane(const char* call, int error) {
  constexpr int kSane[] = {EINVAL, EBUSY, ENOMEM, EOPNOTSUPP, ENOENT, EFAULT, EPERM, ENETUNREACH, ETIMEDOUT, ENODATA};
  if (std::find(std::begin(kSane), std::end(kSane), error) == std::end(kSane)) {
    problem(call, "an errno that says nothing", error);
  }
}

int Judge::number(const char* call, int result) {
  count(call, result == 0);
  if (result == 0) return 0;
  sane(call, result);
  if (errno != result) problem(call, "errno is not what was returned", errno);
  return result;
}

void Judge::sum_up() {
  for (const auto& [call, outcomes] : outcomes_) {
    std::printf("%-28s %8llu good %8llu bad\n", call.c_str(), static_cast<unsigned long long>(outcomes.good),
                static_cast<unsigned long long>(outcomes.bad));
    if (outcomes.good == 0) problem(call.c_str(), "never succeeded", 0);
  }
}

Object* World::any(Kind kind) {
  if (random_.one_in(50)) return nullptr;
  Object* found = nullptr;
  uint64_t seen = 0;
  for (const auto& object : objects_) {
    if (object->kind == kind && random_.one_in(++seen)) found = object.get();
  }
  return found;
}

void World::add(Kind kind, void* handle, std::vector<Object*> uses) {
  if (handle == nullptr) return;
  std::erase(uses, nullptr);
  for (Object* used : uses) used->users++;
  auto object = std::make_unique<Object>();
  object->kind = kind;
  object->handle = handle;
  object->uses = std::move(uses);
  objects_.push_back(std::move(object));
}

void World::make_cq() {
  Object* channel = random_.one_in(2) ? any(Kind::kChannel) : nullptr;
  auto* comp_channel = channel != nullptr ? static_cast<ibv_comp_channel*>(channel->handle) : nullptr;
  Judge::begin();
  if (random_.one_in(2)) {
    const int cqe = static_cast<int>(random_.below(300)) - 5;
    add(Kind::kCq, judge_.pointer("ibv_create_cq", ibv_create_cq(context_, cqe, this, comp_channel, 0)), {channel});
    return;
  }
  Object* parent = any(Kind::kParent);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = static_cast<uint32_t>(random_.below(300));
  attr.channel = comp_channel;
  attr.wc_flags = random_.one_in(10) ? random_.bits() : random_.bits() & IBV_WC_STANDARD_FLAGS;
  attr.comp_mask = parent != nullptr ? IBV_CQ_INIT_ATTR_MASK_PD : 0;
  if (random_.one_in(20)) attr.comp_mask = static_cast<uint32_t>(random_.below(8));
  attr.parent_domain = parent != nullptr ? static_cast<ibv_pd*>(parent->handle) : nullptr;
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) == 0) parent = nullptr;
  add(Kind::kCq, judge_.pointer("ibv_create_cq_ex", ibv_create_cq_ex(context_, &attr)), {channel, parent});
}

void World::make_srq() {
  Object* domain = any_domain();
  if (domain == nullptr) return;
  ibv_srq_init_attr attr{};
  attr.attr = {static_cast<uint32_t>(random_.below(64)), static_cast<uint32_t>(random_.below(6)), 0};
  if (random_.one_in(20)) attr.attr.max_wr = static_cast<uint32_t>(random_.bits());
  Judge::begin();
  add(Kind::kSrq, judge_.pointer("ibv_create_srq", ibv_create_srq(static_cast<ibv_pd*>(domain->handle), &attr)),
      {domain});
}

void World::make_qp() {
  constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET};
  Object* domain = any_domain();
  Object* send_cq = any(Kind::kCq);
  Object* recv_cq = any(Kind::kCq);
  Object* srq = random_.one_in(4) ? any(Kind::kSrq) : nullptr;
  if (domain == nullptr) return;
  ibv_qp_init_attr_ex attr{};
  attr.pd = static_cast<ibv_pd*>(domain->handle);
  attr.send_cq = send_cq != nullptr ? static_cast<ibv_cq*>(send_cq->handle) : nullptr;
  attr.recv_cq = recv_cq != nullptr ? static_cast<ibv_cq*>(recv_cq->handle) : nullptr;
  attr.srq = srq != nullptr ? static_cast<ibv_srq*>(srq->handle) : nullptr;
  attr.cap = {static_cast<uint32_t>(random_.below(20)), static_cast<uint32_t>(random_.below(20)),
              static_cast<uint32_t>(1 + random_.below(4)), static_cast<uint32_t>(1 + random_.below(4)),
              static_cast<uint32_t>(random_.below(100))};
  attr.qp_type = kTypes[random_.below(std::size(kTypes))];
  attr.sq_sig_all = random_.one_in(2) ? 1 : 0;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (random_.one_in(20)) attr.comp_mask |= static_cast<uint32_t>(random_.bits());
  Judge::begin();
  add(Kind::kQp, judge_.pointer("ibv_create_qp_ex", ibv_create_qp_ex(context_, &attr)),
      {domain, send_cq, recv_cq, srq});
}

void World::make_region() {
  Object* domain = any_domain();
  if (domain == nullptr) return;
  auto* pd = static_cast<ibv_pd*>(domain->handle);
  Object* dm = random_.one_in(4) ? any(Kind::kDm) : nullptr;
  const uint64_t offset = random_.below(kArenaBytes);
  const uint64_t length = random_.below(kArenaBytes - offset + 1);
  auto access = static_cast<int>(random_.below(32) | IBV_ACCESS_LOCAL_WRITE);
  if (random_.one_in(2)) access |= IBV_ACCESS_ON_DEMAND;
  if (random_.one_in(30)) access = static_cast<int>(random_.bits() & 0xffff);
  Judge::begin();
  ibv_mr* mr = nullptr;
  uint64_t base = arena() + offset;
  if (dm != nullptr) {
    const unsigned rights = static_cast<unsigned>(access) | IBV_ACCESS_ZERO_BASED;
    mr = judge_.pointer("ibv_reg_dm_mr", ibv_reg_dm_mr(pd, static_cast<ibv_dm*>(dm->handle), random_.below(200),
                                                       random_.below(5000), rights));
    base = 0;
  } else if (random_.one_in(10)) {
    mr = judge_.pointer("ibv_alloc_null_mr", ibv_alloc_null_mr(pd));
  } else {
    mr = judge_.pointer("ibv_reg_mr", ibv_reg_mr(pd, reinterpret_cast<void*>(base), length, access));
  }
  add(Kind::kMr, mr, {domain, dm});
  if (mr != nullptr) objects_.back()->base = base;
}

void World::make_handle() {
  Object* domain = any_domain();
  if (domain == nullptr) return;
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = random_.one_in(10) ? 2 : 1;
  attr.grh.sgid_index = random_.one_in(10) ? 99 : 1;
  ibv_query_gid(context_, 1, 1, &attr.grh.dgid);
  Judge::begin();
  add(Kind::kAh, judge_.pointer("ibv_create_ah", ibv_create_ah(static_cast<ibv_pd*>(domain->handle), &attr)), {domain});
}

void World::make_parent() {
  Object* pd = any_domain();
  Object* td = random_.one_in(2) ? any(Kind::kTd) : nullptr;
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd != nullptr ? static_cast<ibv_pd*>(pd->handle) : nullptr;
  attr.td = td != nullptr ? static_cast<ibv_td*>(td->handle) : nullptr;
  if (random_.one_in(20)) attr.comp_mask = static_cast<uint32_t>(random_.bits());
  Judge::begin();
  add(Kind::kParent, judge_.pointer("ibv_alloc_parent_domain", ibv_alloc_parent_domain(context_, &attr)), {pd, td});
}

void World::make(Kind kind) {
  if (objects_.size() >= kObjectsMax) return destroy_one();
  Object* domain = any_domain();
  ibv_td_init_attr td{};
  ibv_alloc_dm_attr dm{random_.below(100) * random_.below(1000), static_cast<uint32_t>(random_.below(14)), 0};
  Judge::begin();
  switch (kind) {
    case Kind::kPd:
      return add(kind, judge_.pointer("ibv_alloc_pd", ibv_alloc_pd(context_)), {});
    case Kind::kTd:
      return add(kind, judge_.pointer("ibv_alloc_td", ibv_alloc_td(context_, &td)), {});
    case Kind::kChannel:
      return add(kind, judge_.pointer("ibv_create_comp_channel", ibv_create_comp_channel(context_)), {});
    case Kind::kDm:
      return add(kind, judge_.pointer("ibv_alloc_dm", ibv_alloc_dm(context_, &dm)), {});
    case Kind::kMw: {
      if (domain == nullptr) return;
      const auto type = static_cast<ibv_mw_type>(random_.below(4));
      auto* pd = static_cast<ibv_pd*>(domain->handle);
      return add(kind, judge_.pointer("ibv_alloc_mw", ibv_alloc_mw(pd, type)), {domain});
    }
    case Kind::kParent:
      return make_parent();
    case Kind::kCq:
      return make_cq();
    case Kind::kSrq:
      return make_srq();
    case Kind::kQp:
      return make_qp();
    case Kind::kMr:
      return make_region();
    case Kind::kAh:
      return make_handle();
  }
}

void World::move_to(Object& region, Object* domain) {
  for (Object*& used : region.uses) {
    if (used->kind != Kind::kPd && used->kind != Kind::kParent) continue;
    used->users--;
    used = domain;
    domain->users++;
    return;
  }
}

int World::call_destroy(const Object& object) {
  Judge::begin();
  void* handle = object.handle;
  switch (object.kind) {
    case Kind::kPd:
    case Kind::kParent:
      return judge_.number("ibv_dealloc_pd", ibv_dealloc_pd(static_cast<ibv_pd*>(handle)));
    case Kind::kTd:
      return judge_.number("ibv_dealloc_td", ibv_dealloc_td(static_cast<ibv_td*>(handle)));
    case Kind::kChannel:
      return judge_.number("ibv_destroy_comp_channel",
                           ibv_destroy_comp_channel(static_cast<ibv_comp_channel*>(handle)));
    case Kind::kCq:
      return judge_.number("ibv_destroy_cq", ibv_destroy_cq(static_cast<ibv_cq*>(handle)));
    case Kind::kSrq:
      return judge_.number("ibv_destroy_srq", ibv_destroy_srq(static_cast<ibv_srq*>(handle)));
    case Kind::kQp:
      return judge_.number("ibv_destroy_qp", ibv_destroy_qp(static_cast<ibv_qp*>(handle)));
    case Kind::kMr:
      return judge_.number("ibv_dereg_mr", ibv_dereg_mr(static_cast<ibv_mr*>(handle)));
    case Kind::kMw:
      return judge_.number("ibv_dealloc_mw", ibv_dealloc_mw(static_cast<ibv_mw*>(handle)));
    case Kind::kAh:
      return judge_.number("ibv_destroy_ah", ibv_destroy_ah(static_cast<ibv_ah*>(handle)));
    case Kind::kDm:
      return judge_.number("ibv_free_dm", ibv_free_dm(static_cast<ibv_dm*>(handle)));
  }
  return 0;
}

bool World::destroy(size_t index) {
  Object& object = *objects_[index];
  const int error = call_destroy(object);
  const int expected = object.users != 0 ? EBUSY : 0;
  if (error != expected && !(object.maybe_bound && error == EBUSY)) {
    judge_.problem("destroy", expected != 0 ? "what is in use went away" : "what nobody uses stays",
                   static_cast<int>(object.kind));
  }
  if (error != 0) return false;
  for (Object* used : object.uses) used->users--;
  std::swap(objects_[index], objects_.back());
  objects_.pop_back();
  return true;
}

void World::destroy_all() {
  for (bool progress = true; progress && !objects_.empty();) {
    progress = false;
    for (size_t i = objects_.size(); i-- != 0;) progress |= i < objects_.size() && destroy(i);
  }
  if (!objects_.empty()) judge_.problem("the end", "objects are left", static_cast<int>(objects_.size()));
}

}  // namespace call_fuzz
