// Settings of what a cable does to frames.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mqnic::card {

/// With everything 0 the cable is perfect. Probabilities are per frame, 0 to 1.
struct WireKnobs {
  uint64_t bandwidth_bps = 0;  // 0: no limit. Preamble, FCS and gap count, as on Ethernet
  uint64_t delay_ns = 0;
  double loss = 0;
  double corrupt = 0;  // one bit is wrong
  double duplicate = 0;
  double reorder = 0;              // the frame goes after the one that follows it
  uint16_t pause_quanta = 0;       // quanta of pause frames that are sent to the card
  uint64_t pause_interval_ns = 0;  // the interval between these pause frames
  uint64_t seed = 1;               // with the same seed, the same happens to the same frames

  bool any() const {
    return bandwidth_bps != 0 || delay_ns != 0 || loss > 0 || corrupt > 0 || duplicate > 0 || reorder > 0 ||
           pause_interval_ns != 0;
  }
};

inline constexpr std::array<const char*, 8> kWireKnobNames = {"bandwidth", "delay",   "loss",  "corrupt",
                                                              "duplicate", "reorder", "pause", "seed"};

/// Sets one knob from text, such as: bandwidth=10G delay=20us loss=0.01 corrupt=1e-6 duplicate=0.1% reorder=0.01
/// pause=65535@1ms seed=7. Returns false, with one line in `error`, when the text is wrong.
bool set_wire_knob(WireKnobs& knobs, const std::string& name, const std::string& value, std::string& error);

}  // namespace mqnic::card
