#include "kinema/serve/engine_process.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "kinema/core/error.h"

namespace kinema::serve {

EngineProcess::EngineProcess(const std::vector<std::string>& command,
                             const std::filesystem::path& log) {
  std::array<int, 2> ends{};
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
        "[serve] no socket for the engine can be made: {}", std::strerror(errno));
  channel_ = std::make_unique<Channel>(io::Descriptor(ends[0]));
  const io::Descriptor theirs(ends[1]);
  child_ = std::make_unique<Child>(ChildStart{.command = command, .log = log, .socket = &theirs});
}

}  // namespace kinema::serve
