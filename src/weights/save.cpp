#include <memory>
#include <utility>

#include "core/error.h"
#include "io/model_folder.h"
#include "weights/config.h"
#include "weights/weights.h"

namespace kinema::weights {
namespace {

/// Brings one parameter at a time to the host; the layers of a stack follow one another, so that a
/// stack is fetched once.
class Fetch {
 public:
  Fetch(std::span<const nn::ParamSpec> specs, std::span<const pjrt::Buffer> buffers)
      : specs_(specs), buffers_(buffers) {}

  HostArray layer(size_t parameter, int64_t layer, DType dtype) {
    if (held_ != static_cast<int64_t>(parameter)) {
      array_ = HostArray();
      array_ = buffers_[parameter].to_host();
      held_ = static_cast<int64_t>(parameter);
    }
    HostArray one(specs_[parameter].layer_shape());
    const auto from = array_.bytes.begin() + layer * static_cast<int64_t>(one.bytes.size());
    std::copy_n(from, one.bytes.size(), one.bytes.begin());
    return one.shape.dtype == dtype ? std::move(one) : convert(one, dtype);
  }

 private:
  std::span<const nn::ParamSpec> specs_;
  std::span<const pjrt::Buffer> buffers_;
  int64_t held_ = -1;
  HostArray array_;
};

}  // namespace

void save(const std::filesystem::path& folder, const wan::TransformerConfig& config,
          std::span<const nn::ParamSpec> specs, std::span<const pjrt::Buffer> buffers,
          std::optional<DType> dtype, int64_t max_shard_bytes) {
  check(specs.size() == buffers.size(), "[weights] {} buffers were given for {} parameters",
        buffers.size(), specs.size());
  Fetch fetch(specs, buffers);
  std::vector<io::TensorEntry> entries;
  for (size_t i = 0; i < specs.size(); ++i) {
    check(buffers[i].shape() == specs[i].shape, "[weights] `{}` is {} on the device, expected {}",
          specs[i].name, to_string(buffers[i].shape()), to_string(specs[i].shape));
    Shape shape = specs[i].layer_shape();
    shape.dtype = dtype.value_or(shape.dtype);
    for (int64_t layer = 0; layer < specs[i].count(); ++layer) {
      entries.push_back(io::TensorEntry::lazy(
          specs[i].key(layer), shape,
          [&fetch, i, layer, to = shape.dtype] { return fetch.layer(i, layer, to); }));
    }
  }
  io::write_model_folder(folder, config_json(config), entries,
                         {.max_shard_bytes = max_shard_bytes});
}

}  // namespace kinema::weights
