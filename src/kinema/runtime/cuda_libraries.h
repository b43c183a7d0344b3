#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::runtime {

/// A file that the CUDA plugin opens by itself, beside the driver.
struct CudaPart {
  std::string_view name;     // "cuBLAS"
  std::string_view file;     // "libcublas.so.13"
  std::string_view in_tree;  // its path in NVIDIA's wheels: "nvidia/cu13/lib/libcublas.so.13"
  std::string_view purpose;  // "matmuls"
  bool to_plan = false;      // compiling for a GPU that is not here needs it too
};

/// A part and where the plugin will find it; an empty path where it will not.
struct FoundCudaPart {
  CudaPart part;
  std::filesystem::path path;
};

/// Looks for every part where `plugin` does: in the tree of NVIDIA's wheels that it lies in, then
/// where the dynamic loader finds libraries, then in the CUDA toolkit.
std::vector<FoundCudaPart> find_cuda_parts(const std::filesystem::path& plugin);

/// The NVIDIA driver of this machine. Where it cannot be used, `problem` says why.
struct CudaDriver {
  std::filesystem::path path;  // of libcuda.so.1
  std::string version;         // the newest CUDA it runs: "13.2"
  int64_t devices = 0;
  std::string problem;
};

/// Loads libcuda.so.1 and asks it. Does not throw for what is missing.
CudaDriver find_cuda_driver();

}  // namespace kinema::runtime
