#pragma once

#include "kinema/serve/maker.h"

namespace kinema::serve {

/// The descriptor that an engine's process gets for its messages.
inline constexpr int kEngineSocket = 3;

/// An engine's process: makes what is asked for over the socket, and ends the process when that is
/// closed. Whatever the maker throws is reported, and the next request is served.
///
/// Messages to it, one JSON object a line: {"make": MakeSettings}, {"stop": true}. From it:
/// {"ready": device}, {"phase": text}, {"step": n, "steps": n}, {"notice": text}, {"memory":
/// bytes}, {"preview": base64}, and at the end of
/// each request one of {"made": Made}, {"failed": text}, {"stopped": true}.
[[noreturn]] void run_engine(int socket, Maker& maker, const std::string& device);

}  // namespace kinema::serve
