#include "kinema/models/vae/coder.h"

#include <algorithm>
#include <iterator>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/models/vae/resample.h"
#include "kinema/nn/linear.h"

namespace kinema::vae {
namespace {

/// Inputs of all parts of a network.
struct Run {
  History& history;
  const Compute& compute;
  const Tap& tap;

  void offer(const std::string& name, Tensor value) const {
    if (tap) {
      tap(name, value);
    }
  }
};

/// A part of a network that keeps the number of frames.
using FramePart = std::function<Tensor(Tensor x, const Run& run)>;

/// Runs a part for one frame of x [b, c, f, h, w] at a time, to keep the activations of one frame
/// only. `memories`: the number of its convolutions that read earlier frames. Taps get all frames
/// together.
Tensor by_frames(Tensor x, const Run& run, int64_t memories, const FramePart& part) {
  const int64_t frames = x.dim(2);
  if (run.tap || frames == 1) {
    return part(x, run);
  }
  std::vector<Tensor> past;
  for (int64_t i = 0; i < memories; ++i) {
    past.push_back(run.history.past());
  }
  const Tensor turns = iota(x.graph(), {DType::S32, {frames}}, Axis(0));
  const ScanResult result =
      scan(past, {turns}, {.length = frames},
           [&](std::span<const Tensor> carry, std::span<const Tensor> turn) -> ScanResult {
             History history(carry);
             Compute compute = run.compute;
             compute.turn = turn[0];
             const Tap none;
             const Tensor frame = compute.placed(dynamic_slice(x, Axis(2), turn[0], 1));
             const Tensor y = part(frame, {history, compute, none});
             return {.carry = history.kept(), .ys = {y}};
           });
  for (const Tensor& kept : result.carry) {
    run.history.keep(kept);
  }
  return squeeze(transpose(result.ys[0], {1, 2, 3, 0, 4, 5}), Axis(2));
}

std::string numbered(const std::string& name, int64_t i) { return name + "." + std::to_string(i); }

/// A level of the encoder or decoder: residual blocks, then a change of resolution at all but the
/// last.
///
/// Checkpoints of Wan 2.1 number the encoder's blocks across levels and name the decoder's
/// resampling `upsamplers.0`; those of Wan 2.2 nest both in their level and have a shortcut around
/// it.
struct EncoderLevel {
  EncoderLevel(const nn::Params& blocks, const Config& c, int64_t level, int64_t& number)
      : width(c.encoder_dim(level)), residual(c.is_residual) {
    const bool last = level == c.levels() - 1;
    const bool time = !last && c.temperal_downsample[static_cast<size_t>(level)];
    block = {.time = time ? 2 : 1, .space = last ? 1 : 2};
    const nn::Params own = blocks / std::to_string(level);
    int64_t in = c.encoder_dim(level - 1);
    for (int64_t i = 0; i < c.num_res_blocks; ++i) {
      resnets.emplace_back(
          residual ? own / "resnets" / std::to_string(i) : blocks / std::to_string(number++), in,
          width);
      in = width;
    }
    if (!last) {
      down.emplace(residual ? own / "downsampler" : blocks / std::to_string(number++), width, time);
    }
  }

  Tensor operator()(Tensor x, const Run& run, int64_t level, int64_t& at) const {
    const Tensor given = x;
    const auto offer = [&](Tensor y) {
      if (!residual) {
        run.offer(numbered("down_blocks", at++), y);
      }
      return y;
    };
    const Scope scope(x.graph(), numbered("down_blocks", level));
    for (const ResidualBlock& resnet : resnets) {
      x = offer(resnet(x, run.history, run.compute));
    }
    if (down) {
      x = offer((*down)(x, run.history, run.compute));
    }
    if (residual) {
      x = x + average_down(given, width, block);
      run.offer(numbered("down_blocks", level), x);
    }
    return x;
  }

  /// The number of convolutions that read earlier frames, for a level that keeps the number of
  /// frames.
  int64_t memories() const { return 2 * std::ssize(resnets); }

  int64_t width;
  bool residual;
  Block block;
  std::vector<ResidualBlock> resnets;
  std::optional<Downsample> down;
};

struct DecoderLevel {
  DecoderLevel(const nn::Params& params, const Config& c, int64_t level)
      : name(numbered("up_blocks", level)), width(c.decoder_dim(level)), residual(c.is_residual) {
    const bool last = level == c.levels() - 1;
    const bool time = c.temporal_upsample(level);
    block = {.time = time ? 2 : 1, .space = 2};
    // Wan 2.1's upsampling has halved the channels.
    int64_t in = c.decoder_dim(level - 1) / (level > 0 && !residual ? 2 : 1);
    for (int64_t i = 0; i <= c.num_res_blocks; ++i) {
      resnets.emplace_back(params / "resnets" / std::to_string(i), in, width);
      in = width;
    }
    if (!last) {
      up.emplace(residual ? params / "upsampler" : params / "upsamplers" / "0", width,
                 residual ? width : width / 2, time);
    }
  }

  Tensor operator()(Tensor x, const Run& run) const { return in_space(in_time(x, run), x, run); }

  /// The part up to the doubling of frames.
  Tensor in_time(Tensor x, const Run& run) const {
    const Scope scope(x.graph(), name);
    for (const ResidualBlock& resnet : resnets) {
      x = resnet(x, run.history, run.compute);
    }
    return up ? up->in_time(x, run.history, run.compute) : x;
  }

  /// The rest, in which frames are independent. `given` is the level's input.
  Tensor in_space(Tensor x, Tensor given, const Run& run) const {
    const Scope scope(x.graph(), name);
    if (up) {
      x = up->in_space(x, run.history, run.compute);
      if (residual) {
        x = x + shortcut(given, run);
      }
    }
    run.offer(name, x);
    return x;
  }

  /// The number of convolutions that read earlier frames, for a level that keeps the number of
  /// frames.
  int64_t memories() const { return 2 * std::ssize(resnets); }

  /// In a loop over the result's frames, the shortcut of the current frame.
  Tensor shortcut(Tensor given, const Run& run) const {
    const Tensor turn = run.compute.turn;
    return turn && block.time > 1 ? repeat_up_frame(given, width, block, turn)
                                  : repeat_up(given, width, block, run.history.first());
  }

  std::string name;
  int64_t width;
  bool residual;
  Block block;
  std::vector<ResidualBlock> resnets;
  std::optional<Upsample> up;
};

// The quoted names are the keys of the released checkpoints.
struct Encoder {
  Encoder(const nn::Params& root, const Config& c)
      : conv_in(root / "encoder" / "conv_in", c.in_channels, c.base_dim),
        middle(root / "encoder" / "mid_block", c.encoder_dim(c.levels() - 1)),
        norm_out(root / "encoder" / "norm_out", c.encoder_dim(c.levels() - 1)),
        conv_out(root / "encoder" / "conv_out", c.encoder_dim(c.levels() - 1), 2 * c.z_dim),
        quant(root / "quant_conv", 2 * c.z_dim, 2 * c.z_dim, {1, 1, 1}) {
    int64_t number = 0;
    for (int64_t level = 0; level < c.levels(); ++level) {
      levels.emplace_back(root / "encoder" / "down_blocks", c, level, number);
    }
  }

  Tensor operator()(Tensor x, const Run& run) const {
    int64_t at = 0;
    // Before frames are halved: the largest activations.
    const auto joins = std::ranges::find_if(
        levels, [](const EncoderLevel& level) { return level.block.time > 1; });
    int64_t memories = 1;
    for (auto level = levels.begin(); level != joins; ++level) {
      memories += level->memories();
    }
    x = by_frames(x, run, memories, [&](Tensor y, const Run& each) {
      y = conv_in(y, each.history, each.compute);
      each.offer("conv_in", y);
      for (auto level = levels.begin(); level != joins; ++level) {
        y = (*level)(y, each, level - levels.begin(), at);
      }
      return y;
    });
    for (auto level = joins; level != levels.end(); ++level) {
      x = (*level)(x, run, level - levels.begin(), at);
    }
    x = middle(x, run.history, run.compute);
    run.offer("mid_block", x);
    x = norm_out(x, run.compute);
    run.offer("norm_out", x);
    x = conv_out(silu(x), run.history, run.compute);
    run.offer("conv_out", x);
    return quant(x, {.units = run.history.units()}, run.compute);
  }

  CausalConv conv_in;
  std::vector<EncoderLevel> levels;
  MiddleBlock middle;
  ChannelNorm norm_out;
  CausalConv conv_out;
  Conv quant;
};

struct Decoder {
  Decoder(const nn::Params& root, const Config& c)
      : post_quant(root / "post_quant_conv", c.z_dim, c.z_dim, {1, 1, 1}),
        conv_in(root / "decoder" / "conv_in", c.z_dim, c.decoder_dim(-1)),
        middle(root / "decoder" / "mid_block", c.decoder_dim(-1)),
        norm_out(root / "decoder" / "norm_out", c.decoder_dim(c.levels() - 1)),
        conv_out(root / "decoder" / "conv_out", c.decoder_dim(c.levels() - 1), c.out_channels) {
    for (int64_t level = 0; level < c.levels(); ++level) {
      levels.emplace_back(root / "decoder" / "up_blocks" / std::to_string(level), c, level);
    }
  }

  Tensor operator()(Tensor x, const Run& run) const {
    x = conv_in(post_quant(x, {.units = run.history.units()}, run.compute), run.history,
                run.compute);
    run.offer("conv_in", x);
    x = middle(x, run.history, run.compute);
    run.offer("mid_block", x);
    // After the last doubling of frames: the largest activations.
    const auto doubles = std::ranges::find_if(
        levels.rbegin(), levels.rend(), [](const auto& level) { return level.block.time > 1; });
    const auto rest = doubles.base();
    Tensor given;
    for (auto level = levels.begin(); level != rest; ++level) {
      x = given ? level[-1].in_space(x, given, run) : x;
      given = x;
      x = level->in_time(x, run);
    }
    int64_t memories = 1;
    for (auto level = rest; level != levels.end(); ++level) {
      memories += level->memories();
    }
    return by_frames(x, run, memories, [&](Tensor y, const Run& each) {
      y = given ? rest[-1].in_space(y, given, each) : y;
      for (auto level = rest; level != levels.end(); ++level) {
        y = (*level)(y, each);
      }
      y = norm_out(y, each.compute);
      each.offer("norm_out", y);
      y = conv_out(silu(y), each.history, each.compute);
      each.offer("conv_out", y);
      return y;
    });
  }

  Conv post_quant;
  CausalConv conv_in;
  MiddleBlock middle;
  std::vector<DecoderLevel> levels;
  ChannelNorm norm_out;
  CausalConv conv_out;
};

template <typename Network>
std::vector<nn::ParamSpec> specs_of(const Config& config, const Options& options) {
  validate(config);
  nn::SpecCollector specs([&](const std::string&) { return options.weights_dtype; });
  const Network network(nn::Params(specs, ""), config);
  return specs.take();
}

History history_of(std::span<const Tensor> past, int64_t units) {
  return past.empty() ? History() : History(past, units);
}

}  // namespace

Sharding video_sharding(const mesh::Placement& place, const Dims& dims) {
  return place.sharding({"activation_batch", "", "", "", "activation_length"}, dims);
}

std::vector<nn::ParamSpec> encoder_parameters(const Config& config, const Options& options) {
  return specs_of<Encoder>(config, options);
}

std::vector<nn::ParamSpec> decoder_parameters(const Config& config, const Options& options) {
  return specs_of<Decoder>(config, options);
}

std::vector<nn::ParamSpec> parameters(const Config& config, const Options& options) {
  std::vector<nn::ParamSpec> all = encoder_parameters(config, options);
  for (nn::ParamSpec& spec : decoder_parameters(config, options)) {
    all.push_back(std::move(spec));
  }
  return all;
}

Chunk encode(std::span<const Tensor> params, const Config& config, const Options& options,
             Tensor video, std::span<const Tensor> past, const Tap& tap,
             const mesh::Placement& place) {
  const int64_t side = config.spatial();
  check(video.rank() == 5 && video.dim(1) == config.colours() && video.dim(3) % side == 0 &&
            video.dim(4) % side == 0 && video.dim(3) > 0 && video.dim(4) > 0,
        "[vae] the video is {} but must be [b, {}, f, h, w], h and w multiples of {}",
        to_string(video.shape()), config.colours(), side);
  check(video.dim(2) > 0 &&
            (past.empty() ? video.dim(2) == 1 : video.dim(2) % config.temporal() == 0),
        "[vae] the chunk has {} frames: the first has one, the others multiples of {}",
        video.dim(2), config.temporal());
  nn::Binder binder(encoder_parameters(config, options), params);
  const Encoder encoder(nn::Params(binder, ""), config);
  History history = history_of(past, video.dim(2) / config.temporal());
  const Scope scope(video.graph(), "encoder");
  const Compute compute(options.precision, place);
  const Tensor x = patchify(nn::as(video, options.activations_dtype), config.patch());
  const Tensor y = encoder(x, {history, compute, tap});
  return {nn::as(y, DType::F32), history.kept()};
}

Chunk decode(std::span<const Tensor> params, const Config& config, const Options& options,
             Tensor latents, std::span<const Tensor> past, const Tap& tap,
             const mesh::Placement& place) {
  check(latents.rank() == 5 && latents.dim(1) == config.z_dim && latents.dim(2) > 0,
        "[vae] the latents are {} but must be [b, {}, f, h, w]", to_string(latents.shape()),
        config.z_dim);
  check(!past.empty() || latents.dim(2) == 1, "[vae] the first chunk is one latent frame, not {}",
        latents.dim(2));
  nn::Binder binder(decoder_parameters(config, options), params);
  const Decoder decoder(nn::Params(binder, ""), config);
  History history = history_of(past, latents.dim(2));
  const Scope scope(latents.graph(), "decoder");
  const Compute compute(options.precision, place);
  const Tensor y = decoder(nn::as(latents, options.activations_dtype), {history, compute, tap});
  return {nn::as(unpatchify(y, config.patch()), DType::F32), history.kept()};
}

}  // namespace kinema::vae
