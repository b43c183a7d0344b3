#include <functional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

constexpr int64_t kShardBytes = int64_t{5} << 30;

/// Returns parameter i in host memory.
using ToHost = std::function<HostArray(size_t parameter)>;

/// Copies one parameter at a time to the host; the layers of a stack are consecutive, so that a
/// stack is fetched once.
class Fetch {
 public:
  Fetch(std::span<const nn::ParamSpec> specs, ToHost to_host)
      : specs_(specs), to_host_(std::move(to_host)) {}

  HostArray layer(size_t parameter, int64_t layer, DType dtype) {
    if (held_ != static_cast<int64_t>(parameter)) {
      array_ = HostArray();
      array_ = to_host_(parameter);
      held_ = static_cast<int64_t>(parameter);
      check(array_.shape == specs_[parameter].shape, "[weights] `{}` is {}, expected {}",
            specs_[parameter].name, to_string(array_.shape), to_string(specs_[parameter].shape));
    }
    HostArray one(specs_[parameter].layer_shape());
    const auto from = array_.bytes.begin() + layer * static_cast<int64_t>(one.bytes.size());
    std::copy_n(from, one.bytes.size(), one.bytes.begin());
    return one.shape.dtype == dtype ? std::move(one) : convert(one, dtype);
  }

 private:
  std::span<const nn::ParamSpec> specs_;
  ToHost to_host_;
  int64_t held_ = -1;
  HostArray array_;
};

void check_shapes(std::span<const nn::ParamSpec> specs, std::span<const Shape> shapes) {
  check(specs.size() == shapes.size(), "[weights] {} buffers were given for {} parameters",
        shapes.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    check(shapes[i] == specs[i].shape, "[weights] `{}` is {} on the device, expected {}",
          specs[i].name, to_string(shapes[i]), to_string(specs[i].shape));
  }
}

struct How {
  std::optional<DType> dtype;
  int64_t max_shard_bytes;
  std::vector<int64_t> owners = {};
  int64_t own = 0;
};

void save_all(const std::filesystem::path& folder, const io::Json& config,
              std::span<const nn::ParamSpec> specs, ToHost to_host, const How& how) {
  Fetch fetch(specs, std::move(to_host));
  std::vector<io::TensorEntry> entries;
  for (size_t i = 0; i < specs.size(); ++i) {
    Shape shape = specs[i].layer_shape();
    shape.dtype = how.dtype.value_or(shape.dtype);
    for (int64_t layer = 0; layer < specs[i].count(); ++layer) {
      entries.push_back(io::TensorEntry::lazy(
          specs[i].key(layer), shape,
          [&fetch, i, layer, to = shape.dtype] { return fetch.layer(i, layer, to); }));
    }
  }
  io::ModelFolderOptions options{
      .max_shard_bytes = how.max_shard_bytes, .owners = how.owners, .own = how.own};
  if (config.is_object() && config.contains("architectures")) {
    options.stem = "model";  // transformers' name of weights; else it is diffusers'
  }
  io::write_model_folder(folder, config, entries, options);
}

}  // namespace

void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, const ToHost& to_host, std::optional<DType> dtype,
          int64_t max_shard_bytes) {
  save_all(folder, config, specs, to_host, {dtype, max_shard_bytes});
}

void save_part(const std::filesystem::path& folder, const io::Json& config,
               std::span<const nn::ParamSpec> specs, const ToHost& to_host,
               std::vector<int64_t> owners, int64_t own) {
  save_all(folder, config, specs, to_host,
           {.dtype = {}, .max_shard_bytes = kShardBytes, .owners = std::move(owners), .own = own});
}

void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, std::span<const pjrt::Buffer> buffers,
          std::optional<DType> dtype, int64_t max_shard_bytes) {
  std::vector<Shape> shapes;
  for (const pjrt::Buffer& buffer : buffers) {
    shapes.push_back(buffer.shape());
  }
  check_shapes(specs, shapes);
  save_all(folder, config, specs, [&](size_t i) { return buffers[i].to_host(); },
           {dtype, max_shard_bytes});
}

void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, std::span<const runtime::Array> arrays,
          std::optional<DType> dtype, int64_t max_shard_bytes) {
  std::vector<Shape> shapes;
  for (const runtime::Array& array : arrays) {
    shapes.push_back(array.shape());
  }
  check_shapes(specs, shapes);
  save_all(folder, config, specs, [&](size_t i) { return arrays[i].to_host(); },
           {dtype, max_shard_bytes});
}

}  // namespace kinema::weights
