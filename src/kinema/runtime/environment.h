#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/pjrt/device.h"
#include "kinema/runtime/client.h"

namespace kinema::runtime {

/// What `kinema doctor` prints. When something is missing, `problem` says what and how to get it
/// and the fields after it stay empty.
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

/// Looks for the plugin, loads it and opens its devices. Does not throw for what is missing.
Environment describe_environment(const ClientSpec& spec = {});

/// Memory of this machine that may still be taken without swapping, or what the control group of
/// this process leaves of it, in bytes.
int64_t available_memory_bytes();

/// Returns what was freed to the system, as far as the C library lets it: after a compilation, or
/// before somebody asks what is available.
void give_back_free_memory();

/// Resident memory of this process now, in bytes.
int64_t rss_bytes();

/// Highest resident memory of this process so far, in bytes.
int64_t peak_rss_bytes();

/// Starts the peak anew where the kernel allows it (Linux clear_refs); false where it does not.
bool reset_peak_rss();

}  // namespace kinema::runtime
