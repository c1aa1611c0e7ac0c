// The wires of a card, one for each of its ports.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pmd/card/wire.h"

namespace mqnic::card {

class WireSet {
 public:
  /// Ports without a wire, or with nullptr, have nothing plugged in. Wires beyond the last port are dropped.
  WireSet(std::vector<std::unique_ptr<Wire>> wires, size_t ports) : wires_(std::move(wires)) { wires_.resize(ports); }

  /// The wire of a port; nullptr when there is no such port, or nothing is plugged in.
  Wire* at(size_t port) const { return port < wires_.size() ? wires_[port].get() : nullptr; }

  /// The wires as Card takes them.
  std::vector<Wire*> pointers() const {
    std::vector<Wire*> all;
    for (const auto& wire : wires_) all.push_back(wire.get());
    return all;
  }

  void take_messages(std::vector<std::string>& messages) {
    for (size_t port = 0; port < wires_.size(); port++) {
      if (wires_[port] == nullptr) continue;
      const std::string message = wires_[port]->take_message();
      if (!message.empty()) messages.push_back("wire of port " + std::to_string(port) + ": " + message);
    }
  }

 private:
  std::vector<std::unique_ptr<Wire>> wires_;
};

}  // namespace mqnic::card
