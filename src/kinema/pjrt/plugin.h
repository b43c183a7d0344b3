#pragma once

#include <cstdint>
#include <string>

#include "kinema/pjrt/value.h"

struct PJRT_Api;

namespace kinema::pjrt {

/// A PJRT plugin: a shared library that stays loaded until the process ends.
class Plugin {
 public:
  /// Loads and initialises the plugin at `path`; a second call for the same file returns the same
  /// instance. Thread-safe. Throws an Error if the file is missing, is not a PJRT plugin, or has an
  /// unsupported PJRT version.
  static const Plugin& load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& path() const { return path_; }
  /// PJRT C API version of the plugin, e.g. 0 and 81.
  int major_version() const { return major_; }
  int minor_version() const { return minor_; }
  /// The plugin's attributes (`xla_version`, `stablehlo_current_version`, ...).
  const NamedValues& attributes() const { return attributes_; }
  /// `1.13.3`, the newest StableHLO that it reads; empty if unknown.
  std::string stablehlo_version() const;

  /// The extension of this type (PJRT_Extension_Type) as the address of its struct, or nullptr.
  const void* extension(int type) const;

  /// Makes a typed FFI handler callable as `stablehlo.custom_call @name` with `api_version = 4`.
  ///
  /// `handler` is an XLA_FFI_Handler*; `platform` is "Host" for the CPU plugin, "CUDA" for NVIDIA.
  /// Registering the same handler under the same name again does nothing. Throws an Error if the
  /// plugin has no FFI extension or rejects the handler.
  void register_ffi_handler(const std::string& name, void* handler,
                            const std::string& platform = "Host") const;

  const PJRT_Api& api() const { return *api_; }

 private:
  Plugin(std::string path, const PJRT_Api* api);

  std::string path_;
  const PJRT_Api* api_;
  int major_ = 0;
  int minor_ = 0;
  NamedValues attributes_;
};

}  // namespace kinema::pjrt
