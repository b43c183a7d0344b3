#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/pjrt/device.h"
#include "kinema/runtime/client.h"

namespace kinema::runtime {

/// The output of `kinema doctor`. If something is missing, `problem` has the remedy and the fields
/// after it stay empty.
struct Environment {
  std::string cache_folder;
  std::string plugin_path;
  std::string problem;
  std::string pjrt_version;  // "0.81"
  std::string stablehlo_version;
  std::string platform_name;
  std::string platform_version;
  pjrt::NamedValues plugin_attributes;
  std::vector<pjrt::DeviceDescription> devices;
  bool has_ffi = false;
  std::string cpu_model;
  int64_t cpu_cores = 0;
  int64_t memory_bytes = 0;
};

/// Finds the plugin, loads it and opens its devices. Does not throw if something is missing.
Environment describe_environment(const ClientSpec& spec = {});

/// Bytes of this machine's memory that are available without swapping, or, if less, within the
/// limits of this process's control group and of its address space.
int64_t available_memory_bytes();

/// Returns freed memory to the system, as far as the C library supports it: after a compilation, or
/// before available memory is measured.
void release_free_memory();

/// Resident memory of this process now, in bytes.
int64_t rss_bytes();

/// Highest resident memory of this process so far, in bytes.
int64_t peak_rss_bytes();

/// Resets the peak if the kernel supports it (Linux clear_refs); returns false if not.
bool reset_peak_rss();

}  // namespace kinema::runtime
