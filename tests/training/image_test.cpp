// Training with image conditioning: I2V by channels and CLIP, TI2V by first frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "cpu_isa.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/mesh/batch.h"
#include "kinema/networks/open.h"
#include "kinema/sample/velocity.h"
#include "kinema/training/batch.h"
#include "kinema/training/nonfinite.h"
#include "models/reference.h"
#include "runtime/cpu_mesh.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using wan::reference;
using wan::relative_difference;
using wan::Subject;

class ImageTraining : public pjrt::CpuTest {};

/// The training step's values for one batch with a given draw, with the reference's weights.
struct Forward {
  explicit Forward(Subject& subject) : subject(subject) {}

  Tensor operator()(const TrainBatch& batch) {
    task = training_task(batch, Tensor(), {.first_frame = batch.given ? 0.5 : 0.0});
    return network_model(network_of(subject.config()), {})(subject.params(), task.inputs);
  }

  Subject& subject;
  Task task;
};

double sigma_of(double timestep) { return schedulers::FlowMatch().sigma(timestep); }

/// Elements [start, start + size) of one axis.
HostArray part(const HostArray& x, size_t axis, int64_t start, int64_t size) {
  Dims dims = x.shape.dims;
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    (i < axis ? outer : inner) *= i == axis ? 1 : dims[i];
  }
  const int64_t whole = dims[axis];
  dims[axis] = size;
  HostArray out(Shape{DType::F32, dims});
  for (int64_t o = 0; o < outer; ++o) {
    std::copy_n(x.as<float>().begin() + (o * whole + start) * inner, size * inner,
                out.as<float>().begin() + o * size * inner);
  }
  return out;
}

/// The noise that turns zeros into `noisy` at these timesteps.
HostArray noise_for(const HostArray& noisy, const std::vector<float>& timesteps) {
  HostArray out = noisy;
  const size_t each = out.as<float>().size() / timesteps.size();
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    out.as<float>()[i] /= static_cast<float>(sigma_of(timesteps[i / each]));
  }
  return out;
}

// The reference differs from float64 by less than 1e-6 of the largest magnitude; dividing by sigma
// here, and multiplying in the step, adds an ulp (6e-8) to the network's input.
constexpr double kLimit = 1e-5;

TEST_F(ImageTraining, ShowsChannelsAndClipsTokensAsTheReferenceDoes) {
  const io::SafetensorsFile file = reference("transformer_i2v");
  Subject subject("wan21_i2v/transformer", {});
  const HostArray hidden = file.at("hidden_states").copy();
  const HostArray given_t = convert(file.at("timestep").copy(), DType::F32);
  const std::vector<float> t(given_t.as<float>().begin(), given_t.as<float>().end());
  const int64_t z = subject.config().out_channels;
  const HostArray noisy = part(hidden, 1, 0, z);

  const Tensor prediction =
      Forward(subject)({.latents = subject.input(HostArray(noisy.shape)),
                        .text = subject.input(file.at("encoder_hidden_states")),
                        .condition = subject.input(part(hidden, 1, z, hidden.shape.dims[1] - z)),
                        .image_states = subject.input(file.at("encoder_hidden_states_image")),
                        .noise = subject.input(noise_for(noisy, t)),
                        .timestep = subject.input(given_t)});

  const std::vector<HostArray> out = subject.run(std::vector{prediction});
  EXPECT_LE(relative_difference(out[0], file.at("output").copy()), kLimit);
}

TEST_F(ImageTraining, GivesFirstFramesAsTheReferenceDoes) {
  const io::SafetensorsFile file = reference("transformer_ti2v");
  Subject subject("wan22_ti2v/transformer", {});
  const HostArray hidden = file.at("hidden_states").copy();
  const HostArray by_token = file.at("timestep").copy();
  const int64_t batch = hidden.shape.dims[0];
  const int64_t tokens = by_token.shape.dims[1];
  std::vector<float> t;
  for (int64_t i = 0; i < batch; ++i) {
    t.push_back(by_token.as<float>()[static_cast<size_t>((i + 1) * tokens - 1)]);
    ASSERT_EQ(by_token.as<float>()[static_cast<size_t>(i * tokens)], 0.0F);
  }
  // The latents are all first frame; the frames after it are only noise.
  HostArray latents = hidden;
  const auto frame = static_cast<size_t>(hidden.shape.dims[3] * hidden.shape.dims[4]);
  const auto frames = static_cast<size_t>(hidden.shape.dims[2]);
  for (size_t i = 0; i < latents.as<float>().size(); ++i) {
    latents.as<float>()[i] *= i / frame % frames == 0 ? 1.0F : 0.0F;
  }
  const std::vector<float> ones(static_cast<size_t>(batch), 1.0F);

  const Tensor prediction = Forward(subject)(
      {.latents = subject.input(latents),
       .text = subject.input(file.at("encoder_hidden_states")),
       .noise = subject.input(noise_for(hidden, t)),
       .timestep = subject.input(HostArray::f32({batch}, t)),
       .given = compare(subject.input(HostArray::f32({batch}, ones)), Comparison::GT, 0.5)});

  const std::vector<HostArray> out = subject.run(std::vector{prediction});
  EXPECT_LE(relative_difference(out[0], file.at("output").copy()), kLimit);
}

/// Both predictions in one graph: training's for its own noisy latents, and sampling's for the
/// same.
void expect_same_as_sampling(const std::string& folder, std::optional<networks::Entry> entry,
                             float timestep) {
  SCOPED_TRACE(folder);
  Subject subject(folder, {});
  const wan::TransformerConfig& config = subject.config();
  const Dims latents{1, config.out_channels, 2, 4, 4};
  Dims condition = latents;
  condition[1] = config.condition_channels();
  const auto input = [&](const Dims& dims, const char* name) {
    return subject.input(tiny::normal(dims, name, 0));
  };
  TrainBatch batch{.latents = input(latents, "latents"), .text = input({1, 512, 48}, "text")};
  batch.noise = input(latents, "noise");
  batch.timestep = subject.input(HostArray::f32({1}, std::vector{timestep}));
  sample::StepSpec spec{
      .network = network_of(config), .latents = latents, .guidance = sample::Guidance::NONE};
  if (entry) {
    spec.inputs = {{.input = *networks::find_entry(spec.network.sizes().named, *entry)}};
  }
  sample::Given given{.text = batch.text};
  if (entry == networks::Entry::CHANNELS) {
    batch.condition = input(condition, "condition");
    given.inputs = {batch.condition};
    if (config.image_dim > 0) {
      spec.image_tokens = 5;
      batch.image_states = given.image = input({1, 5, config.image_dim}, "image");
    }
  } else {
    spec.expand_timesteps = true;
    const float is_given = entry == networks::Entry::FIRST_FRAME ? 1.0F : 0.0F;
    batch.given =
        compare(subject.input(HostArray::f32({1}, std::vector{is_given})), Comparison::GT, 0.5);
    if (is_given > 0) {
      given.inputs = {slice(batch.latents, Axis(2), 0, 1)};
    }
  }
  std::vector<float> numbers(sample::kNumbers, 0.0F);
  numbers[sample::kInput] = 1.0F;
  numbers[sample::kTimestep] = timestep;
  given.numbers = subject.input(HostArray::f32({sample::kNumbers}, numbers));

  Forward forward(subject);
  const Tensor trained = forward(batch);
  const Tensor mixed =
      (1.0 - sigma_of(timestep)) * batch.latents + sigma_of(timestep) * batch.noise;
  const Tensor sampled = sample::make_velocity(subject.params(), mixed, given, spec).value;

  const std::vector<HostArray> out = subject.run(std::vector{trained, sampled});
  EXPECT_LE(relative_difference(out[0], out[1]), kLimit);
}

TEST_F(ImageTraining, PredictsWhatSamplingPredicts) {
  expect_same_as_sampling("wan21_i2v/transformer", networks::Entry::CHANNELS, 300);
  expect_same_as_sampling("wan22_i2v/transformer", networks::Entry::CHANNELS, 950);
  expect_same_as_sampling("wan22_i2v/transformer_2", networks::Entry::CHANNELS, 500);
  expect_same_as_sampling("wan22_ti2v/transformer", networks::Entry::FIRST_FRAME, 600);
  expect_same_as_sampling("wan22_ti2v/transformer", std::nullopt, 600);
}

/// The tiny model with CLIP's tokens, a condition of three channels, or neither.
wan::TransformerConfig image_config(bool channels) {
  wan::TransformerConfig config = tiny::config();
  if (channels) {
    config.in_channels = config.out_channels + 3;
    config.image_dim = 6;
    config.added_kv_proj_dim = config.dim();
  }
  return config;
}

BatchShapes image_shapes(int64_t batch, bool channels) {
  BatchShapes shapes = tiny::shapes(batch);
  if (channels) {
    shapes.condition = Shape{DType::F32, {batch, 3, 2, 2, 2}};
    shapes.image_states = Shape{DType::F32, {batch, 5, 6}};
  }
  return shapes;
}

data::Batch image_batch(int64_t size, int64_t step) {
  data::Batch out = tiny::batch(size, step);
  out.condition = tiny::normal(image_shapes(size, true).condition->dims, "condition", step);
  out.image_states = tiny::normal(image_shapes(size, true).image_states->dims, "image", step);
  return out;
}

/// Parameters that are all non-zero.
std::vector<HostArray> image_params(std::span<const nn::ParamSpec> specs) {
  std::vector<HostArray> out;
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(tiny::normal(spec.shape.dims, spec.name.c_str(), 0));
    const bool scale = spec.name.find("norm") != std::string::npos && spec.name.ends_with("weight");
    for (float& x : out.back().as<float>()) {
      x = 0.2F * x + (scale ? 1.0F : 0.0F);
    }
  }
  return out;
}

/// Compares directional derivatives of the loss by its gradients with central differences.
void expect_gradients_by_differences(bool channels) {
  const wan::TransformerConfig config = image_config(channels);
  const std::vector<nn::ParamSpec> specs = wan::parameters(config, tiny::options());
  StepOptions options{.given_draw = true};
  options.objective.first_frame = channels ? 0.0 : 0.5;
  Graph graph;
  std::vector<Tensor> weights;
  for (const nn::ParamSpec& spec : specs) {
    weights.push_back(graph.input(spec.shape, spec.name));
  }
  const TrainBatch part = batch_inputs(graph, image_shapes(2, channels), options, Tensor());
  const Task task = training_task(part, Tensor(), options.objective);
  const Tensor loss =
      flow_loss(network_model(network_of(config), tiny::options())(weights, task.inputs), task.flow,
                part.weight);
  std::vector<Tensor> outputs = gradients(loss, weights);
  outputs.push_back(loss);
  pjrt::Client client = pjrt::cpu_client();
  const auto program = runtime::Program::compile(client, graph, outputs);

  const data::Batch batch = channels ? image_batch(2, 0) : tiny::batch(2, 0);
  std::vector<HostArray> given;
  for (const BatchPart& each : batch_parts(batch, image_shapes(2, channels))) {
    given.push_back(*each.array);
  }
  const std::vector<float> times{300, 700};
  const std::vector<float> shares{0.5, 2};
  given.push_back(tiny::normal(batch.latents.shape.dims, "noise", 0));
  given.push_back(HostArray::f32({2}, times));
  given.push_back(HostArray::f32({2}, shares));
  if (!channels) {  // of the first sample only
    given.push_back(HostArray::f32({2}, std::vector<float>{1, 0}));
  }
  const std::vector<HostArray> start = image_params(specs);
  const auto run = [&](const std::vector<HostArray>& params) {
    std::vector<pjrt::Buffer> buffers;
    for (const HostArray& array : params) {
      buffers.push_back(client.to_device(array));
    }
    for (const HostArray& array : given) {
      buffers.push_back(client.to_device(array));
    }
    std::vector<HostArray> out;
    for (const pjrt::Buffer& buffer : program.run(buffers)) {
      out.push_back(buffer.to_host());
    }
    return out;
  };

  // A loss of about 4 has a rounding error of 2e-7; over 2 x 1e-2 that is 2e-5, and the third
  // derivative adds 1e-4 / 6 of itself.
  constexpr double kStep = 1e-2;
  constexpr double kTolerance = 2e-3;
  const std::vector<HostArray> at = run(start);
  for (int64_t turn = 0; turn < 4; ++turn) {
    std::vector<HostArray> direction;
    double square = 0;
    for (size_t i = 0; i < start.size();
         ++i) {  // first along the gradient, then in random directions
      direction.push_back(
          turn == 0 ? at[i] : tiny::normal(start[i].shape.dims, specs[i].name.c_str(), turn));
      for (const float d : direction.back().as<float>()) {
        square += static_cast<double>(d) * d;
      }
    }
    double slope = 0;
    std::vector<HostArray> above = start;
    std::vector<HostArray> below = start;
    for (size_t i = 0; i < start.size(); ++i) {
      for (size_t j = 0; j < direction[i].as<float>().size(); ++j) {
        const double d = direction[i].as<float>()[j] / std::sqrt(square);
        slope += d * at[i].as<float>()[j];
        above[i].as<float>()[j] += static_cast<float>(kStep * d);
        below[i].as<float>()[j] -= static_cast<float>(kStep * d);
      }
    }
    const double numeric =
        (run(above).back().as<float>()[0] - run(below).back().as<float>()[0]) / (2 * kStep);
    EXPECT_NEAR(slope, numeric, kTolerance * std::max(1.0, std::abs(numeric))) << turn;
    EXPECT_TRUE(turn > 0 || slope > 100 * kTolerance) << slope;
  }
}

TEST_F(ImageTraining, DifferentiatesTheLossOnChannelsAndTokens) {
  expect_gradients_by_differences(true);
}

TEST_F(ImageTraining, DifferentiatesTheLossOnGivenFirstFrames) {
  expect_gradients_by_differences(false);
}

Trainer image_trainer(const runtime::Devices& on, int64_t batch, StepOptions step) {
  const wan::TransformerConfig config = image_config(true);
  nn::ModelOptions options = tiny::options();
  options.place = on.placement();
  const std::vector<nn::ParamSpec> specs = wan::parameters(config, options);
  std::vector<runtime::Array> params;
  const std::vector<HostArray> values = image_params(specs);
  for (size_t i = 0; i < specs.size(); ++i) {
    params.push_back(on.upload(values[i], specs[i].sharding(on.placement())));
  }
  step.batch_axes = mesh::batch_axes(on.placement(), mesh::Settings().data_sharding, batch);
  return {on,
          specs,
          network_model(network_of(config), options),
          image_shapes(batch, true),
          step,
          fresh_state(std::move(params), specs, false, on),
          {.program = {.executable_cache = tiny::program_cache()}}};
}

TEST_F(ImageTraining, GivesTheSameInPartsAndOverAMesh) {
  const pjrt::Client client = pjrt::cpu_client(4);
  StepOptions whole;
  whole.objective.first_frame = 0.5;  // no model has both; every array of a batch is split
  StepOptions parts = whole;
  parts.accumulation = 2;
  const runtime::Devices mesh = runtime::devices_of(client, runtime::mesh_sizes(2, 1, 2, 1));

  const StepResult expected = image_trainer(client, 4, whole).run(3, 1e-3, image_batch(4, 0));
  for (const StepResult& found : {image_trainer(client, 4, parts).run(3, 1e-3, image_batch(4, 0)),
                                  image_trainer(mesh, 4, whole).run(3, 1e-3, image_batch(4, 0))}) {
    // The sums differ only in their order: F32 rounding of a mean of a few hundred terms.
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-5 * expected.gradient_norm);
  }
}

TEST_F(ImageTraining, NamesMissingAndUnexpectedInputs) {
  const data::Batch with = image_batch(2, 0);
  const data::Batch without = tiny::batch(2, 0);
  EXPECT_EQ(batch_parts(with, image_shapes(2, true)).size(), 4U);
  EXPECT_THAT([&] { batch_parts(without, image_shapes(2, true)); },
              ThrowsMessage<Error>(HasSubstr("has no image condition, which the step takes")));
  EXPECT_THAT(
      [&] { batch_parts(with, image_shapes(2, false)); },
      ThrowsMessage<Error>(HasSubstr("brings image condition, which the step does not take")));
  BatchShapes other = image_shapes(2, true);
  other.condition->dims[2] = 3;
  EXPECT_THAT(
      [&] {
        const wan::TransformerConfig config = image_config(true);
        build_step(wan::parameters(config, tiny::options()),
                   network_model(network_of(config), tiny::options()), other, {});
      },
      ThrowsMessage<Error>(HasSubstr("the input `condition` is f32[2,3,3,2,2]")));
}

/// The parts of the network in which a non-finite value is searched, named as in the family's
/// checkpoints.
std::vector<std::string> has_tap(const char* folder, const nn::ModelOptions& options) {
  const networks::Network network = networks::open(io::golden(folder));
  const networks::Sizes& sizes = network.sizes();
  const BatchShapes batch{.latents = {DType::F32, {1, sizes.in_channels, 1, 8, 8}},
                          .text = {DType::F32, {1, 77, sizes.text_dim}},
                          .pooled = Shape{DType::F32, {1, sizes.pooled_dim}},
                          .size_ids = sizes.size_ids > 0
                                          ? std::optional(Shape{DType::F32, {1, sizes.size_ids}})
                                          : std::nullopt};
  StepOptions step;
  if (sizes.takes_guidance) {
    step.objective.guidance = 1.0;
  }
  return build_probe(network->parameters(options), tapped_network_model(network, options), batch,
                     step)
      .names;
}

TEST(NonfinitePlaces, OfImagesHaveTheNamesOfTheirCheckpoints) {
  for (const bool scan : {false, true}) {
    EXPECT_THAT(has_tap("sdxl/unet", {.scan_layers = scan}),
                testing::IsSupersetOf(
                    {"down_blocks.1.attentions.0.transformer_blocks.0", "mid_block.resnets.1",
                     "up_blocks.0",
                     "parameter down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight",
                     "parameter down_blocks.0.resnets.1.conv1.weight"}));
    EXPECT_THAT(has_tap("flux_dev/transformer", {.scan_layers = scan}),
                testing::IsSupersetOf({"transformer_blocks.0.hidden", "single_transformer_blocks.1",
                                       "parameter transformer_blocks.1.attn.to_q.weight"}));
  }
}

}  // namespace
}  // namespace kinema::training
