#include "kinema/verification/image_inputs.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::verification {
namespace {

constexpr double kTimesteps = 1000.0;

/// The largest of a column of positions [s, 3], and one more.
int64_t extent(const HostArray& ids, size_t column) {
  const HostArray wide = convert(ids, DType::F64);
  double largest = 0.0;
  const auto values = wide.as<double>();
  for (size_t i = column; i < values.size(); i += 3) {
    largest = std::max(largest, values[i]);
  }
  return static_cast<int64_t>(std::lround(largest)) + 1;
}

}  // namespace

ImageInputs::ImageInputs(Graph& graph, const Case& c, const networks::Sizes& sizes,
                         const std::string& with)
    : graph_(graph), case_(c), sizes_(sizes), with_(with), packed_(c.has("img_ids")) {
  if (packed_) {
    const HostArray ids = c.tensor("img_ids");
    check(ids.shape.rank() == 2 && ids.shape.dims[1] == 3,
          "[verify] img_ids is {} but must be [s, 3]", to_string(ids.shape));
    rows_ = extent(ids, 1);
    columns_ = extent(ids, 2);
    inputs_.latents = unpacked(input("hidden_states"));
    inputs_.timestep = input("timestep") * kTimesteps;
    inputs_.text = input("encoder_hidden_states");
    inputs_.pooled = input("pooled_projections");
  } else {
    inputs_.latents = expand_dims(input("sample"), Axis(2));
    inputs_.timestep = input("timestep");
    inputs_.text = input("encoder_hidden_states");
    inputs_.pooled = input("text_embeds");
    inputs_.size_ids = input("time_ids");
  }
  if (sizes.takes_guidance) {
    inputs_.guidance = input("guidance");
  }
}

Tensor ImageInputs::input(const std::string& name) {
  const std::string twice = with_ + name;
  arguments_.push_back(case_.tensor(case_.has(twice) ? twice : name));
  named_.emplace_back(name, graph_.input(arguments_.back().shape, name));
  return named_.back().second;
}

Tensor ImageInputs::unpacked(Tensor tokens) const {
  const int64_t b = tokens.dim(0);
  const int64_t h = sizes_.patch_size[1];
  const int64_t w = sizes_.patch_size[2];
  const Tensor x = transpose(reshape(tokens, {b, rows_, columns_, sizes_.in_channels, h, w}),
                             {0, 3, 1, 4, 2, 5});
  return reshape(x, {b, sizes_.in_channels, 1, rows_ * h, columns_ * w});
}

Tensor ImageInputs::as_written(Tensor latents) const {
  if (!packed_) {
    return squeeze(latents, Axis(2));
  }
  const int64_t b = latents.dim(0);
  const int64_t c = latents.dim(1);
  const int64_t h = sizes_.patch_size[1];
  const int64_t w = sizes_.patch_size[2];
  const Tensor x = transpose(reshape(latents, {b, c, rows_, h, columns_, w}), {0, 2, 4, 1, 3, 5});
  return reshape(x, {b, rows_ * columns_, c * h * w});
}

}  // namespace kinema::verification
