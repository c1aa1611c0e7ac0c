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

/// As verbs tell it: 0, ENOMEM, or EINVAL.
enum class Answer : uint8_t { kOk, kFull, kInvalid };

class Machine {
 public:
  virtual ~Machine() = default;

  virtual uint32_t qpn(unsigned qp) const = 0;
  /// As ibv_query_qp returns it.
  virtual QpState state(unsigned qp) const = 0;
  virtual bool modify(unsigned qp, QpState to) = 0;
  /// Brings both to RTS, from RESET or any other state. No frame of theirs may be in flight.
  virtual bool connect(unsigned qp) = 0;
  virtual void destroy(unsigned qp) = 0;

  /// `to`: for UD.
  virtual Answer post_send(unsigned qp, SendWr& wr, unsigned to) = 0;
  virtual Answer post_receive(unsigned qp, const RecvWr& wr) = 0;
  virtual uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) = 0;
  /// Whether the queue reported an overrun.
  virtual bool overrun(unsigned endpoint, unsigned cq) const = 0;

  /// Registers it, perhaps again, which changes its `key`.
  virtual void register_region(unsigned endpoint, Region region) = 0;
  virtual bool deregister(unsigned endpoint, Region region) = 0;
  /// As the program knows it. For a deregistered region, its last key.
  virtual uint32_t key(unsigned endpoint, Region region) const = 0;
  /// Fills in the keys of a bind; end_bind tells that it succeeded.
  virtual void begin_bind(unsigned endpoint, Region window, MwBind& bind) = 0;
  virtual void end_bind(unsigned endpoint, Region window) = 0;
  virtual bool free_window(unsigned endpoint, Region window) = 0;
  /// Frees all the rest once queue pairs and windows are gone. False when something is reported as in use.
  virtual bool free_rest() = 0;

  /// The clock of that endpoint.
  virtual Instant now(unsigned endpoint) const = 0;
  virtual void run(Duration time) = 0;
  /// Runs for long enough that everything that can end has ended. True when no frame is in flight.
  virtual bool settle() = 0;
  /// An error outside what the model checks.
  virtual std::string complaint() const { return {}; }

  // Troubles of simulated hosts, and questions that only those can answer.
  virtual void befall(const Step& /*step*/) {}
  /// The least time that an answer is waited for; 0 when it is not known.
  virtual Duration ack_timeout() const { return {}; }
  /// An endpoint's counters; nullptr when they are not known.
  virtual const Counters* counters(unsigned /*endpoint*/) const { return nullptr; }
  /// The source address of a queue pair's datagrams.
  virtual std::optional<IpAddress> address(unsigned /*qp*/) const { return {}; }

  /// From now on the steps of the program are executed.
  virtual void begin_round() {}
  /// Whether it is in an endless loop.
  virtual bool stuck() const { return false; }
};

}  // namespace uroce::model
