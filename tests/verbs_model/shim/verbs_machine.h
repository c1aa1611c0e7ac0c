// Programs over libibverbs, with plain calls of it. Every endpoint is a protection domain with its queues, all of one
// device, which talks to its own address.
//
// Time is real, and frames move at any moment. What the model says of time is asked all the same: `now` is the moment
// before the last post until something is polled, and then the moment after that. A completion lies between the two.
//
// Which of the calls that do the same are made is drawn from the program's seed (Manner).
#pragma once

#include <infiniband/verbs.h>

#include <span>
#include <string>
#include <vector>

#include "verbs_model/generate.h"
#include "verbs_model/machine.h"
#include "verbs_model/memory.h"
#include "verbs_model/model.h"
#include "verbs_model/run.h"

namespace uroce::model {

inline constexpr uint32_t kQkey = 0x11111111;  // of every UD queue pair

/// The device, opened once in a process. When it lacks something needed, the process ends with a line on stderr.
class Device {
 public:
  static Device& get();

  ibv_context* context() const { return context_; }
  ibv_ah_attr own_address() const;
  Instant now() const;
  /// One turn of the engine, by polling a queue that is always empty.
  void turn();
  /// Packets sent so far.
  uint64_t packets() const;
  /// The next event; false when there is none.
  bool take_event(ibv_async_event& event);

 private:
  Device();
  ibv_context* context_ = nullptr;
  ibv_cq* idle_ = nullptr;
  int packets_fd_ = -1;
};

/// Different ways to do the same.
struct Manner {
  bool builds = false;    // ibv_wr_* instead of ibv_post_send
  bool extended = false;  // ibv_start_poll, which has time stamps, instead of ibv_poll_cq
  bool sleeps = false;    // leaves the engine to the background thread, instead of polling
  bool events = false;    // arms a queue found empty, after which a completion must raise an event
};
Manner manner_of(const Program& program);
/// IBV_QP_EX_WITH_* flags for creating queue pairs of this type.
uint64_t operations_of(QpType type);

/// What can be drawn for this machine, and what can be expected of it.
Limits limits();
Rules rules_of(const Program& program);

class VerbsMachine final : public Machine {
 public:
  VerbsMachine(const Program& program, Memory& memory, Device& device);
  /// Destroys whatever is left, when the program ended early.
  ~VerbsMachine() override;
  VerbsMachine(const VerbsMachine&) = delete;
  VerbsMachine& operator=(const VerbsMachine&) = delete;

  uint32_t qpn(unsigned qp) const override { return qpns_[qp]; }
  QpState state(unsigned qp) const override;
  bool modify(unsigned qp, QpState to) override;
  bool connect(unsigned qp) override;
  void destroy(unsigned qp) override;

  Answer post_send(unsigned qp, SendWr& wr, unsigned to) override;
  Answer post_receive(unsigned qp, const RecvWr& wr) override;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override;
  bool overrun(unsigned endpoint, unsigned cq) const override { return ends_[endpoint].cqs[cq].overrun; }

  void register_region(unsigned endpoint, Region region) override;
  bool deregister(unsigned endpoint, Region region) override;
  uint32_t key(unsigned endpoint, Region region) const override;
  void begin_bind(unsigned endpoint, Region window, MwBind& bind) override;
  void end_bind(unsigned endpoint, Region window) override;
  bool free_window(unsigned endpoint, Region window) override;
  bool free_rest() override;

  Instant now(unsigned) const override { return moment_; }
  void run(Duration time) override;
  bool settle() override;

  std::string complaint() const override { return complaint_; }

 private:
  struct Queue {
    ibv_cq* cq = nullptr;
    ibv_cq_ex* extended = nullptr;  // the same queue, if it is polled in that way
    bool overrun = false;
    bool armed = false;
    bool told = false;  // an event came since it was armed
  };
  struct End {
    ibv_pd* pd = nullptr;
    ibv_pd* foreign_pd = nullptr;
    ibv_comp_channel* channel = nullptr;
    Queue cqs[2];
    ibv_srq* srq = nullptr;
    ibv_mr* mrs[kRegions] = {};
    ibv_mw* mws[kWindows] = {};
    uint32_t keys[kRegions] = {};
    ibv_ah* ah = nullptr;  // all have the same address
  };

  End& end(unsigned qp) { return ends_[program_.qps[qp].endpoint]; }
  void make_objects(unsigned endpoint);
  void make_cq(End& one, unsigned number, uint32_t entries);
  void make_qp(unsigned qp);
  bool bring_up(unsigned qp);
  void complain(const std::string& text);
  void take_events();
  void take_cq_events(End& one);
  void wait_for_events(Duration time);
  void note_events(End& one, Queue& queue, uint32_t polled);
  uint32_t poll_plain(ibv_cq* cq, std::span<Completion> out);
  uint32_t poll_extended(ibv_cq_ex* cq, std::span<Completion> out);
  bool can_build(unsigned qp, const SendWr& wr) const;
  int post(unsigned qp, const SendWr& wr, unsigned to);
  int build(unsigned qp, const SendWr& wr, unsigned to);
  int bind_old(unsigned qp, const SendWr& wr);

  const Program& program_;
  Memory& memory_;
  Device& device_;
  const Manner manner_;
  std::vector<End> ends_;
  std::vector<ibv_qp*> qps_;
  std::vector<uint32_t> qpns_;
  ibv_mw* binding_ = nullptr;  // for the next kBindMw
  uint32_t connections_ = 0;
  Instant moment_{};
  std::string complaint_;
};

/// The same over libibverbs.
std::string run_on_verbs(const Program& program, const Rules& rules, Totals* totals);

}  // namespace uroce::model
