#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/pjrt/compile_options.h"
#include "kinema/pjrt/device.h"
#include "kinema/pjrt/executable.h"
#include "kinema/pjrt/plugin.h"

struct PJRT_TopologyDescription;

namespace kinema::pjrt {

/// Devices to compile for, which need not be installed.
class Topology {
 public:
  /// `name` is the plugin's (`v6e:4x4`), as are options (`target_config`, `topology` for NVIDIA).
  Topology(const Plugin& plugin, const std::string& name, const NamedValues& options = {});
  Topology(Topology&& other) noexcept;
  Topology& operator=(Topology&& other) noexcept;
  ~Topology();

  std::string platform_name() const;
  std::string platform_version() const;
  std::vector<DeviceDescription> devices() const;
  NamedValues attributes() const;

  /// Compiles without a client. Throws an Error with the compiler's message, also for a program
  /// that does not fit into memory.
  Compiled compile(std::string_view program, const CompileOptions& options = {}) const;

 private:
  const Plugin* plugin_;
  PJRT_TopologyDescription* topology_ = nullptr;
};

}  // namespace kinema::pjrt
