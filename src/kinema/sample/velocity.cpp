#include "kinema/sample/velocity.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/sample/low_pass.h"

namespace kinema::sample {
namespace {

/// x concatenated with itself along the batch; an empty tensor stays empty.
Tensor twice(Tensor x) { return x ? concatenate({x, x}, Axis(0)) : x; }

/// The standard deviation of each video, [b, 1, 1, 1, 1].
Tensor standard_deviation(Tensor x) {
  const std::vector<int64_t> all{1, 2, 3, 4};
  return sqrt(mean(square(x - mean(x, all, true)), all, true));
}

/// The length of each video's velocity, [b, 1, 1, 1, 1].
Tensor length_of(Tensor x) { return sqrt(sum(square(x), {1, 2, 3, 4}, true)); }

/// Runs the transformer for some of the contexts.
class Passes {
 public:
  Passes(std::span<const Tensor> params, Tensor x, const Given& given, const StepSpec& spec)
      : params_(params),
        given_(given),
        spec_(spec),
        video_({.latents = x * number(given.numbers, kInput), .timestep = {}}) {
    check(given.inputs.size() == spec.inputs.size(), "[sample] {} inputs are given, expected {}",
          given.inputs.size(), spec.inputs.size());
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      if (spec.inputs[i].input.entry == networks::Entry::FACES) {
        video_.faces = given.inputs[i];  // tokens, of all contexts
        continue;
      }
      networks::put(spec.inputs[i].input, given.inputs[i], video_);
      has_first_frame_ |= spec.inputs[i].input.entry == networks::Entry::FIRST_FRAME;
    }
  }

  /// f32 velocities of `count` contexts from `first`: the number of videos, or twice that.
  Tensor operator()(int64_t first, int64_t count) {
    const auto rows = [&](Tensor x, int64_t axis) {
      return x && x.dim(axis) > count ? slice(x, Axis(axis), first, count) : x;
    };
    const bool both = count > spec_.latents[0];
    networks::Inputs in = video_;
    if (both) {
      in.latents = twice(in.latents);
      in.reference = twice(in.reference);
      in.poses = twice(in.poses);
      in.control = spec_.guess_mode ? in.control : twice(in.control);
    } else if (spec_.guess_mode && first > 0) {
      in.control = {};  // of the negative prompt
    }
    in.faces = rows(in.faces, 0);
    in.guess_mode = spec_.guess_mode;
    in.timestep = timesteps(spec_.expand_timesteps ? in.latents.dim(0) : 1);
    in.control_scale = given_.control_scale;
    in.pooled = rows(given_.pooled, 0);
    in.size_ids = rows(given_.size_ids, 0);
    if (spec_.network.sizes().takes_guidance) {
      in.guidance = slice(given_.numbers, Axis(0), kEmbeddedGuidance, 1);
    }
    if (spec_.expand_timesteps) {
      // A given frame has no noise.
      in.first_timestep = has_first_frame_ ? zeros_like(in.timestep) : in.timestep;
    }
    if (spec_.reuse == Reuse::BLOCKS) {
      in.block_sum = rows(given_.kept.at(0), 0);
    } else if (!given_.keys.empty()) {
      for (const Tensor each : given_.keys) {
        in.cross_keys.push_back(rows(each, 1));
      }
    } else {
      in.text = rows(given_.text, 0);
      in.image = both ? twice(given_.image) : given_.image;
    }
    in.cfg_batch = both;
    in.text_fills = spec_.text_fills;
    const networks::Outputs out = spec_.network->forward(params_, spec_.options, in);
    sums_.push_back(out.block_sum);
    return convert(out.prediction, DType::F32);
  }

  /// The sum that the blocks added, of all contexts.
  Tensor block_sum() const {
    return sums_.size() == 1 ? sums_.front() : concatenate(sums_, Axis(0));
  }

 private:
  /// The step's timestep, once per video, or once for all.
  Tensor timesteps(int64_t batch) const {
    return broadcast_to(slice(given_.numbers, Axis(0), kTimestep, 1), {batch});
  }

  std::span<const Tensor> params_;
  const Given& given_;
  const StepSpec& spec_;
  networks::Inputs video_;  // those of the videos, which are the same with and without the prompt
  bool has_first_frame_ = false;
  std::vector<Tensor> sums_;
};

/// Velocities with the prompt and, unless there is no guidance, with the negative prompt.
struct Branches {
  Tensor prompted;
  Tensor plain;
};

/// The negative prompt's velocity, estimated from the prompt's: the old difference of the two, with
/// separate weights for low and high frequencies.
Tensor estimated_plain(Tensor prompted, const Given& given) {
  const Tensor difference = given.kept.at(1) - given.kept.at(0);
  const Tensor low = number(given.numbers, kLowWeight);
  const Tensor high = number(given.numbers, kHighWeight);
  return prompted + high * difference + (low - high) * low_frequencies(difference);
}

Branches branches(Passes& pass, const Given& given, const StepSpec& spec) {
  const int64_t b = spec.latents[0];
  if (spec.reuse == Reuse::BRANCH) {
    check(spec.guidance != Guidance::NONE, "[sample] without guidance there is no branch to reuse");
    const Tensor prompted = pass(0, b);
    return {.prompted = prompted, .plain = estimated_plain(prompted, given)};
  }
  switch (spec.guidance) {
    case Guidance::NONE:
      return {.prompted = pass(0, b), .plain = {}};
    case Guidance::DOUBLED_BATCH: {
      const Tensor both = pass(0, 2 * b);
      return {.prompted = slice(both, Axis(0), 0, b), .plain = slice(both, Axis(0), b, b)};
    }
    case Guidance::TWO_PASSES: {
      const Tensor prompted = pass(0, b);
      return {.prompted = prompted, .plain = pass(b, b)};
    }
  }
  fail("[sample] unknown guidance {}", static_cast<int>(spec.guidance));
}

Tensor guided(const Branches& made, const Given& given, const StepSpec& spec) {
  if (!made.plain) {
    return made.prompted;
  }
  Tensor out = made.plain + number(given.numbers, kGuidance) * (made.prompted - made.plain);
  if (spec.normalizes) {
    const Tensor longest = number(given.numbers, kNormalization) * length_of(made.prompted);
    const Tensor length = length_of(out);
    out =
        out * select(compare(length, Comparison::GT, longest), longest / length, ones_like(length));
  }
  if (!spec.rescale) {
    return out;
  }
  // arXiv:2305.08891, section 3.4: factor r (std of the prompted / std of the guided) + 1 - r.
  const Tensor r = number(given.numbers, kRescale);
  return out * (r * (standard_deviation(made.prompted) / standard_deviation(out)) + (1.0 - r));
}

}  // namespace

Tensor number(Tensor numbers, int64_t i) {
  return reshape(slice(numbers, Axis(0), i, 1), {1, 1, 1, 1, 1});
}

Velocity make_velocity(std::span<const Tensor> params, Tensor x, const Given& given,
                       const StepSpec& spec) {
  if (spec.reuse == Reuse::VELOCITY) {
    return {.value = given.kept.at(0), .kept = {}};
  }
  Passes pass(params, x, given, spec);
  const Branches made = branches(pass, given, spec);
  Velocity out{.value = guided(made, given, spec), .kept = {}};
  switch (spec.reuse) {
    case Reuse::KEEP_BLOCKS:
      out.kept = {pass.block_sum()};
      break;
    case Reuse::KEEP_BRANCHES:
      out.kept = {made.prompted, made.plain};
      break;
    case Reuse::BRANCH:
      out.kept = {made.prompted};
      break;
    case Reuse::NOTHING:
    case Reuse::BLOCKS:
    case Reuse::KEEP_VELOCITY:
    case Reuse::VELOCITY:
      break;
  }
  return out;
}

}  // namespace kinema::sample
