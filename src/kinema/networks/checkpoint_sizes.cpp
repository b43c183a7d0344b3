#include "kinema/networks/checkpoint_sizes.h"

namespace kinema::networks {

const Dims& CheckpointSizes::dims(const std::string& key, size_t axes) const {
  const io::TensorView& view = checkpoint_.at(key);
  check(view.shape.dims.size() == axes, "[weights] {}: `{}` is {} but must have {} axes",
        checkpoint_.path(), view.name, to_string(view.shape), axes);
  return view.shape.dims;
}

int64_t CheckpointSizes::count(std::string_view key) const {
  const size_t at = key.find("{}");
  int64_t layers = 0;
  for (;; ++layers) {
    std::string layer(key);
    if (checkpoint_.find(layer.replace(at, 2, std::to_string(layers))) == nullptr) {
      return layers;
    }
  }
}

Tensor one_frame(Tensor latents, std::string_view model) {
  check(latents.rank() == 5 && latents.dim(2) == 1,
        "[{}] latents are {} but must be [b, c, 1, h, w]: this family makes images", model,
        to_string(latents.shape()));
  return squeeze(latents, Axis(2));
}

}  // namespace kinema::networks
