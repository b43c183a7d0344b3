#include "kinema/pjrt/topology.h"

#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/named_values.h"

namespace kinema::pjrt {

Topology::Topology(const Plugin& plugin, const std::string& name, const NamedValues& options)
    : plugin_(&plugin) {
  const NamedValues checked = checked_options(options);
  const std::vector<PJRT_NamedValue> values = to_named_values(checked);
  topology_ = KINEMA_PJRT(plugin.api(), TopologyDescription_Create, .topology_name = name.data(),
                          .topology_name_size = name.size(), .create_options = values.data(),
                          .num_options = values.size())
                  .topology;
}

Topology::Topology(Topology&& other) noexcept
    : plugin_(other.plugin_), topology_(std::exchange(other.topology_, nullptr)) {}

Topology& Topology::operator=(Topology&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(topology_, other.topology_);
  return *this;
}

Topology::~Topology() {
  if (topology_ == nullptr) return;
  ignoring_errors(
      [&] { KINEMA_PJRT(plugin_->api(), TopologyDescription_Destroy, .topology = topology_); });
}

std::string Topology::platform_name() const {
  const auto reply =
      KINEMA_PJRT(plugin_->api(), TopologyDescription_PlatformName, .topology = topology_);
  return std::string(view(reply.platform_name, reply.platform_name_size));
}

std::string Topology::platform_version() const {
  const auto reply =
      KINEMA_PJRT(plugin_->api(), TopologyDescription_PlatformVersion, .topology = topology_);
  return std::string(view(reply.platform_version, reply.platform_version_size));
}

std::vector<DeviceDescription> Topology::devices() const {
  const auto reply =
      KINEMA_PJRT(plugin_->api(), TopologyDescription_GetDeviceDescriptions, .topology = topology_);
  std::vector<DeviceDescription> out;
  for (size_t i = 0; i < reply.num_descriptions; ++i) {
    out.push_back(describe(plugin_->api(), reply.descriptions[i]));
  }
  return out;
}

NamedValues Topology::attributes() const {
  const auto reply =
      KINEMA_PJRT(plugin_->api(), TopologyDescription_Attributes, .topology = topology_);
  return read_named_values(reply.attributes, reply.num_attributes);
}

Compiled Topology::compile(std::string_view program, const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  constexpr std::string_view kFormat = "mlir";
  std::string code(program);
  const PJRT_Program source{.struct_size = PJRT_Program_STRUCT_SIZE,
                            .code = code.data(),
                            .code_size = code.size(),
                            .format = kFormat.data(),
                            .format_size = kFormat.size()};
  const auto reply =
      KINEMA_PJRT(plugin_->api(), Compile, .topology = topology_, .program = &source,
                  .compile_options = serialized.data(), .compile_options_size = serialized.size());
  return {&plugin_->api(), reply.executable};
}

}  // namespace kinema::pjrt
