// An agent that several devices train, beside one that a single device trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kinema/agents/device.h"
#include "kinema/agents/evaluate.h"
#include "kinema/agents/learner.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/spaces.h"
#include "kinema/agents/train.h"
#include "kinema/core/error.h"
#include "kinema/io/tensor_file.h"

namespace kinema::agents {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Settings small(std::vector<std::string> more) {
  std::vector<std::string> words{"preset=debug",
                                 "task=native_catch",
                                 R"(.*\.mults=[2])",
                                 R"(.*\.kernel=3)",
                                 R"(.*\.depth=4)",
                                 "batch_size=8",
                                 "batch_length=4",
                                 "agent.imag_length=3",
                                 "agent.opt.warmup=2",
                                 "agent.opt.lr=1e-3",
                                 "jax.debug=false",
                                 "jax.mock_devices=4",
                                 "replay.chunksize=16",
                                 "run.log_every=0",
                                 "run.save_every=0",
                                 "run.steps=60",
                                 "run.report_every=1e-3",
                                 "jax.prealloc=true",
                                 "jax.compute_dtype=float32"};
  words.insert(words.end(), more.begin(), more.end());
  return Settings::read(fs::path(KINEMA_SOURCE_DIR) / "configs/dreamer.yml", words);
}

Settings on_mesh(const std::string& mesh, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"jax.train_devices=[0, 1, 2, 3]", "jax.train_mesh='" + mesh + "'"});
  return small(std::move(more));
}

/// Replayed steps: pixels, actions and states at random.
replay::Arrays random_batch(const dreamer::AgentConfig& config, const BatchSize& size,
                            uint32_t seed) {
  std::mt19937 random(seed);
  replay::Arrays out;
  const Dims leading{size.rows, size.context + size.length};
  for (const auto& [name, shape] : step_shapes(config, DType::F32)) {
    Shape whole{shape.dtype, leading};
    whole.dims.insert(whole.dims.end(), shape.dims.begin(), shape.dims.end());
    HostArray values(whole);
    if (shape.dtype == DType::F32) {
      for (float& x : values.as<float>()) {
        x = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
      }
    } else if (shape.dtype == DType::U8 && name != "is_last" && name != "is_terminal") {
      const uint32_t below = name == "image" ? 256 : 2;
      for (uint8_t& x : values.as<uint8_t>()) {
        x = static_cast<uint8_t>(random() % below);
      }
    }
    out[name] = std::move(values);
  }
  out["stepid"] = HostArray(Shape{DType::U8, {leading[0], leading[1], replay::StepId::kBytes}});
  return out;
}

class AgentMesh : public ::testing::Test {
 protected:
  AgentMesh() : settings_(small({})), device_(open_device(settings_)) {
    const auto group = open_environments(settings_, 1, 0, 0);
    config_ = agent_config(settings_, group->observations(), group->actions());
  }
  fs::path file(const std::string& name) const {
    return fs::path(::testing::TempDir()) / ("agent_mesh_" + name);
  }
  Learner learner(const Settings& settings) const {
    return {train_devices(settings, device_.client), config_, learner_options(settings),
            device_.program};
  }

  Settings settings_;
  Device device_;
  dreamer::AgentConfig config_;
};

/// Parameters and moments that `devices` share.
int64_t shared_arrays(const Learner& learner, const dreamer::AgentConfig& config, int64_t devices) {
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(config);
  int64_t out = 0;
  for (size_t i = 0; i < 3 * specs.size(); ++i) {
    const int64_t bytes = specs[i % specs.size()].shape.bytes();
    out += learner.parameter(i).bytes_per_device() * devices == bytes ? 1 : 0;
  }
  return out;
}

TEST_F(AgentMesh, LossesAreThoseOfOneDevice) {
  Learner one = learner(settings_);
  for (const auto& [mesh, fsdp] : {std::pair{"1,4,1", 4}, {"2,2,1", 2}}) {
    Learner shared = learner(on_mesh(mesh));
    constexpr int64_t kMatrices = 15;
    EXPECT_GT(shared_arrays(shared, config_, fsdp), 3 * kMatrices) << mesh;
    EXPECT_EQ(shared_arrays(shared, config_, fsdp) % 3, 0) << mesh;
    one.restore([&] {
      shared.save(file("start.safetensors"));
      return file("start.safetensors");
    }());
    constexpr uint32_t kSteps = 4;
    for (uint32_t step = 0; step < kSteps; ++step) {
      const replay::Arrays batch = random_batch(config_, learner_options(settings_).batch, step);
      one.begin(batch);
      shared.begin(batch);
      const Learner::Result expected = one.end();
      const Learner::Result actual = shared.end();
      ASSERT_EQ(actual.metrics.size(), expected.metrics.size());
      for (size_t i = 0; i < expected.metrics.size(); ++i) {
        const auto& [name, value] = expected.metrics[i];
        // Sums over 8 rows of up to 300 values in another order, in f32, through four steps.
        const double tolerance = 1e-4 * std::max(1.0, std::abs(value));
        EXPECT_NEAR(actual.metrics[i].second, value, tolerance) << mesh << " " << name;
      }
      EXPECT_EQ(actual.latents.at("dyn/stoch").bytes, expected.latents.at("dyn/stoch").bytes);
      EXPECT_EQ(actual.latents.at("dyn/deter").shape, expected.latents.at("dyn/deter").shape);
    }
  }
}

TEST_F(AgentMesh, TrainsAndGoesOnOnAnotherMesh) {
  const fs::path folder = file("runs");
  fs::remove_all(folder);
  const std::vector<std::string> run{"output_dir=" + folder.string(), "run_name=run"};
  const TrainResult first = train(on_mesh("2,2,1", run), {}, {});
  EXPECT_EQ(first.step, 60);
  EXPECT_GT(first.updates, 0);
  EXPECT_TRUE(fs::exists(folder / "run/open_loop"));
  EXPECT_EQ(evaluate(folder / "run", {.episodes = 3, .environments = 3}, {}, {}).scores.size(), 3U);
  std::vector<std::string> more = run;
  more.emplace_back("run.steps=100");
  more.emplace_back("jax.train_devices=[2, 3]");  // without the device that acts
  EXPECT_GT(train(small(more), {}, {}).updates, first.updates);
  more.back() = "run.steps=120";
  EXPECT_EQ(train(small(more), {}, {}).step, 120);
}

TEST_F(AgentMesh, SaysWhatDoesNotFit) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& said) {
    EXPECT_THAT([&] { (void)train_devices(small(words), device_.client); },
                ThrowsMessage<Error>(HasSubstr(said)))
        << said;
  };
  refused({"jax.train_devices=[0, 4]"}, "has 4, but there are 4 devices");
  refused({"jax.train_devices=[0, 0]"}, "different");
  refused({"jax.train_devices=[2]"}, "must be the first");
  refused({"jax.train_devices=[0, 1]", "jax.train_mesh='3,1,1'"}, "does not make 2 devices");
  refused({"jax.train_devices=[0, 1]", "jax.train_mesh='-1,-1,1'"}, "does not make 2 devices");
  refused({"jax.train_devices=[0, 1]", "jax.train_mesh='1,1,2'"}, "of which the last is 1");
  refused({"jax.train_devices=[0, 1]", "jax.train_mesh=two"}, "must be devices along");
  refused({"jax.train_devices=[0, 1]", "batch_size=7"}, "batch_size=8 would");
}

}  // namespace
}  // namespace kinema::agents
