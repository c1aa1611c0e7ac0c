// The engine that a script asks for in its first statement.
#pragma once

#include "engine/engine_config.h"
#include "script/script.h"

namespace uroce::script {

/// Throws ScriptError.
EngineConfig config_of(const Script& script);

}  // namespace uroce::script
