#pragma once

#include <memory>

#include "kinema/cluster/exchange.h"
#include "kinema/pjrt/plugin.h"

namespace kinema::cluster {

/// Makes the handlers of collectives known to a plugin; once is enough.
void register_handlers(const pjrt::Plugin& plugin);

/// What calls of a program reach while the result lives. Null where the program's number is that of
/// another exchange's program.
std::shared_ptr<const void> serve(const std::shared_ptr<const SharedProgram>& program,
                                  const std::shared_ptr<Exchange>& exchange);

}  // namespace kinema::cluster
