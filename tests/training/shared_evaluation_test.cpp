// Run by mpirun as two processes of one device each: each process of an evaluation reads only its
// device's samples, and the result equals that of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "kinema/mesh/batch.h"
#include "kinema/runtime/client.h"
#include "kinema/training/evaluation.h"
#include "runtime/cpu_mesh.h"
#include "training/tiny.h"
#include "world/test_world.h"

namespace kinema::training {
namespace {

constexpr int64_t kBatch = 4;

const pjrt::Client& shared() {
  static const std::shared_ptr<world::World> world(&world::test_world(), [](world::World*) {});
  static const pjrt::Client client = runtime::open_client({.world = world});
  return client;
}

/// Samples of the tiny model's size that record which of them were read.
class Noted : public data::Source {
 public:
  explicit Noted(bool brings_timesteps) : brings_timesteps_(brings_timesteps) {}
  int64_t size() const override { return 6; }
  data::Sample at(int64_t position) const override {
    read.insert(position);
    const Dims latents = tiny::shapes(1).latents.dims;
    const Dims text = tiny::shapes(1).text.dims;
    data::Sample sample{
        .latents = tiny::normal({latents.begin() + 1, latents.end()}, "latents", position),
        .encoder_hidden_states = tiny::normal({text.begin() + 1, text.end()}, "text", position),
        .timestep = {},
        .id = "sample"};
    if (brings_timesteps_) {
      sample.timestep = 100 * (position + 1);
    }
    return sample;
  }
  mutable std::set<int64_t> read;

 private:
  bool brings_timesteps_;
};

Evaluation evaluate(const runtime::Devices& on, const data::Source& source) {
  nn::ModelOptions model = tiny::options();
  model.place = on.placement();
  StepOptions step;
  step.batch_axes = mesh::batch_axes(on.placement(), mesh::Settings().data_sharding, kBatch);
  const std::vector<nn::ParamSpec> specs = tiny::specs();
  pjrt::Client client = on.client();
  std::vector<runtime::Array> params;
  const std::vector<pjrt::Buffer> whole = tiny::params(client);
  for (size_t i = 0; i < specs.size(); ++i) {
    params.push_back(on.upload(whole[i].to_host(), specs[i].sharding(on.placement())));
  }
  const Evaluator evaluator(on, specs, network_model(tiny::network(), model), tiny::shapes(kBatch),
                            step, {.timesteps = {250, 750}, .samples = 6, .seed = 3});
  return evaluator.run(pointers_to<runtime::Array>(params), source);
}

void expect_same(const Evaluation& found, const Evaluation& expected) {
  EXPECT_EQ(found.samples, expected.samples);
  ASSERT_EQ(found.by_timestep.size(), expected.by_timestep.size());
  for (const auto& [timestep, loss] : expected.by_timestep) {
    EXPECT_NEAR(found.by_timestep.at(timestep), loss, 1e-5 * loss);
  }
}

TEST(SharedEvaluation, ReadsWhatTheDevicesOfThisProcessHold) {
  const runtime::Devices both = runtime::devices_of(shared(), runtime::mesh_sizes(2, 1, 1, 1));
  const Noted source(/*brings_timesteps=*/false);
  const Evaluation found = evaluate(both, source);
  // Batches of samples 0 to 3 and of 4, 5, 5, 5, half of each on every process; 0 is read to see
  // that there are no timesteps.
  const std::set<int64_t> first{0, 1, 4, 5};
  const std::set<int64_t> second{0, 2, 3, 5};
  EXPECT_EQ(source.read, world::test_world().rank() == 0 ? first : second);
  expect_same(found, evaluate(pjrt::cpu_client(), Noted(false)));
}

TEST(SharedEvaluation, ReadsAllWhereSamplesBringTheirTimesteps) {
  const runtime::Devices both = runtime::devices_of(shared(), runtime::mesh_sizes(2, 1, 1, 1));
  const Noted source(/*brings_timesteps=*/true);
  const Evaluation found = evaluate(both, source);
  EXPECT_EQ(source.read.size(), 6U);
  expect_same(found, evaluate(pjrt::cpu_client(), Noted(true)));
}

}  // namespace
}  // namespace kinema::training
