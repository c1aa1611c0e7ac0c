// What a cable does to the frames on it, when it is told to.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mqnic::card {

/// Everything zero: a perfect cable. Chances are of one frame, 0 to 1.
struct WireKnobs {
  uint64_t bandwidth_bps = 0;  // 0: as fast as it goes. Preamble, FCS and gap count, as on Ethernet
  uint64_t delay_ns = 0;
  double loss = 0;
  double corrupt = 0;  // one bit is wrong
  double duplicate = 0;
  double reorder = 0;              // the frame goes after the one that follows it
  uint16_t pause_quanta = 0;       // pause frames towards the card, ...
  uint64_t pause_interval_ns = 0;  // ... one in every interval
  uint64_t seed = 1;               // the same seed: the same fate of the same frames

  bool any() const {
    return bandwidth_bps != 0 || delay_ns != 0 || loss > 0 || corrupt > 0 || duplicate > 0 || reorder > 0 ||
           pause_interval_ns != 0;
  }
};

inline constexpr std::array<const char*, 8> kWireKnobNames = {"bandwidth", "delay",   "loss",  "corrupt",
                                                              "duplicate", "reorder", "pause", "seed"};

/// Takes one knob from text: bandwidth=10G delay=20us loss=0.01 corrupt=1e-6 duplicate=0.1% reorder=0.01
/// pause=65535@1ms seed=7. False: `error` is one line that says what is wrong with it.
bool set_wire_knob(WireKnobs& knobs, const std::string& name, const std::string& value, std::string& error);

}  // namespace mqnic::card
