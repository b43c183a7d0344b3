#include "kinema/models/dreamer/open_loop.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

constexpr int64_t kMostRows = 6;
constexpr int64_t kBorder = 2;

/// Steps that are observed, of all.
int64_t observed_steps(int64_t length) { return length / 2; }

/// F32 [t, c]: the border's colour at each step.
Tensor border_colors(Graph& graph, int64_t length, int64_t channels) {
  const int64_t observed = observed_steps(length);
  std::vector<float> colors;
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t c = 0; c < channels; ++c) {
      const bool is_red = channels == 3 && t >= observed && c == 0;
      const bool is_green = t < observed && (channels != 3 || c == 1);
      colors.push_back(is_red || is_green ? 255.0F : 0.0F);
    }
  }
  return constant_f32(graph, {length, channels}, colors);
}

}  // namespace

TensorMap open_loop(const Agent& agent, const Batch& batch, const Draws& posterior,
                    const Draws& prior) {
  const Networks& networks = agent.networks();
  const nn::ModelOptions& options = agent.options();
  const int64_t n = std::min(batch.is_first.dim(0), kMostRows);
  const int64_t length = batch.is_first.dim(1);
  const int64_t observed = observed_steps(length);
  check(observed > 0, "[dreamer] a batch has {} steps but a video needs 2", length);
  const auto rows = [&](Tensor x) { return slice(x, Axis(0), 0, n); };
  const auto first = [&](Tensor x) { return slice(rows(x), Axis(1), 0, observed); };
  const auto second = [&](Tensor x) {
    return slice(rows(x), Axis(1), observed, length - observed);
  };
  const auto drawn = [&](const Draws& draws) {
    return Draws{.noise = draws.noise ? rows(draws.noise) : Tensor(),
                 .index = draws.index ? rows(draws.index) : Tensor()};
  };
  const RssmState start{.deter = rows(batch.state.deter), .stoch = rows(batch.state.stoch)};
  const RssmFeatures seen =
      networks.rssm.observe(start, first(agent.tokens(batch.observations)),
                            first(agent.action_vectors(batch.previous_actions)),
                            first(batch.is_first), drawn(posterior), options);
  const auto last = [&](Tensor x) { return squeeze(slice(x, Axis(1), observed - 1, 1), Axis(1)); };
  std::vector<std::string> names;
  std::vector<Tensor> given;
  for (const auto& [name, action] : batch.previous_actions) {
    names.push_back(name);
    given.push_back(second(action));
  }
  const auto taken = [&](const RssmState&, std::span<const Tensor> now) {
    TensorMap actions;
    for (size_t i = 0; i < names.size(); ++i) {
      actions[names[i]] = now[i];
    }
    return actions;
  };
  const RssmFeatures imagined = networks.rssm
                                    .imagine({.deter = last(seen.deter), .stoch = last(seen.stoch)},
                                             length - observed, taken, given, drawn(prior), options)
                                    .features;
  const auto all = [&](Tensor a, Tensor b) {
    return merge_leading_axes(concatenate({a, b}, Axis(1)));
  };
  const TensorMap decoded = networks.decoder(
      {.deter = all(seen.deter, imagined.deter), .stoch = all(seen.stoch, imagined.stoch)},
      options);
  TensorMap out;
  for (const auto& [name, space] : images_of(agent.config())) {
    out[name] = split_leading_axis(value_of(decoded, name), n);
  }
  return out;
}

Tensor open_loop_video(Tensor truth, Tensor prediction) {
  const Dims& dims = prediction.shape().dims;
  const int64_t n = dims[0];
  const int64_t length = dims[1];
  const int64_t channels = dims[4];
  const Tensor seen = nn::as(slice(truth, Axis(0), 0, n), DType::F32);
  const Tensor scaled = nn::as(prediction, DType::F32) * 255.0;
  const Tensor guess = floor(minimum(maximum(scaled, 0.0), 255.0));
  const Tensor difference = floor((guess - seen + 255.0) / 2.0);
  Tensor video = concatenate({seen, guess, difference}, Axis(2));
  const int64_t rows = video.dim(2) + 2 * kBorder;
  const int64_t columns = video.dim(3) + 2 * kBorder;
  const Tensor inside =
      compare(pad(pad(ones_like(video), Axis(2), kBorder, kBorder), Axis(3), kBorder, kBorder),
              Comparison::NE, 0.0);
  video = pad(pad(video, Axis(2), kBorder, kBorder), Axis(3), kBorder, kBorder);
  const Tensor border =
      broadcast_in_dim(border_colors(video.graph(), length, channels), video.shape().dims, {1, 4});
  video = select(inside, video, border);
  constexpr int64_t kMostBlack = 10;
  video = pad(video, Axis(1), 0, std::min(kMostBlack, length));
  video = reshape(transpose(video, {1, 2, 0, 3, 4}), {-1, rows, n * columns, channels});
  return convert(video, DType::U8);
}

}  // namespace kinema::dreamer
