#include "engine_cm/engine_cm.h"

#include "engine/management.h"

namespace uroce {

EngineCm::EngineCm(Engine& engine, RandomSource& random, cm::EventSink& sink, uint32_t first_id,
                   const cm::CmLimits& limits)
    : random_(random), next_id_(first_id), manager_(static_cast<cm::Services&>(*this), sink, limits) {
  set_engine(engine);
  engine.set_management(this);
}

EngineCm::~EngineCm() { engine()->set_management(nullptr); }

void EngineCm::on_turn(Instant now) {
  for (const uint32_t qpn : established_) manager_.on_communication_established(qpn, now);
  established_.clear();
  if (manager_.next_timeout() <= now) manager_.run_timers(now);
}

void EngineCm::on_mad(const IncomingMad& mad, Instant now) { hand_over(manager_, mad, now); }

uint32_t EngineCm::draw_communication_id() { return next_id_ != 0 ? next_id_++ : random_.next_u32(); }

}  // namespace uroce
