// Answers questions about running endpoints on DPDK's telemetry socket.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <rte_telemetry.h>

#include "congestion/congestion_control.h"
#include "dpdk/endpoint_impl.h"
#include "dpdk/endpoint_registry.h"
#include "dpdk/telemetry_objects.h"
#include "engine/address_table.h"
#include "engine/queue_pairs.h"
#include "host/object_rows.h"
#include "transport/memory_table.h"
#include "transport/qp_events.h"

namespace uroce {

namespace {

/// Which endpoint a command is about: the one with this number, or the oldest one without a number.
using Number = std::optional<uint64_t>;

/// Removes a number and the comma after it from the front of `text`. False when there is something else.
bool take_number(std::string_view& text, Number& number) {
  if (text.empty()) return true;
  uint64_t value = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  if (code != std::errc() || (!text.empty() && text.front() != ',')) return false;
  if (!text.empty()) text.remove_prefix(1);
  number = value;
  return true;
}

template <typename F>
int reply(Number number, F&& f) {
  struct Context {
    F& f;
  } context{f};
  const bool there = EndpointRegistry::get().look_at(
      number, [](EndpointImpl& endpoint, Look look, void* data) { static_cast<Context*>(data)->f(endpoint, look); },
      &context);
  return there ? 0 : -1;
}

/// Answers commands whose only parameter is the endpoint.
template <typename F>
int reply_to(const char* params, F&& f) {
  std::string_view text = params == nullptr ? "" : params;
  Number number;
  return take_number(text, number) && text.empty() ? reply(number, f) : -1;
}

int on_list(const char* /*cmd*/, const char* /*params*/, rte_tel_data* data) {
  rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
  for (const uint64_t number : EndpointRegistry::get().numbers()) rte_tel_data_add_array_u64(data, number);
  return 0;
}

int on_counters(const char* /*cmd*/, const char* params, rte_tel_data* data) {
  return reply_to(params, [&](EndpointImpl& endpoint, Look look) {
    rte_tel_data_start_dict(data);
    for_each_counter(endpoint.engine().counters(),
                     [&](const char* name, const uint64_t& value) { rte_tel_data_add_dict_u64(data, name, value); });
    endpoint.nic().for_each_counter(
        [&](const char* name, uint64_t value) { rte_tel_data_add_dict_u64(data, name, value); });
    if (look == Look::kOutside) return;  // it may just be in the making
    cm::for_each_counter(endpoint.connections().counters(), [&](const char* name, uint64_t value) {
      rte_tel_data_add_dict_u64(data, ("cm_" + std::string(name)).c_str(), value);
    });
  });
}

int on_qp_list(const char* /*cmd*/, const char* params, rte_tel_data* data) {
  return reply_to(params, [&](EndpointImpl& endpoint, Look look) {
    rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
    if (look == Look::kOutside) return;
    endpoint.engine().qps().for_each([&](const Qp& qp) { rte_tel_data_add_array_u64(data, qp.qpn()); });
  });
}

/// Rate in Mbit/s and window in bytes; 0 is no limit.
void describe_congestion(const CongestionControl& congestion, rte_tel_data* data) {
  char alpha[16];
  std::snprintf(alpha, sizeof alpha, "%.4f", congestion.alpha());
  rte_tel_data_add_dict_u64(data, "rate_mbps", congestion.rate_bits_per_second() / kMegabit);
  rte_tel_data_add_dict_u64(data, "window_bytes", congestion.window_bytes());
  rte_tel_data_add_dict_string(data, "alpha", alpha);
}

/// "" when there was no error.
void describe_error(const Qp& qp, rte_tel_data* data) {
  char text[RTE_TEL_MAX_STRING_LEN] = "";
  if (const auto& error = qp.first_error(); error) {
    const char* const what = error->status ? wc_status_name(*error->status) : "a request of the peer was refused";
    std::snprintf(text, sizeof text, "%s: %s", what, cause_text(error->cause));
  }
  rte_tel_data_add_dict_string(data, "error", text);
}

void describe_qp(const Qp& qp, rte_tel_data* data) {
  const QpAttributes& a = qp.attributes();
  rte_tel_data_start_dict(data);
  rte_tel_data_add_dict_u64(data, "qpn", qp.qpn());
  rte_tel_data_add_dict_string(data, "type", qp_type_name(qp.type()));
  rte_tel_data_add_dict_string(data, "state", qp_state_name(qp.state()));
  rte_tel_data_add_dict_u64(data, "dest_qpn", a.dest_qpn);
  rte_tel_data_add_dict_string(data, "dest_gid", to_string(a.av.dgid).c_str());
  rte_tel_data_add_dict_u64(data, "sgid_index", a.av.sgid_index);
  rte_tel_data_add_dict_u64(data, "path_mtu", a.path_mtu_bytes);
  rte_tel_data_add_dict_string(data, "path", qp.path_resolved() ? "resolved" : "peer's MAC address unknown");
  rte_tel_data_add_dict_u64(data, "timeout", a.timeout);
  rte_tel_data_add_dict_u64(data, "retry_cnt", a.retry_cnt);
  rte_tel_data_add_dict_u64(data, "rnr_retry", a.rnr_retry);
  rte_tel_data_add_dict_u64(data, "max_rd_atomic", a.max_rd_atomic);
  rte_tel_data_add_dict_u64(data, "max_dest_rd_atomic", a.max_dest_rd_atomic);
  rte_tel_data_add_dict_u64(data, "sends_queued", qp.sends_queued());
  rte_tel_data_add_dict_u64(data, "receives_queued", qp.receives_queued());
  describe_error(qp, data);
  if (qp.congestion() != nullptr) describe_congestion(*qp.congestion(), data);
}

int on_qp(const char* /*cmd*/, const char* params, rte_tel_data* data) {
  if (params == nullptr || *params == 0) return -1;
  char* rest = nullptr;
  const auto qpn = static_cast<uint32_t>(std::strtoul(params, &rest, 0));
  if (*rest != 0 && *rest != ',') return -1;
  std::string_view text = *rest == ',' ? rest + 1 : rest;
  Number number;
  if (!take_number(text, number) || !text.empty()) return -1;
  bool found = false;
  const int rc = reply(number, [&](EndpointImpl& endpoint, Look look) {
    if (look == Look::kOutside) return;
    endpoint.engine().qps().for_each([&](const Qp& qp) {
      if (qp.qpn() != qpn) return;
      found = true;
      describe_qp(qp, data);
    });
  });
  return rc == 0 && found ? 0 : -1;
}

void describe_engine(EndpointImpl& endpoint, rte_tel_data* data) {
  rte_tel_data_add_dict_string(data, "engine", "running");
  rte_tel_data_add_dict_string(data, "peer", endpoint.nic().link_up() ? "there" : "not there");
  rte_tel_data_add_dict_u64(data, "qps", endpoint.engine().qps().size());
  rte_tel_data_add_dict_u64(data, "regions", endpoint.engine().memory().in_use());
  rte_tel_data* gids = rte_tel_data_alloc();
  rte_tel_data_start_array(gids, RTE_TEL_STRING_VAL);
  for (const LocalAddress& address : endpoint.engine().addresses().gids()) {
    rte_tel_data_add_array_string(gids, to_string(address).c_str());
  }
  rte_tel_data_add_dict_container(data, "gids", gids, 0);
}

int on_endpoint(const char* /*cmd*/, const char* params, rte_tel_data* data) {
  return reply_to(params, [&](EndpointImpl& endpoint, Look look) {
    rte_tel_data_start_dict(data);
    rte_tel_data_add_dict_u64(data, "pid", static_cast<uint64_t>(getpid()));
    rte_tel_data_add_dict_string(data, "program", program_invocation_short_name);
    rte_tel_data_add_dict_string(data, "port", endpoint.port_name().c_str());
    rte_tel_data_add_dict_string(data, "netdev", endpoint.netdev_name().c_str());
    rte_tel_data_add_dict_string(data, "mac", to_string(endpoint.engine().addresses().mac()).c_str());
    rte_tel_data_add_dict_u64(data, "active_mtu", endpoint.engine().qps().active_mtu_bytes());
    rte_tel_data_add_dict_u64(data, "turns", endpoint.turns());
    rte_tel_data_add_dict_u64(data, "background_turns", endpoint.background_turns());
    if (look == Look::kInside) return describe_engine(endpoint, data);
    rte_tel_data_add_dict_string(data, "engine", "stuck: a thread of the program has been inside for over 200 ms");
  });
}

/// Endpoint `number` joins the capture. False, with one line in `error`, when it cannot.
bool join_capture(uint64_t number, const std::string& name, std::string& error) {
  std::string port;
  bool joined = false;
  // The same before memory is made for it, which takes time, and after.
  const auto may_join = [&](EndpointImpl& endpoint, Look look) {
    joined = look == Look::kInside && endpoint.captures().is_live(name);
    error = look == Look::kOutside          ? "a thread of the program has been inside for over 200 ms"
            : endpoint.captures().is_live() ? "another `uroce capture` takes its frames already"
                                            : "";
    return error.empty();
  };
  error = "it is just closing its device";
  reply(number, [&](EndpointImpl& endpoint, Look look) {
    if (may_join(endpoint, look)) port = endpoint.port_name();
  });
  if (joined || !error.empty()) return joined;
  std::unique_ptr<LiveCapture> live = LiveCapture::create(name, port, error);
  if (!live) return false;
  reply(number, [&](EndpointImpl& endpoint, Look look) {
    if (!may_join(endpoint, look)) return;
    live = endpoint.captures().attach(std::move(live));
    joined = true;
  });
  return joined;
}

int on_capture(const char* /*cmd*/, const char* params, rte_tel_data* data) {
  if (params == nullptr || *params == 0) return -1;
  uint64_t joined = 0;
  std::string error;
  for (const uint64_t number : EndpointRegistry::get().numbers()) {
    std::string why;
    if (join_capture(number, params, why)) {
      joined++;
    } else {
      error = why;
    }
  }
  rte_tel_data_start_dict(data);
  rte_tel_data_add_dict_u64(data, "joined", joined);
  rte_tel_data_add_dict_string(data, "error", error.substr(0, RTE_TEL_MAX_STRING_LEN - 1).c_str());
  return 0;
}

/// DPDK's thread, which calls this, cannot handle exceptions.
template <int (*kAnswer)(const char*, const char*, rte_tel_data*)>
int answer(const char* command, const char* params, rte_tel_data* data) try {
  return kAnswer(command, params, data);
} catch (const std::bad_alloc&) {
  return -1;
}

}  // namespace

void register_telemetry() {
  static std::once_flag once;
  std::call_once(once, [] {
    rte_telemetry_register_cmd("/uroce/endpoints", answer<on_list>,
                               "Numbers of all endpoints of the process, the oldest first. No parameters");
    rte_telemetry_register_cmd("/uroce/counters", answer<on_counters>,
                               "Every counter of an endpoint. Parameters: its number; without it, the oldest");
    rte_telemetry_register_cmd("/uroce/qps", answer<on_qp_list>,
                               "Numbers of all queue pairs. Parameters: the endpoint's number; without it, the oldest");
    rte_telemetry_register_cmd("/uroce/qp", answer<on_qp>,
                               "One queue pair. Parameters: its number[,the endpoint's; without it, the oldest]");
    rte_telemetry_register_cmd("/uroce/endpoint", answer<on_endpoint>,
                               "What an endpoint is. Parameters: its number; without it, the oldest");
    rte_telemetry_register_cmd(
        kObjectsCommand, answer<on_objects>,
        "Objects of the device with a MAC. Parameters: the MAC as a number, kind, how many to skip");
    rte_telemetry_register_cmd(kDeviceCountersCommand, answer<on_device_counters>,
                               "What was counted on the device with a MAC. Parameters: the MAC as a number");
    rte_telemetry_register_cmd("/uroce/capture", answer<on_capture>,
                               "All endpoints give their frames to `uroce capture`. Parameters: its name");
  });
}

}  // namespace uroce
