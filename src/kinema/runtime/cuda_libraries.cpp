#include "kinema/runtime/cuda_libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace kinema::runtime {
namespace {

namespace fs = std::filesystem;

// Machine code needs nvJitLink or ptxas; the plugin prefers the former. libdevice contains the
// mathematical functions that kernels call.
constexpr std::array<CudaPart, 11> kParts = {{
    {"nvJitLink", "libnvJitLink.so.13", "nvidia/cu13/lib/libnvJitLink.so.13", "machine code", true},
    {"libdevice", "libdevice.10.bc", "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
     "mathematics in kernels", true},
    {"cudart", "libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13", "devices"},
    {"cuBLAS", "libcublas.so.13", "nvidia/cu13/lib/libcublas.so.13", "matmuls"},
    {"cuDNN", "libcudnn.so.9", "nvidia/cudnn/lib/libcudnn.so.9", "convolutions, attention"},
    {"NVRTC", "libnvrtc.so.13", "nvidia/cu13/lib/libnvrtc.so.13", "kernels that cuDNN compiles"},
    {"NCCL", "libnccl.so.2", "nvidia/nccl/lib/libnccl.so.2", "several GPUs"},
    {"cuFFT", "libcufft.so.12", "nvidia/cu13/lib/libcufft.so.12", "opened with the device"},
    {"cuSOLVER", "libcusolver.so.12", "nvidia/cu13/lib/libcusolver.so.12",
     "opened with the device"},
    {"cuSPARSE", "libcusparse.so.12", "nvidia/cu13/lib/libcusparse.so.12",
     "opened with the device"},
    {"CUPTI", "libcupti.so.13", "nvidia/cu13/lib/libcupti.so.13", "enable_profiler"},
}};

/// A library opened by the dynamic loader, while the object exists.
class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {}

  explicit operator bool() const { return handle_ != nullptr; }

  fs::path path() const {
    link_map* map = nullptr;
    const bool known = handle_ != nullptr && dlinfo(handle_.get(), RTLD_DI_LINKMAP, &map) == 0;
    return known ? map->l_name : "";
  }

  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(handle_.get(), name));
  }

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle_;
};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

fs::path find_library(const CudaPart& part) {
  return Library(std::string(part.file).c_str()).path();
}

fs::path find_in_toolkit(const CudaPart& part) {
  const fs::path file = fs::path("/usr/local/cuda/nvvm/libdevice") / part.file;
  return is_file(file) ? file : fs::path();
}

/// `ptxas` can replace nvJitLink.
fs::path find_ptxas(const fs::path& tree) {
  if (const fs::path own = tree / "nvidia/cu13/bin/ptxas"; is_file(own)) {
    return own;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (const fs::path file = fs::path(folder) / "ptxas"; is_file(file)) {
      return file;
    }
  }
  const fs::path toolkit = "/usr/local/cuda/bin/ptxas";
  return is_file(toolkit) ? toolkit : fs::path();
}

fs::path find_part(const CudaPart& part, const fs::path& plugin) {
  // jax_plugins/xla_cuda13/xla_cuda_plugin.so: the root of the tree is two or one folders up.
  const fs::path folder = plugin.parent_path();
  const fs::path outer = folder.parent_path().parent_path();
  for (const fs::path& tree : {outer, folder.parent_path()}) {
    if (const fs::path file = tree / part.in_tree; is_file(file)) {
      return file;
    }
  }
  if (part.file.ends_with(".bc")) {
    return find_in_toolkit(part);
  }
  fs::path found = find_library(part);
  return found.empty() && part.name == "nvJitLink" ? find_ptxas(outer) : found;
}

std::string version_text(int version) {
  constexpr int kMajor = 1000;
  constexpr int kMinor = 10;
  return fmt::format("{}.{}", version / kMajor, version % kMajor / kMinor);
}

}  // namespace

std::vector<FoundCudaPart> find_cuda_parts(const fs::path& plugin) {
  std::vector<FoundCudaPart> out;
  for (const CudaPart& part : kParts) {
    out.push_back({part, find_part(part, plugin)});
  }
  return out;
}

CudaDriver find_cuda_driver() {
  CudaDriver out;
  const Library driver("libcuda.so.1");
  out.path = driver.path();
  if (!driver) {
    out.problem = "libcuda.so.1 is not found";
    return out;
  }
  const auto init = driver.function<int (*)(unsigned)>("cuInit");
  const auto get_version = driver.function<int (*)(int*)>("cuDriverGetVersion");
  const auto get_count = driver.function<int (*)(int*)>("cuDeviceGetCount");
  if (init == nullptr || get_version == nullptr || get_count == nullptr) {
    out.problem = "it lacks functions of a driver";
    return out;
  }
  int version = 0;
  if (get_version(&version) == 0) {
    out.version = version_text(version);
  }
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  const int status = init(0);
  int count = 0;
  constexpr int kOldest = 13000;  // the plugin was built with this version
  if (version < kOldest) {
    out.problem = fmt::format("it is for CUDA {}, {} is needed (driver 580)", out.version,
                              version_text(kOldest));
  } else if (status != 0) {
    out.problem =
        status == kNoDevice ? "it sees no GPU" : fmt::format("cuInit gives error {}", status);
  } else if (get_count(&count) != 0 || count == 0) {
    out.problem = "it sees no GPU";
  }
  out.devices = count;
  return out;
}

}  // namespace kinema::runtime
