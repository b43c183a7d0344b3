#include "kinema/resolve/process_launch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "kinema/core/error.h"
#include "kinema/remote/http.h"
#include "kinema/resolve/device.h"
#include "kinema/runtime/client.h"

namespace kinema::resolve {
namespace {

/// An attribute of this machine from Google's metadata server.
std::optional<std::string> instance_attribute(std::string_view name) {
  const char* const host = std::getenv("GCE_METADATA_HOST");
  try {
    const remote::Response answer =
        remote::send({.url = fmt::format(
                          "http://{}/computeMetadata/v1/instance/attributes/{}",
                          host == nullptr || *host == 0 ? "metadata.google.internal" : host, name),
                      .headers = {"Metadata-Flavor: Google"}},
                     {.connect_s = 3, .stall_s = 3, .retries = 0});
    return answer.status == 200 ? std::optional(answer.body) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

world::Launch process_launch(const config::Config& config, const world::Launch& launched) {
  world::Launch found = launched;
  if (config.run.hardware == config::Hardware::TPU && !has_mock_devices(config)) {
    const world::Environment own = world::own_environment();
    found = world::detect_tpu_launch(
        runtime::shows_tpu() ? world::with_tpu_metadata(own, instance_attribute) : own);
  }
  const config::RuntimeConfig& keys = config.runtime;
  return world::configured_launch(
      found, keys.process_id,
      keys.num_processes.given ? std::optional(keys.num_processes.value) : std::nullopt,
      keys.coordinator_address);
}

}  // namespace kinema::resolve
