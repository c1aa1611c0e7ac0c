// The extended polling interface: one completion at a time, its fields read one by one.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "operations.h"
#include "runtime.h"

namespace uroce::verbs {

namespace {

enum class Batch : uint8_t { kStart, kNext };

bool take_next(Cq& cq, Batch batch) {
  BriefEngineLock lock(endpoint());
  if (batch == Batch::kNext && cq.queue->next_is_unheard()) return false;
  uint32_t taken = cq.queue->poll({&cq.current, 1});
  if (taken == 0) {
    if (turn_for_poller(cq)) taken = cq.queue->poll({&cq.current, 1});
    if (taken == 0) found_empty(cq);
  } else if (++cq.taken_since_turn >= kTakenPerTurn) {
    turn_for_poller(cq);
  }
  if (taken == 0) return false;
  cq.wr_id = cq.current.wr_id;
  cq.status = static_cast<ibv_wc_status>(cq.current.status);
  return true;
}

int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  if (is_the_parents(base->context)) [[unlikely]]
    return refuse_to_child();
  if (attr->comp_mask != 0) return with_errno(EINVAL);
  Cq& cq = ours(base);
  if (!cq.single_threaded) cq.poll_mutex.lock();
  if (take_next(cq, Batch::kStart)) return 0;
  if (!cq.single_threaded) cq.poll_mutex.unlock();
  return ENOENT;  // not a failure, so errno is left alone
}

int next_poll(ibv_cq_ex* base) { return take_next(ours(base), Batch::kNext) ? 0 : ENOENT; }

void end_poll(ibv_cq_ex* base) {
  Cq& cq = ours(base);
  if (!cq.single_threaded) cq.poll_mutex.unlock();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(ours(cq).current.opcode); }
uint32_t read_vendor_err(ibv_cq_ex* cq) { return static_cast<uint32_t>(ours(cq).current.cause); }
uint32_t read_byte_len(ibv_cq_ex* cq) { return ours(cq).current.byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) { return ours(cq).current.imm_or_rkey; }
uint32_t read_qp_num(ibv_cq_ex* cq) { return ours(cq).current.qp_num; }
uint32_t read_src_qp(ibv_cq_ex* cq) { return ours(cq).current.src_qp; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return ours(cq).current.flags; }
uint32_t read_slid(ibv_cq_ex*) { return 0; }
uint8_t read_sl(ibv_cq_ex* cq) { return ours(cq).current.sl; }
uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }
uint64_t read_completion_ts(ibv_cq_ex* cq) { return static_cast<uint64_t>(ours(cq).current.timestamp_ns); }
uint16_t read_cvlan(ibv_cq_ex*) { return 0; }
uint32_t read_flow_tag(ibv_cq_ex* cq) { return ours(cq).current.flow_tag; }
/// Zeros unless a message has just matched: for all other messages the program finds the header in its receive buffer.
void read_tm_info(ibv_cq_ex* cq, ibv_wc_tm_info* info) {
  const Completion& completion = ours(cq).current;
  *info = {};
  if ((completion.flags & kWcTmMatch) != 0) *info = {.tag = completion.tag, .priv = completion.src_qp};
}

/// How far the wall clock is ahead of the device's. It is the same for all completions until somebody sets or slews the
/// clock: reading the two takes some nanoseconds, and times of completions must not change their order by that.
int64_t wall_clock_ahead_ns() {
  constexpr int64_t kSameClockNs = 100000;
  static std::atomic<int64_t> known{0};
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const int64_t ahead = wall.tv_sec * int64_t{1000000000} + wall.tv_nsec - endpoint().now().ns;
  const int64_t before = known;
  if (std::abs(ahead - before) < kSameClockNs) return before;
  known = ahead;
  return ahead;
}

uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  return static_cast<uint64_t>(ours(cq).current.timestamp_ns + wall_clock_ahead_ns());
}

}  // namespace

void fill_cq_readers(Cq& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_cvlan = read_cvlan;
  cq.read_flow_tag = read_flow_tag;
  cq.read_tm_info = read_tm_info;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace uroce::verbs
