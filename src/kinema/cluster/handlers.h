#pragma once

#include <memory>

#include "kinema/cluster/exchange.h"
#include "kinema/pjrt/plugin.h"

namespace kinema::cluster {

/// Registers the handlers of collectives with a plugin; calling it once is enough.
void register_handlers(const pjrt::Plugin& plugin);

/// Serves a program's calls while the result exists. Null if the program's number is used by
/// another exchange.
std::shared_ptr<const void> serve(const std::shared_ptr<const SharedProgram>& program,
                                  const std::shared_ptr<Exchange>& exchange);

}  // namespace kinema::cluster
