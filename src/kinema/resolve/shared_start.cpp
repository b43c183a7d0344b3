#include "kinema/resolve/shared_start.h"

#include <fmt/format.h>

#include "kinema/config/keys.h"
#include "kinema/io/hash.h"
#include "kinema/io/json.h"
#include "kinema/runtime/compilation_watch.h"
#include "kinema/world/consistency.h"

namespace kinema::resolve {

std::shared_ptr<void> start_heartbeat(const config::Config& config, const Job& job) {
  job.world().begin(0, "getting ready", /*is_long=*/true);
  world::Heartbeat* const heartbeat = job.world().heartbeat();
  if (heartbeat == nullptr) {
    return nullptr;
  }
  heartbeat->set_timeout(static_cast<double>(config.runtime.heartbeat_timeout_seconds));
  return runtime::also_watch_compilation(
      [heartbeat](const std::string& /*program*/) { return heartbeat->long_operation(); });
}

void check_same_start(const config::Config& config, const flags::Effective& flags, const Job& job) {
  if (job.world().is_alone()) {
    return;
  }
  world::StartRecord record;
  record.emplace_back("the program", fmt::format("kinema {} ({})", KINEMA_VERSION,
                                                 io::hash_file("/proc/self/exe").substr(0, 12)));
  for (const config::KeyValue& each : config::describe(config)) {
    if (each.field.of != config::Of::PROCESS) {
      record.emplace_back(each.key, each.value);
    }
  }
  const io::Json in_force = flags::to_json(flags);
  for (const auto& [name, value] : in_force.members()) {
    if (value.is_object()) {
      for (const auto& [flag, setting] : value.members()) {
        record.emplace_back(flag, setting.dump(-1));
      }
    } else {
      record.emplace_back("the flags' " + name, value.dump(-1));
    }
  }
  world::check_consistent(job.world(), record, "the start");
}

}  // namespace kinema::resolve
