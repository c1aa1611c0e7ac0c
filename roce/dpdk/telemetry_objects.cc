#include "dpdk/telemetry_objects.h"

#include <array>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "cm/rdma_cm.h"
#include "dpdk/endpoint_impl.h"
#include "dpdk/endpoint_registry.h"
#include "engine/object_tables.h"
#include "engine/qpn_blocks.h"
#include "engine/queue_pairs.h"
#include "host/object_rows.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "transport/tag_matching.h"

namespace uroce {

namespace {

static_assert(ObjectTables::kNumberBits + kQpnBlockBits == 32 && cm::kIdNumberBits == ObjectTables::kNumberBits);

/// A parsed question.
struct Question {
  uint64_t mac = 0;
  uint64_t kind = 0;
  uint64_t skip = 0;
};

/// Numbers with commas between them, and nothing else.
bool read_numbers(std::string_view text, std::initializer_list<uint64_t*> numbers) {
  for (uint64_t* const number : numbers) {
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (code != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    if (number == *(numbers.end() - 1)) break;
    if (!text.starts_with(',')) return false;
    text.remove_prefix(1);
  }
  return text.empty();
}

bool read_question(std::string_view text, Question& question) {
  return read_numbers(text, {&question.mac, &question.kind, &question.skip}) && question.kind < kObjectKinds;
}

/// An answer in the making. All objects are counted; rows are kept if they were asked for and fit.
class Rows {
 public:
  explicit Rows(uint64_t skip) : skip_(skip) {}

  template <typename Row>
  void add(const Row& row) {
    if (count_++ < skip_ || words_ + kRowWords < Row >> kObjectNumbersMax - 1) return;
    std::memcpy(&row_words_[words_], &row, sizeof row);
    words_ += kRowWords<Row>;
  }
  void put(rte_tel_data* data) const {
    rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
    rte_tel_data_add_array_u64(data, count_);
    for (size_t i = 0; i < words_; i++) rte_tel_data_add_array_u64(data, row_words_[i]);
  }

 private:
  const uint64_t skip_;
  uint64_t count_ = 0;
  size_t words_ = 0;
  std::array<uint64_t, kObjectNumbersMax> row_words_{};
};

AddressRow address_row(const cm::SocketAddress& address) {
  AddressRow row{static_cast<uint64_t>(address.family), 0, 0, address.port, address.scope_id};
  std::memcpy(&row.high, address.ip.bytes.data(), sizeof row.high);
  std::memcpy(&row.low, address.ip.bytes.data() + sizeof row.high, sizeof row.low);
  return row;
}

/// Lists the objects of an engine. Their numbers begin with one of its blocks of queue pair numbers, which no other
/// engine of the device has.
class Lister {
 public:
  Lister(EndpointImpl& endpoint, Rows& rows)
      : endpoint_(endpoint),
        engine_(endpoint.engine()),
        base_(uint64_t{engine_.own_block().value_or(0)} << ObjectTables::kNumberBits),
        rows_(rows) {}

  void list(ObjectKind kind) {
    switch (kind) {
      case ObjectKind::kContext:
        return rows_.add(ContextRow{base_});
      case ObjectKind::kPd:
        return engine_.objects().for_each_pd([&](PdId pd, uint64_t users) {
          rows_.add(PdRow{base_ | pd, base_, users});
        });
      case ObjectKind::kCq:
        return engine_.objects().for_each_cq([&](const CompletionQueue& cq) {
          rows_.add(CqRow{base_ | cq.listed_as, base_, cq.users, cq.capacity()});
        });
      case ObjectKind::kQp:
        return engine_.qps().for_each([&](const Qp& qp) { add(qp); });
      case ObjectKind::kCmId:
        return endpoint_.connections().for_each_listed([&](const cm::ListedId& id) { add(id); });
      case ObjectKind::kMr:
        return engine_.memory().for_each_region([&](uint32_t slot, const MemoryRegion& region) {
          rows_.add(MrRow{base_ | (slot + 1), base_ | region.pd, region.length});
        });
      case ObjectKind::kSrq:
        return engine_.objects().for_each_srq([&](const SharedReceiveQueue& srq) { add(srq); });
    }
  }

 private:
  uint64_t number_or_0(uint64_t number) const { return number != 0 ? base_ | number : 0; }
  void add(const Qp& qp) {
    const QpAttributes& a = qp.attributes();
    const SharedReceiveQueue* const srq = qp.init().srq;
    rows_.add(QpRow{qp.qpn(), number_or_0(qp.init().pd), static_cast<uint64_t>(qp.type()),
                    static_cast<uint64_t>(qp.state()), a.dest_qpn, a.rq_psn.value(), a.sq_psn.value(),
                    number_or_0(srq != nullptr ? srq->listed_as : 0)});
  }
  void add(const SharedReceiveQueue& srq) {
    constexpr uint64_t kBasic = 0, kXrc = 1, kTagMatching = 2;  // ibv_srq_type
    const CompletionQueue* const cq = srq.tags() != nullptr ? &srq.tags()->cq() : srq.xrc().cq;
    rows_.add(SrqRow{base_ | srq.listed_as, base_ | srq.pd(),
                     srq.tags() != nullptr   ? kTagMatching
                     : srq.xrc().domain != 0 ? kXrc
                                             : kBasic,
                     number_or_0(cq != nullptr ? cq->listed_as : 0)});
  }
  void add(const cm::ListedId& id) {
    rows_.add(CmIdRow{base_ | id.number, static_cast<uint64_t>(id.port_space), id.state, id.qpn,
                      static_cast<uint64_t>(id.qp_type), address_row(id.local), address_row(id.remote)});
  }

  EndpointImpl& endpoint_;
  Engine& engine_;
  const uint64_t base_;
  Rows& rows_;
};

}  // namespace

int on_objects(const char* /*command*/, const char* params, rte_tel_data* data) {
  struct Asked {
    Question question;
    Rows rows;
    bool readable = true;
  };
  Question question;
  if (!read_question(params == nullptr ? "" : params, question)) return -1;
  Asked asked{question, Rows(question.skip)};
  for (const uint64_t number : EndpointRegistry::get().numbers()) {
    EndpointRegistry::get().look_at(
        number,
        [](EndpointImpl& endpoint, Look look, void* context) {
          auto& [what, rows, readable] = *static_cast<Asked*>(context);
          if (number_of(endpoint.identity().guid_mac()) != what.mac) return;
          if (look == Look::kOutside) {
            readable = false;
          } else {
            Lister(endpoint, rows).list(static_cast<ObjectKind>(what.kind));
          }
        },
        &asked);
  }
  if (!asked.readable) return -1;
  asked.rows.put(data);
  return 0;
}

int on_device_counters(const char* /*command*/, const char* params, rte_tel_data* data) {
  uint64_t mac = 0;
  if (!read_numbers(params == nullptr ? "" : params, {&mac})) return -1;
  rte_tel_data_start_dict(data);
  const Counters counted = EndpointRegistry::get().counted_on(mac);
  for_each_counter(counted, [&](const char* name, uint64_t value) { rte_tel_data_add_dict_u64(data, name, value); });
  return 0;
}

}  // namespace uroce
