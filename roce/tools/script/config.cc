#include "script/config.h"

#include "script/testbench.h"
#include "script/text.h"
#include "script/vocabulary.h"
#include "transport/frame_builder.h"

namespace uroce::script {

namespace {

uint32_t bounded(const Statement& engine, const char* name, uint32_t otherwise, int64_t least, int64_t most) {
  const int64_t value = engine.number(name, otherwise, 0);
  if (value >= least && value <= most) return static_cast<uint32_t>(value);
  throw ScriptError(engine.where, format("%s is from %lld to %lld", name, static_cast<long long>(least),
                                         static_cast<long long>(most)));
}

}  // namespace

EngineConfig config_of(const Script& script) {
  EngineConfig config;
  config.mac = kOurMac;
  config.ack_delay = Duration{0};
  config.grant_credits = false;
  config.max_qps = 64;
  config.max_regions = 64;
  uint16_t vlan = 0;
  if (!script.statements.empty() && script.statements[0].kind == Kind::kEngine) {
    const Statement& engine = script.statements[0];
    config.grant_credits = engine.has("credits");
    if (const Option* delay = engine.find("ack_delay")) config.ack_delay = delay->value.duration;
    config.window_packets = bounded(engine, "window", config.window_packets, 1, 1 << 20);
    config.max_frame_bytes = bounded(engine, "max_frame", config.max_frame_bytes, 256 + kMaxFrameOverhead, UINT16_MAX);
    config.max_qps = bounded(engine, "max_qps", config.max_qps, 1, UINT16_MAX);
    config.reorder_packets = bounded(engine, "reorder_packets", config.reorder_packets, 0, 1 << 20);
    if (const Option* recovery = engine.find("recovery")) config.loss_recovery = *recovery_of(recovery->value.text);
    vlan = static_cast<uint16_t>(engine.number("vlan", 0, 0));
  }
  config.addresses = {{*parse_ip("10.0.0.1"), 24, vlan}, {*parse_ip("fd00::1"), 64, vlan}};
  return config;
}

}  // namespace uroce::script
