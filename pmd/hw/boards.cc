#include "pmd/hw/boards.h"

#include <algorithm>
#include <iterator>

namespace mqnic {

namespace {

struct Board {
  uint32_t id;
  const char* name;
};

constexpr Board kBoards[] = {
    {0x10ee7028, "NetFPGA SUME"},
    {0x10ee9032, "Xilinx Alveo U50"},
    {0x10ee90c8, "Xilinx Alveo U200"},
    {0x10ee90fa, "Xilinx Alveo U250"},
    {0x10ee9118, "Xilinx Alveo U280"},
    {0x10ee806c, "Xilinx VCU108"},
    {0x10ee9076, "Xilinx VCU118"},
    {0x10ee95f5, "Xilinx VCU1525"},
    {0x10ee906a, "Xilinx ZCU106"},
    {0x11720001, "Intel DK-DEV-1SMX-H-A"},
    {0x1172a00d, "Intel DK-DEV-1SDX-P-A"},
    {0x1172b00e, "Intel DK-DEV-AGF014EA"},
    {0x1172b00a, "Terasic DE10-Agilex"},
    {0x12ba9823, "BittWare XUP-P3R"},
    {0x198a250e, "BittWare 250-SoC"},
    {0x1c2c9403, "Silicom fb4CGg3@VU9P"},
    {0x1c2ca00e, "Silicom fb2CG@KU15P"},
    {0x1ce40003, "Exablaze ExaNIC X10"},
    {0x1ce40009, "Exablaze ExaNIC X25"},
    {0x1ce4000a, "Exablaze ExaNIC X100"},
    {0x17df1a00, "Dini Group DNPCIe_40G_KU_LL_2QSFP"},
    {0x41449003, "Alpha Data ADM-PCIE-9V3"},
};

}  // namespace

const char* board_name(uint32_t board_id) {
  const auto* const found = std::find_if(std::begin(kBoards), std::end(kBoards),
                                         [board_id](const Board& board) { return board.id == board_id; });
  return found == std::end(kBoards) ? nullptr : found->name;
}

}  // namespace mqnic
