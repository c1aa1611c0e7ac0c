// What a program runs on: engines in virtual time (engine_machine.cc), or libibverbs in real time (shim/).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/counters.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"
#include "uroce/work_request.h"
#include "verbs_model/program.h"

namespace uroce::model {

/// As a verbs program sees it: 0, ENOMEM, or EINVAL.
enum class Answer : uint8_t { kOk, kFull, kInvalid };

class Machine {
 public:
  virtual ~Machine() = default;

  virtual uint32_t qpn(unsigned qp) const = 0;
  /// What ibv_query_qp says.
  virtual QpState state(unsigned qp) const = 0;
  virtual bool modify(unsigned qp, QpState to) = 0;
  /// Both from RESET, or from whatever they are in, to RTS. No frame of theirs may be under way.
  virtual bool connect(unsigned qp) = 0;
  virtual void destroy(unsigned qp) = 0;

  /// `to`: of UD.
  virtual Answer post_send(unsigned qp, SendWr& wr, unsigned to) = 0;
  virtual Answer post_receive(unsigned qp, const RecvWr& wr) = 0;
  virtual uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) = 0;
  /// The queue said that it had no room.
  virtual bool overrun(unsigned endpoint, unsigned cq) const = 0;

  /// Registers it (again): then `key` is another.
  virtual void register_region(unsigned endpoint, Region region) = 0;
  virtual bool deregister(unsigned endpoint, Region region) = 0;
  /// As the program knows it. Of a region that is gone: the last one.
  virtual uint32_t key(unsigned endpoint, Region region) const = 0;
  /// Fills in the keys of a bind, and is told that it succeeded.
  virtual void begin_bind(unsigned endpoint, Region window, MwBind& bind) = 0;
  virtual void end_bind(unsigned endpoint, Region window) = 0;
  virtual bool free_window(unsigned endpoint, Region window) = 0;
  /// Everything that is left, after the queue pairs and windows are gone. False: something is said to be in use.
  virtual bool free_rest() = 0;

  /// By the clock of that endpoint.
  virtual Instant now(unsigned endpoint) const = 0;
  virtual void run(Duration time) = 0;
  /// For a time in which everything that can end has ended. True: no frame is under way.
  virtual bool settle() = 0;
  /// What is wrong besides what the model judges.
  virtual std::string complaint() const { return {}; }

  // What befalls simulated hosts, and what can be asked there only.
  virtual void befall(const Step& /*step*/) {}
  /// How long an answer is waited for, at the least. 0: nobody knows.
  virtual Duration ack_timeout() const { return {}; }
  /// What an endpoint has counted; nullptr: it does not tell.
  virtual const Counters* counters(unsigned /*endpoint*/) const { return nullptr; }
  /// Where datagrams of a queue pair come from.
  virtual std::optional<IpAddress> address(unsigned /*qp*/) const { return {}; }

  /// Its steps are carried out from now on.
  virtual void begin_round() {}
  /// It goes round in circles.
  virtual bool stuck() const { return false; }
};

}  // namespace uroce::model
