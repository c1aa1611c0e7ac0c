// XRC: domains, and the target queue pairs that several handles may share.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <vector>

#include "objects.h"

namespace uroce::verbs {

struct Xrcd : ibv_xrcd {
  uint8_t foreign[kForeignRoom];
  XrcdId id = 0;                   // the same for all handles that were opened with the same file
  std::atomic<uint32_t> users{0};  // target queue pairs and shared receive queues made with this handle
};
inline Xrcd& ours(ibv_xrcd* xrcd) { return *static_cast<Xrcd*>(xrcd); }

/// A target queue pair, which lives as long as one handle on it does. All handles hear of its events; all calls with
/// any of them are about the same queue pair. Under the engine's lock.
struct XrcTarget {
  Qp* qp = nullptr;
  std::vector<QueuePair*> handles;
};

/// In the child of a fork: the domains of files are the parent's.
void leave_xrc_domains();

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
int get_srq_num(ibv_srq* srq, uint32_t* number);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);

/// For ibv_create_qp_ex and ibv_destroy_qp. Null, with errno.
ibv_qp* create_xrc_target(const ibv_qp_init_attr_ex& attr);
int destroy_xrc_target(QueuePair& qp);
/// Sends what the peer still has to hear from this QP, above all acknowledgements, before the QP is destroyed.
void send_last_words(Qp& qp);

}  // namespace uroce::verbs
