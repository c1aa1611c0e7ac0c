// One line of a comparison between what a script expects and what happened.
#pragma once

#include <string>

namespace uroce::script {

/// One line of a comparison.
struct FieldCheck {
  std::string field;
  std::string expected;
  std::string actual;
  bool same = true;
};

}  // namespace uroce::script
