// The operations that programs call through a context instead of through symbols.
#pragma once

#include "objects.h"

namespace uroce::verbs {

/// Puts all of the following, and refusals for operations that are not supported, into a context's tables.
void fill_operations(Context& context);
void fill_refusals(Context& context);

// ibv_context_ops: members that programs call without a check for null.
int poll_cq(ibv_cq* cq, int entries, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
/// The key that a window of type 2 gets: of the key that the program wants, only the lowest byte is its own choice.
uint32_t key_after_bind(const Mw& mw, uint32_t wanted);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int dealloc_mw(ibv_mw* mw);

// verbs_context.
int query_port_extended(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t bytes);
int query_device_extended(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                          size_t bytes);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges, uint32_t count);
ibv_mr* alloc_null_mr(ibv_pd* pd);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);
ibv_cq_ex* create_cq_extended(ibv_context* context, ibv_cq_init_attr_ex* attr);
ibv_qp* create_qp_extended(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_srq* create_srq_extended(ibv_context* context, ibv_srq_init_attr_ex* attr);

// Shared between files.
/// Completions that are in the queue are returned at once, but the engine has to go on receiving: so one turn is made
/// for every so many completions.
inline constexpr uint32_t kTakenPerTurn = 16;
/// Makes a turn for a program that polls `cq`; to be called under an EngineLock. True when there is a completion to
/// take now. A completion that raised an event is left for the poll after that event: programs expect to find
/// completions after an event (ibv_rc_pingpong -t gives up when it does not), and with real devices completions rarely
/// arrive between arming and polling.
bool turn_for_poller(Cq& cq);
/// To be called under an EngineLock when a program found `cq` empty. If the program had armed the queue, it is about to
/// sleep, so the background thread takes over.
void found_empty(Cq& cq);
/// A context on the open device file number `file`, whose descriptor it closes when it is closed. Null, with errno,
/// when there are no descriptors; then `cmd_fd` stays open.
ibv_context* make_context(uint64_t file, int cmd_fd);
/// A descriptor for `ibv_context::cmd_fd`; -1, with errno, when there is none.
int open_command_file(uint64_t file);
/// The structure for device memory, and its end.
ibv_dm* wrap_dm(ibv_context* context, uint32_t handle, std::shared_ptr<DmCore> core);
void forget_dm(Dm& dm);
/// In the child of a fork: all device memory is the parent's.
void leave_device_memory();
/// Deletes the structure of a region.
void forget_region(Mr& mr);
/// Fills the function pointers of the extended interfaces.
void fill_cq_readers(Cq& cq);
void fill_wr_operations(QueuePair& qp, uint64_t send_ops);
/// FLUSH and ATOMIC_WRITE.
void fill_placement_operations(QueuePair& qp);
bool address_vector_from(const ibv_ah_attr& attr, AddressVector& av);
void address_vector_to(const AddressVector& av, ibv_ah_attr& attr);
/// An offload that a device may offer, and this one does not. A raw frame would leave without the checksum that the
/// program counts on; other packets have no such checksum, and for them the flag changes nothing.
inline constexpr unsigned kOffloadFlags = IBV_SEND_IP_CSUM;
/// The errno for a refused post.
int post_error(PostResult result);

}  // namespace uroce::verbs
