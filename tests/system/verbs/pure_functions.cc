// Prints what the functions of libibverbs say that are nothing but tables and conversions: pure_functions_test.py
// compares the shim's answers with the distribution's.
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

// Not in a header of Debian's.
extern "C" {
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, ib_uverbs_ah_attr* from);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, ib_uverbs_qp_attr* from);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from);
}

namespace {

/// Fills it with bytes that all differ.
template <typename T>
void fill(T& value, uint8_t seed) {
  auto* bytes = reinterpret_cast<uint8_t*>(&value);
  for (size_t i = 0; i < sizeof value; i++) bytes[i] = static_cast<uint8_t>(seed + i * 37);
}

void print(const char* name, const void* value, size_t size) {
  std::printf("%s", name);
  const auto* bytes = static_cast<const uint8_t*>(value);
  for (size_t i = 0; i < size; i++) std::printf(" %02x", bytes[i]);
  std::printf("\n");
}

template <typename To, typename From>
void convert(const char* name, void (*function)(To*, From*)) {
  for (const uint8_t seed : {uint8_t{0}, uint8_t{1}, uint8_t{0x80}}) {
    From from;
    To to;
    std::memset(static_cast<void*>(&to), 0, sizeof to);
    fill(from, seed);
    function(&to, &from);
    print(name, &to, sizeof to);
  }
}

}  // namespace

int main() {
  for (int i = -1; i < 40; i++) {
    std::printf("%d: status '%s', node '%s', port '%s'\n", i, ibv_wc_status_str(static_cast<ibv_wc_status>(i)),
                ibv_node_type_str(static_cast<ibv_node_type>(i)), ibv_port_state_str(static_cast<ibv_port_state>(i)));
    std::printf("%d: event '%s'\n", i, ibv_event_type_str(static_cast<ibv_event_type>(i)));
    const auto rate = static_cast<ibv_rate>(i);
    std::printf("%d: rate %d times, %d Mb/s\n", i, ibv_rate_to_mult(rate), ibv_rate_to_mbps(rate));
  }
  for (int i = -1; i < 500; i++) std::printf("%d times: rate %d\n", i, mult_to_ibv_rate(i));
  for (int i = 0; i < 40; i++) {
    const int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(i));
    for (const int near : {mbps - 1, mbps, mbps + 1}) std::printf("%d Mb/s: rate %d\n", near, mbps_to_ibv_rate(near));
  }
  convert("handle", ibv_copy_ah_attr_from_kern);
  convert("queue pair", ibv_copy_qp_attr_from_kern);
  convert("path, from", ibv_copy_path_rec_from_kern);
  convert("path, to", ibv_copy_path_rec_to_kern);
  return 0;
}
