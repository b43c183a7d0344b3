// State in host memory: on a CPU it only changes the program's form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/compute_weights.h"
#include "kinema/training/memory.h"
#include "tiny.h"

namespace kinema::training {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Attention's adapters of rank 2 are trained, on a network whose weights are in `memory`.
nn::ModelOptions adapted(Memory memory) {
  nn::ModelOptions options = tiny::options();
  options.remat = {.kind = RematPolicy::Kind::FULL};
  options.weights_memory = memory;
  for (const char* module : {"to_q", "to_v"}) {
    options.low_ranks[std::string("blocks.{}.attn1.") + module] = 2;
  }
  return options;
}

std::vector<nn::ParamSpec> adapted_specs(Memory memory) {
  std::vector<nn::ParamSpec> specs = wan::parameters(tiny::config(), adapted(memory));
  for (nn::ParamSpec& spec : specs) {
    spec.trained = spec.is_low_rank() && !spec.name.ends_with("lora_scale");
  }
  return specs;
}

class HostMemory : public pjrt::CpuTest {
 protected:
  pjrt::Client client_ = pjrt::cpu_client();

  std::vector<runtime::Array> values(const std::vector<nn::ParamSpec>& specs) const {
    std::vector<runtime::Array> out;
    const runtime::Devices devices(client_);
    for (const nn::ParamSpec& spec : specs) {
      HostArray array = tiny::normal(spec.shape.dims, spec.name.c_str(), 0);
      for (float& x : array.as<float>()) {
        x *= 0.2F;
      }
      out.push_back(devices.upload(array, {}, spec.memory));
    }
    return out;
  }

  Trainer trainer(const std::vector<nn::ParamSpec>& specs, const nn::ModelOptions& options,
                  const StepOptions& step) {
    return {client_,
            specs,
            network_model(tiny::network(), options),
            tiny::shapes(4),
            step,
            fresh_state(values(specs), specs, step.ema.is_on(), client_, *make_optimizer(step)),
            {.program = {.executable_cache = tiny::program_cache()}}};
  }
};

TEST_F(HostMemory, OfFrozenWeightsChangesNoBitOfTheTraining) {
  const StepOptions step{.accumulation = 2, .ema = {.decay = 0.9}};
  std::vector<std::vector<std::byte>> expected;
  for (const Memory memory : {Memory::DEVICE, Memory::HOST, Memory::STREAMED}) {
    const std::vector<nn::ParamSpec> specs = adapted_specs(memory);
    const auto waiting = std::ranges::count(specs, memory, &nn::ParamSpec::memory);
    EXPECT_GT(waiting, 9) << "matrices of attention and feed-forward layers";
    Trainer one = trainer(specs, adapted(memory), step);
    one.run(0, 1e-2, tiny::batch(4, 0));
    EXPECT_GT(one.run(1, 1e-2, tiny::batch(4, 1)).loss, 0);
    const auto bytes = tiny::bytes_of(one.state());
    if (memory == Memory::DEVICE) {
      expected = bytes;
    }
    EXPECT_EQ(bytes, expected);
    EXPECT_EQ(one.offloaded_bytes(), 0) << "a CPU has one memory";
    EXPECT_EQ(one.find_operation(2, 1e-2, tiny::batch(4, 2),
                                 network_model(tiny::network(), adapted(memory))),
              "");
  }
}

TEST_F(HostMemory, IsForMatricesThatNoStepChanges) {
  for (const nn::ParamSpec& spec : adapted_specs(Memory::HOST)) {
    const bool waits = spec.name.starts_with("blocks.{}.") && spec.layer_shape().rank() == 2 &&
                       !spec.is_low_rank();
    EXPECT_EQ(spec.memory, waits ? Memory::HOST : Memory::DEVICE) << spec.name;
  }
  std::vector<nn::ParamSpec> specs = adapted_specs(Memory::HOST);
  for (nn::ParamSpec& spec : specs) {
    spec.trained = true;
  }
  EXPECT_THAT(
      [&] {
        build_step(specs, network_model(tiny::network(), adapted(Memory::HOST)), tiny::shapes(2),
                   {});
      },
      ThrowsMessage<Error>(HasSubstr("optimizer_memory=host")));
}

TEST_F(HostMemory, OfAnOptimizerChangesNoBitOfTheTraining) {
  for (const OptimizerKind kind :
       {OptimizerKind::ADAMW, OptimizerKind::ADAMW8BIT, OptimizerKind::ADAFACTOR,
        OptimizerKind::LION, OptimizerKind::LION8BIT, OptimizerKind::CAME, OptimizerKind::PRODIGY,
        OptimizerKind::SCHEDULE_FREE, OptimizerKind::MUON}) {
    SCOPED_TRACE(static_cast<int>(kind));
    StepOptions step{.optimizer = kind,
                     .adamw = {.weight_decay = 0.01, .max_norm = 1.0},
                     .adafactor = {.b1 = 0.9},
                     .ema = {.decay = 0.9}};
    const auto trained = [&](Memory memory) {
      step.optimizer_memory = memory;
      Trainer one = trainer(tiny::specs(), tiny::options(), step);
      one.run(0, 1e-2, tiny::batch(4, 0));
      const StepResult last = one.run(1, 1e-2, tiny::batch(4, 1));
      EXPECT_EQ(last.estimate.has_value(), kind == OptimizerKind::PRODIGY);
      return tiny::bytes_of(one.state());
    };
    EXPECT_EQ(trained(Memory::HOST), trained(Memory::DEVICE));
  }
}

TEST_F(HostMemory, IsUpdatedLayerByLayerAsTheWhole) {
  const nn::ParamSpec spec{.name = "blocks.{}.w", .shape = {DType::F32, {3, 8, 4}}, .layers = 3};
  Graph graph;
  std::vector<HostArray> arrays;
  const auto input = [&](const char* name) {
    arrays.push_back(tiny::normal(spec.shape.dims, name, 0));
    return graph.input(spec.shape, name);
  };
  const Tensor p = input("p");
  const Tensor mu = input("mu");
  const Tensor nu = square(input("nu"));
  const Tensor g = input("g");
  const Tensor one = constant(graph, 1.0, {DType::F32, {}});
  std::vector<Tensor> outputs;
  for (const Memory memory : {Memory::DEVICE, Memory::HOST}) {
    const optimizers::OptimizerState next = optimizers::update(
        *optimizers::adamw({.weight_decay = 0.1}, memory),
        {{p}, {mu}, {nu}, constant(graph, 3.0, {DType::S32, {}})}, std::vector{spec},
        std::vector{g}, one, one * 0.01, {.max_value = {}, .max_norm = 0.5});
    outputs.insert(outputs.end(), {next.params[0], next.mu[0], next.nu[0]});
  }
  const std::vector<HostArray> found = runtime::evaluate(client_, graph, outputs, arrays);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].bytes, found[i + 3].bytes) << "the same arithmetic, element by element";
  }
}

TEST_F(HostMemory, OfAnOptimizerIsSavedAndLoaded) {
  const io::Scratch scratch;
  const StepOptions step{.optimizer_memory = Memory::HOST, .ema = {.decay = 0.9}};
  Trainer one = trainer(tiny::specs(), tiny::options(), step);
  one.run(0, 1e-2, tiny::batch(4, 0));
  save_state(scratch.path(), tiny::network(), one.state(), {.step = 1});
  const auto expected = tiny::bytes_of(one.state());
  const State loaded =
      load_state(scratch.path(), tiny::specs(), true, client_, *make_optimizer(step));
  EXPECT_EQ(tiny::bytes_of({.specs = one.state().specs, .parts = loaded}), expected);
}

TEST_F(HostMemory, OfAStepIsTheSumOfItsParts) {
  const StepOptions step{.optimizer_memory = Memory::HOST, .ema = {.decay = 0.9}};
  const StepGraph graph = build_step(tiny::specs(), network_model(tiny::network(), tiny::options()),
                                     tiny::shapes(2), step);
  size_t position = 0;
  int64_t bytes = 0;
  graph.state.each_changed([&](std::span<const nn::ParamSpec> part) {
    for (const nn::ParamSpec& spec : part) {
      const bool waits = spec.memory != Memory::DEVICE;
      EXPECT_EQ(graph.host_outputs.contains(static_cast<int64_t>(position++)), waits) << spec.name;
      bytes += waits ? spec.shape.bytes() : 0;
    }
  });
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(offloaded_bytes(graph.state, {}), bytes);
  EXPECT_LT(bytes, state_bytes(graph.state, {}) * 3 / 4) << "the parameters stay";
}

}  // namespace
}  // namespace kinema::training
