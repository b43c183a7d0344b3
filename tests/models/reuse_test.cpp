// Parts of the forward pass that sampling reuses from an earlier step.
#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "models/reference.h"

namespace kinema::wan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ReuseTest : public pjrt::CpuTest {};

HostArray whole(const std::string& model, const std::string& name,
                const nn::ModelOptions& options) {
  Subject subject(model, options);
  const std::vector<Tensor> y{subject(subject.inputs(reference(name)))};
  return subject.run(y)[0];
}

/// The output with keys and values computed by another program.
HostArray with_keys(const std::string& model, const std::string& name,
                    const nn::ModelOptions& options) {
  std::vector<HostArray> made;
  {
    Subject subject(model, options);
    const TransformerInputs in = subject.inputs(reference(name));
    const CrossKeys keys = cross_keys(subject.params(), subject.config(), options,
                                      in.encoder_hidden_states, in.encoder_hidden_states_image);
    std::vector<Tensor> outputs{keys.key, keys.value};
    if (keys.image_key) {
      outputs.insert(outputs.end(), {keys.image_key, keys.image_value});
    }
    made = subject.run(outputs);
  }
  Subject subject(model, options);
  const io::SafetensorsFile file = reference(name);
  TransformerInputs in{.hidden_states = subject.input(file.at("hidden_states")),
                       .timestep = subject.input(file.at("timestep"))};
  in.keys = CrossKeys{subject.input(made[0]), subject.input(made[1])};
  if (made.size() > 2) {
    in.keys->image_key = subject.input(made[2]);
    in.keys->image_value = subject.input(made[3]);
  }
  const std::vector<Tensor> y{subject(in)};
  return subject.run(y)[0];
}

// The same sums in another program, where XLA may fuse and order them differently: a few roundings
// of the network's values, 1e-6 of the largest; the reference's own limit is ten times that.
constexpr double kRounding = 1e-5;

TEST_F(ReuseTest, KeysMadeBeforehandGiveTheSameOutput) {
  for (const bool scan : {true, false}) {
    SCOPED_TRACE(scan);
    const nn::ModelOptions options{.scan_layers = scan};
    for (const auto& [model, name] : std::vector<std::pair<std::string, std::string>>{
             {"wan21_t2v/transformer", "transformer"},
             {"wan21_i2v/transformer", "transformer_i2v"}}) {
      EXPECT_LE(relative_difference(with_keys(model, name, options), whole(model, name, options)),
                kRounding)
          << name;
    }
  }
}

TEST_F(ReuseTest, TheBlocksSumStandsInForTheBlocks) {
  const std::string model = "wan21_t2v/transformer";
  const io::SafetensorsFile file = reference("transformer");
  std::vector<HostArray> made;
  {
    Subject subject(model, {});
    const TransformerOutputs out =
        transformer_outputs(subject.params(), subject.config(), {}, subject.inputs(file));
    made = subject.run(std::vector{out.velocity, out.block_sum});
  }
  // Doubling the sum changes the output, so the sum is really read.
  HostArray twice = made[1];
  for (float& x : twice.as<float>()) {
    x *= 2;
  }
  const auto from = [&](const HostArray& sum) {
    Subject subject(model, {});
    const TransformerInputs in{.hidden_states = subject.input(file.at("hidden_states")),
                               .timestep = subject.input(file.at("timestep")),
                               .block_sum = subject.input(sum)};
    return subject.run(std::vector{subject(in)})[0];
  };
  // before + (after - before) equals after up to a rounding.
  EXPECT_LE(relative_difference(from(made[1]), made[0]), kRounding);
  EXPECT_GT(relative_difference(from(twice), made[0]), 1e-2);
}

/// The output for one video with two texts, `text` and its reverse, as one doubled batch.
HostArray doubled(const nn::ModelOptions& options, bool cfg_batch) {
  const io::SafetensorsFile file = reference("transformer");
  Subject subject("wan21_t2v/transformer", options);
  TransformerInputs in = subject.inputs(file);
  const auto one = [](Tensor x) { return slice(x, Axis(0), 0, 1); };
  const Tensor video = one(in.hidden_states);
  const Tensor text = one(in.encoder_hidden_states);
  in.hidden_states = concatenate({video, video}, Axis(0));
  in.encoder_hidden_states = concatenate({text, reverse(text, Axis(1))}, Axis(0));
  in.timestep = one(in.timestep);
  if (!cfg_batch) {
    in.timestep = concatenate({in.timestep, in.timestep}, Axis(0));
  }
  in.cfg_batch = cfg_batch;
  return subject.run(std::vector{subject(in)})[0];
}

TEST_F(ReuseTest, HalvesThatAreAlikeAreComputedOnceUntilTheyDiffer) {
  for (const bool scan : {true, false}) {
    SCOPED_TRACE(scan);
    const nn::ModelOptions options{.scan_layers = scan};
    EXPECT_LE(relative_difference(doubled(options, true), doubled(options, false)), kRounding);
  }
}

TEST_F(ReuseTest, SaysWhichPartDoesNotFit) {
  Subject subject("wan21_t2v/transformer", {});
  const TransformerInputs in = subject.inputs(reference("transformer"));
  TransformerInputs wrong = in;
  wrong.block_sum = subject.input(HostArray(Shape{DType::F32, {1, 2, 3}}));
  EXPECT_THAT([&] { subject(wrong); }, ThrowsMessage<Error>(HasSubstr("block_sum is f32[1,2,3]")));
  wrong = in;
  wrong.keys = CrossKeys{wrong.hidden_states, wrong.hidden_states};
  EXPECT_THAT([&] { subject(wrong); }, ThrowsMessage<Error>(HasSubstr("keys are f32")));
}

}  // namespace
}  // namespace kinema::wan
