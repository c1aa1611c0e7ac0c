// A flag that one of the suite's files asks for, and that its public tree does not have.
#pragma once

#include "absl/flags/flag.h"

ABSL_FLAG(bool, silicon, false, "the device is no model, and needs less time");
