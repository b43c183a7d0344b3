#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::runtime {

/// A file that the CUDA plugin opens, other than the driver.
struct CudaPart {
  std::string_view name;     // "cuBLAS"
  std::string_view file;     // "libcublas.so.13"
  std::string_view in_tree;  // its path in NVIDIA's wheels: "nvidia/cu13/lib/libcublas.so.13"
  std::string_view purpose;  // "matmuls"
  bool to_plan = false;      // also needed to compile for a GPU that is not installed
};

/// A part and its path; empty if it was not found.
struct FoundCudaPart {
  CudaPart part;
  std::filesystem::path path;
};

/// Searches every part as `plugin` does: in its tree of NVIDIA's wheels, then with the dynamic
/// loader, then in the CUDA toolkit.
std::vector<FoundCudaPart> find_cuda_parts(const std::filesystem::path& plugin);

/// The NVIDIA driver of this machine. If it cannot be used, `problem` is the reason.
struct CudaDriver {
  std::filesystem::path path;  // of libcuda.so.1
  std::string version;         // the newest CUDA it runs: "13.2"
  int64_t devices = 0;
  std::string problem;
};

/// Loads libcuda.so.1 and queries it. Does not throw if something is missing.
CudaDriver find_cuda_driver();

}  // namespace kinema::runtime
