// The words of a user's configuration, read in one place for the environment and for the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/endpoint_config.h"

namespace uroce {

inline constexpr uint32_t kMtuMin = 576;  // what IPv4 guarantees; enough for RoCE MTU 256
inline constexpr uint32_t kMtuMax = 9216;
inline constexpr uint32_t kMaxQpsMost = 131072;

// These return false, and leave the value alone, when the text is none of the words.
bool parse_progress(const std::string& text, Progress& progress);           // auto, inline, thread
bool parse_hugepages(const std::string& text, Hugepages& hugepages);        // auto, yes, no
bool parse_loss_recovery(const std::string& text, LossRecovery& recovery);  // auto, go-back-n, selective
bool parse_direct_copy(const std::string& text, DirectCopying& copying);    // auto, off
bool parse_max_qps(const std::string& text, uint32_t& max_qps);
bool parse_mtu(const std::string& text, uint32_t& mtu);
/// What `--faults` takes (fabric/link_faults.h). Returns false, with one line in `error`, and leaves `faults` alone,
/// when it is malformed; an empty text is none.
bool parse_faults(const std::string& text, fabric::LinkFaults& faults, std::string& error);
/// Appends addresses such as "10.0.0.1/24 fd00::1/64@100", which are separated by blanks or commas.
bool parse_addresses(const std::string& text, std::vector<LocalAddress>& addresses, std::string& error);

std::vector<std::string> split_words(const std::string& text);

}  // namespace uroce
