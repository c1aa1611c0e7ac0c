// The objects at which a program's handles point. Each begins with the public structure; then comes room for what later
// releases of rdma-core append to it, and then the shim's own state.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>

#include "base/untouched_array.h"
#include "engine/engine.h"
#include "event_fd.h"
#include "handles.h"
#include "runtime.h"
#include "shim.h"

namespace uroce {
class CompletionQueue;
}

namespace uroce::verbs {

/// Room behind every public structure for members of later releases. It is zeroed, because provider libraries look for
/// their own private block there (mlx5dv_is_supported does).
inline constexpr size_t kForeignRoom = 512;

struct Device : ibv_device {
  uint8_t foreign[kForeignRoom];
};

/// What a kernel would find an object by: its number, and the open device. The public structures have both, where a
/// program can overwrite them; these are the shim's own.
struct Identity {
  uint32_t handle = 0;
  uint64_t file = 0;
};

struct Cq;
struct QueuePair;
struct Srq;
struct Xrcd;
struct XrcTarget;
struct RssQueues;
struct Wq;

/// The part of a context that programs know. verbs_context grows at its head.
struct ContextAbi {
  void* ops_after_v44[6];  // reg_mr_ex ... free_buf: not offered
  verbs_context verbs;
  uint8_t foreign[kForeignRoom];
};
inline constexpr size_t kVerbsContextBytesV64 = 696;
static_assert(offsetof(ContextAbi, foreign) == kVerbsContextBytesV64);
static_assert(offsetof(ContextAbi, verbs) == sizeof(ContextAbi::ops_after_v44));

/// Async events wait here until the program takes them. They are rare, so allocation is allowed.
class AsyncQueue {
 public:
  int fd() const { return event_fd_.fd(); }
  void push(const ibv_async_event& event);
  int take(ibv_async_event& event);  // as ibv_get_async_event
  /// Drops the queued events of an object that is destroyed. Returns how many of its events the program has taken.
  template <typename Object>
  uint32_t forget(Object& object);

 private:
  bool pop(ibv_async_event& event);
  bool drive_until_event(ibv_async_event& event);

  std::mutex mutex_;
  EventFd event_fd_;
  std::deque<ibv_async_event> events_;
};

struct Context : ContextAbi {
  AsyncQueue async;
  Context* next_open = nullptr;
  std::mutex mutex;
  const uint32_t generation = fork_generation;  // of the process that opened it
  uint64_t file = 0;                            // of the open device; imports of the context have the same
  uint32_t objects = 0;  // live objects of the context; if there are any when it is closed, it stays
};

struct ThreadDomain : ibv_td {
  uint8_t foreign[kForeignRoom];
  std::atomic<uint32_t> users{0};  // parent domains
};

struct Pd : ibv_pd {
  uint8_t foreign[kForeignRoom];
  Identity identity;
  PdId id = 0;
  std::shared_ptr<PdCore> core;
  std::atomic<uint32_t> users{0};  // objects made with this structure
  // Only of a parent domain.
  bool is_parent = false;
  ThreadDomain* thread_domain = nullptr;
  Pd* extended = nullptr;
  void* (*alloc)(ibv_pd*, void*, size_t, size_t, uint64_t) = nullptr;
  void (*free)(ibv_pd*, void*, void*, uint64_t) = nullptr;
  void* alloc_context = nullptr;
};

/// Memory of a work queue that the allocator of a parent domain gave; empty for all other queues.
class DomainMemory {
 public:
  enum Resource : uint32_t { kSendQueue = 1, kReceiveQueue = 2, kSharedReceiveQueue = 3 };

  DomainMemory() = default;
  DomainMemory(const DomainMemory&) = delete;
  DomainMemory& operator=(const DomainMemory&) = delete;
  ~DomainMemory();
  void swap(DomainMemory& other);

  /// Asks the domain's allocator, if it has one; not to be called under an EngineLock. False when that has nothing.
  bool take(Pd& pd, size_t bytes, Resource resource);
  void* get() const { return memory_; }

 private:
  Pd* pd_ = nullptr;
  void* memory_ = nullptr;
  Resource resource_ = kSendQueue;
};

struct Mr : ibv_mr {
  enum class Of : uint8_t { kProgram, kNothing, kDeviceMemory, kImport };  // whose memory; kNothing: a null region

  uint8_t foreign[kForeignRoom];
  Identity identity;
  uint64_t iova = 0;
  uint32_t access = 0;
  Of of = Of::kProgram;
  std::shared_ptr<MrCore> core;
};

struct Dm : ibv_dm {
  uint8_t foreign[kForeignRoom];
  std::shared_ptr<DmCore> core;
};

struct Mw : ibv_mw {
  uint8_t foreign[kForeignRoom];
  Identity identity;
  uint32_t id;  // the key with which it began, which names the window whatever its key is now
};

struct Ah : ibv_ah {
  uint8_t foreign[kForeignRoom];
  Identity identity;
  std::unique_ptr<AddressHandle> address;
};

/// Completion events wait here, in a linked list through the queues themselves, so that raising one allocates nothing.
class Channel : public ibv_comp_channel {
 public:
  Channel() : ibv_comp_channel{} {}

  uint8_t foreign[kForeignRoom] = {};
  EventFd event_fd;
  std::mutex mutex;
  Cq* first = nullptr;
  Cq* last = nullptr;

  void push(Cq& cq);
  Cq* pop();
  void forget(Cq& cq);  // before the queue is destroyed

 private:
  void append(Cq& cq);
  void unlink(Cq& cq);
};

struct Cq : ibv_cq_ex {
  uint8_t foreign[kForeignRoom];
  Identity identity;
  CompletionQueue* queue = nullptr;
  uint32_t taken_since_turn = 0;
  Completion current;     // the completion that the read_* functions of the extended interface read
  std::mutex poll_mutex;  // held from start_poll to end_poll
  bool single_threaded = false;
  Pd* parent_domain = nullptr;
  bool wait_expected = false;  // armed, and not found empty since then: the program may be about to sleep
  uint32_t events_raised = 0;
  // Under the channel's mutex.
  Cq* next_in_channel = nullptr;
  uint32_t events_waiting = 0;
  uint32_t events_taken = 0;
  uint32_t async_taken = 0;  // under the context's async queue's mutex

  ibv_cq* base() { return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(this)); }
};
static_assert(offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));

struct Srq : ibv_srq {
  uint8_t foreign[kForeignRoom];
  Identity identity;
  SharedReceiveQueue* queue = nullptr;
  uint32_t async_taken = 0;
  DomainMemory memory;
  Xrcd* xrcd = nullptr;
};

/// The work requests that ibv_wr_* functions have built since ibv_wr_start. Nothing reaches the engine before
/// ibv_wr_complete.
class WrBuilder {
 public:
  /// Makes room for `max_wr` work requests with `max_sge` elements or `max_inline` bytes each.
  void reserve(uint32_t max_wr, uint32_t max_sge, uint32_t max_inline);
  void start() {
    mutex_.lock();
    count_ = 0;
    error_ = 0;
  }
  /// Ends what `start` began.
  void finish() { mutex_.unlock(); }

  /// The next work request, or a dummy when there is no room (ibv_wr_complete then returns the error).
  SendWr& next();
  SendWr& last() { return count_ != 0 ? wrs_[count_ - 1] : scratch_; }
  Sge* last_sges() { return count_ != 0 ? &sges_[size_t{count_ - 1} * max_sge_] : nullptr; }
  uint8_t* last_inline() { return count_ != 0 ? &inline_[size_t{count_ - 1} * max_inline_] : nullptr; }
  void fail(int error) {
    if (error_ == 0) error_ = error;
  }

  std::span<const SendWr> wrs() const { return {&wrs_[0], count_}; }
  int error() const { return error_; }
  uint32_t max_sge() const { return max_sge_; }
  uint32_t max_inline() const { return max_inline_; }

 private:
  UntouchedBlock memory_;  // of the three arrays
  UntouchedArray<SendWr> wrs_;
  UntouchedArray<Sge> sges_;
  UntouchedArray<uint8_t> inline_;
  SendWr scratch_;
  std::mutex mutex_;
  uint32_t count_ = 0;
  uint32_t max_wr_ = 0;
  uint32_t max_sge_ = 0;
  uint32_t max_inline_ = 0;
  int error_ = 0;
};

struct QueuePair : ibv_qp_ex {
  uint8_t foreign[kForeignRoom];
  Identity identity;
  Qp* qp = nullptr;
  bool extended = false;  // created with send_ops_flags
  bool sq_sig_all = false;
  uint32_t flushed = 0;  // completions in flush error, which are summed up in one log line
  uint32_t async_taken = 0;
  std::unique_ptr<WrBuilder> builder;
  DomainMemory send_memory;
  DomainMemory receive_memory;
  Xrcd* xrcd = nullptr;               // of an XRC target
  std::shared_ptr<XrcTarget> target;  // what the handles on an XRC target share
  std::shared_ptr<RssQueues> rss;     // of one that shares its frames among work queues (raw.h)
  Wq* wq = nullptr;                   // of one that stands for a work queue
  uint32_t flows = 0;                 // that lead to it; under the engine's lock

  ibv_qp* base() { return &qp_base; }
};

inline Context& ours(ibv_context* context) {
  constexpr size_t kOffset = offsetof(ContextAbi, verbs) + offsetof(verbs_context, context);
  return *static_cast<Context*>(reinterpret_cast<ContextAbi*>(reinterpret_cast<uint8_t*>(context) - kOffset));
}
/// True when the process inherited the context, and what was made in it, through fork: see `has_inherited_objects`.
inline bool is_the_parents(ibv_context* context) {
  return has_inherited_objects && ours(context).generation != fork_generation;
}
inline Pd& ours(ibv_pd* pd) { return *static_cast<Pd*>(pd); }
inline Mr& ours(ibv_mr* mr) { return *static_cast<Mr*>(mr); }
inline Dm& ours(ibv_dm* dm) { return *static_cast<Dm*>(dm); }
inline ThreadDomain& ours(ibv_td* td) { return *static_cast<ThreadDomain*>(td); }
inline Mw& ours(ibv_mw* mw) { return *static_cast<Mw*>(mw); }
inline Ah& ours(ibv_ah* ah) { return *static_cast<Ah*>(ah); }
inline Srq& ours(ibv_srq* srq) { return *static_cast<Srq*>(srq); }
inline Channel& ours(ibv_comp_channel* channel) { return *static_cast<Channel*>(channel); }
inline Cq& ours(ibv_cq_ex* cq) { return *static_cast<Cq*>(cq); }
inline Cq& ours(ibv_cq* cq) { return ours(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline QueuePair& ours(ibv_qp_ex* qp) { return *static_cast<QueuePair*>(qp); }
inline QueuePair& ours(ibv_qp* qp) { return ours(reinterpret_cast<ibv_qp_ex*>(qp)); }

/// A number for the `handle` fields.
uint32_t next_handle();
/// Gives an object its handle; its context is set. `base`: the public structure that has both.
template <typename Object, typename Base>
void identify(Object& object, Base& base, uint32_t handle) {
  base.handle = handle;
  object.identity = {handle, ours(base.context).file};
}
/// False when the program's structure has another handle, or the context of another open device, than the object was
/// made with: a kernel would not find it, so the call ends with ENOENT.
template <typename Base>
bool is_found(Base& base) {
  const Identity& identity = ours(&base).identity;
  return base.handle == identity.handle && ours(base.context).file == identity.file;
}
/// False when they are of different open devices: what is made with one is not found through the other (ENOENT).
inline bool is_same_file(ibv_context* context, ibv_context* other) { return ours(context).file == ours(other).file; }
/// Adds an object to (+1), or removes it from (-1), the count of its context.
void count_object(ibv_context* context, int difference);
/// The same for an object that is made with `pd`, which counts it, too.
void count_object(ibv_pd* pd, int difference);

/// Queues the event in every open context.
void push_to_contexts(const ibv_async_event& event);

/// Waits until the program acknowledged the `taken` events that it took of this object.
void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged, uint32_t taken);

}  // namespace uroce::verbs
