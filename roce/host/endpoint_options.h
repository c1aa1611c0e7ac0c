// The words of a user's configuration, read in one place for the environment and for the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/endpoint_config.h"

namespace uroce {

inline constexpr uint32_t kMtuMin = 576;  // what IPv4 promises; carries RoCE MTU 256
inline constexpr uint32_t kMtuMax = 9216;

// Each: false when the text is none of the words; the value is left alone then.
bool parse_progress(const std::string& text, Progress& progress);           // auto, inline, thread
bool parse_hugepages(const std::string& text, Hugepages& hugepages);        // auto, yes, no
bool parse_loss_recovery(const std::string& text, LossRecovery& recovery);  // auto, go-back-n, selective
bool parse_mtu(const std::string& text, uint32_t& mtu);
/// "10.0.0.1/24 fd00::1/64@100", separated by blanks or commas; appended.
bool parse_addresses(const std::string& text, std::vector<LocalAddress>& addresses, std::string& error);

std::vector<std::string> split_words(const std::string& text);

}  // namespace uroce
