// The objects of programs other than queue pairs: protection domains, memory regions, completion queues, shared receive
// queues and address handles. An object that is in use by another one cannot be destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/xrc_domains.h"
#include "uroce/address.h"
#include "uroce/time.h"
#include "uroce/types.h"

namespace uroce {

class CompletionQueue;
class MemoryTable;
class Observer;
class RandomSource;
class SharedReceiveQueue;
class XrcQueues;
struct AddressHandle;
struct EngineConfig;
struct QpInit;
struct Route;

/// Pointers are valid until destroyed. Create functions give nullptr (or 0) when a table is full.
class ObjectTables {
 public:
  ObjectTables(const EngineConfig& config, RandomSource& random, Observer& observer);
  ~ObjectTables();
  ObjectTables(const ObjectTables&) = delete;
  ObjectTables& operator=(const ObjectTables&) = delete;

  PdId allocate_pd();
  bool deallocate_pd(PdId pd);  // false: still in use
  CompletionQueue* create_cq(uint32_t capacity, void* user);
  bool destroy_cq(CompletionQueue* cq);  // false: QPs use it
  /// CompletionQueue::moderate, for a queue whose events `raise_due` raises in time.
  void moderate(CompletionQueue& cq, uint32_t count, Duration period);
  Instant next_event() const;
  void raise_due(Instant now);
  SharedReceiveQueue* create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge, void* user, void* memory = nullptr);
  /// False: QPs use it. Of a queue of XRC, no target may receive a message for it any more (Engine::destroy_srq).
  bool destroy_srq(SharedReceiveQueue* srq);
  /// Makes it a queue of XRC, which targets of the domain fill, with completions in `cq`. False: no number is left.
  bool attach_xrc(SharedReceiveQueue& srq, XrcdId domain, CompletionQueue& cq);
  /// Makes it a queue that matches tags, for up to `max_tags` receives and `max_ops` operations, with completions in
  /// `cq`; before a QP uses it. False: there is no memory.
  bool attach_tags(SharedReceiveQueue& srq, CompletionQueue& cq, uint32_t max_tags, uint32_t max_ops);
  XrcDomains& xrc_domains() { return xrc_domains_; }
  const XrcQueues& xrc_queues() const { return *xrc_queues_; }
  std::unique_ptr<AddressHandle> create_ah(PdId pd, const Route& path, uint8_t static_rate);
  void destroy_ah(AddressHandle* ah);  // before it is deleted
  bool ahs_full() const { return ahs_.size() >= ahs_max_; }
  MemoryTable& memory() { return *memory_; }

  /// A QP uses the objects that `init` names (`hold`), or no longer (`release`).
  void hold(const QpInit& init);
  void release(const QpInit& init);

  // For lists. Numbers of objects are below 2^kNumberBits, and unique among the living ones of a kind.
  static constexpr uint32_t kNumberBits = 20;
  /// Calls `f(number, users)` for every protection domain that is given out.
  void for_each_pd(const std::function<void(PdId, uint32_t)>& f) const;
  template <typename F>
  void for_each_cq(F&& f) const {
    for (const auto& cq : cqs_) f(*cq);
  }
  template <typename F>
  void for_each_srq(F&& f) const {
    for (const auto& srq : srqs_) f(*srq);
  }

  /// Tells the address handles that lead there.
  void on_resolved(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);

 private:
  struct Pd {
    bool given_out = false;
    uint32_t users = 0;  // QPs, SRQs and AHs; the memory table counts its own
  };
  void hold_pd(PdId pd);
  void release_pd(PdId pd);

  Observer& observer_;
  const uint32_t cqs_max_;
  const uint32_t srqs_max_;
  const uint32_t ahs_max_;
  const std::unique_ptr<MemoryTable> memory_;  // never null
  std::vector<Pd> pds_;
  uint64_t cqs_made_ = 0;
  uint64_t srqs_made_ = 0;
  std::vector<std::unique_ptr<CompletionQueue>> cqs_;
  std::vector<CompletionQueue*> moderated_;  // those with a period
  std::vector<std::unique_ptr<SharedReceiveQueue>> srqs_;
  std::vector<AddressHandle*> ahs_;
  XrcDomains xrc_domains_;
  const std::unique_ptr<XrcQueues> xrc_queues_;  // never null
};

}  // namespace uroce
