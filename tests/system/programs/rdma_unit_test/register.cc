// Makes uroce known to rdma-unit-test, which refuses a kind of device that it does not know. No deviation is declared:
// what the suite expects of every device is expected of ours, and its list of deviations, tests to be passed over, is
// empty.
#include <string>

#include "infiniband/verbs.h"
#include "internal/introspection_registrar.h"
#include "public/introspection.h"

namespace {

// Before main(), where the suite registers the tests that it knows itself.
[[maybe_unused]] const bool kRegistered = [] {
  rdma_unit_test::IntrospectionRegistrar::GetInstance().Register(
      "uroce", [](const std::string& name, const ibv_device_attr& attributes) {
        return new rdma_unit_test::NicIntrospection(name, attributes);
      });
  return true;
}();

}  // namespace
