// Stands in for Abseil's own, which is younger than Debian 12's Abseil: what rdma-unit-test uses of it.
#pragma once

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rdma_unit_test_adapters {

inline const absl::Status& status_of(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& status_of(const absl::StatusOr<T>& status) {
  return status.status();
}

}  // namespace rdma_unit_test_adapters

#define CHECK(condition) LOG_IF(FATAL, !(condition)) << "Check failed: " #condition " "
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
#define CHECK_OK(status) CHECK(::rdma_unit_test_adapters::status_of(status).ok())

#define DCHECK(condition) CHECK(condition)
#define DCHECK_EQ(a, b) CHECK_EQ(a, b)
#define DCHECK_NE(a, b) CHECK_NE(a, b)
#define DCHECK_LT(a, b) CHECK_LT(a, b)
#define DCHECK_LE(a, b) CHECK_LE(a, b)
#define DCHECK_GT(a, b) CHECK_GT(a, b)
#define DCHECK_GE(a, b) CHECK_GE(a, b)
