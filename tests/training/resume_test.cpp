#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "io/scratch.h"
#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/config/resume.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Resume = pjrt::CpuTest;

const StepOptions kOptions{.adamw = {.weight_decay = 0.01, .max_norm = 1.0}, .ema = {.decay = 0.9}};

std::vector<double> run(Trainer& trainer, int64_t from, int64_t to) {
  std::vector<double> losses;
  for (int64_t step = from; step < to; ++step) {
    losses.push_back(trainer.run(step, 1e-2, tiny::batch(2, step)).loss);
  }
  return losses;
}

TEST_F(Resume, GivesTheLossesAndTheStateOfTheUnbrokenRunBitForBit) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  Trainer unbroken = tiny::fresh_trainer(client, 2, kOptions);
  const std::vector<double> expected = run(unbroken, 0, 6);
  checkpoints::CheckpointFolder checkpoints(scratch / "checkpoints");
  std::vector<double> losses;
  {
    Trainer first = tiny::fresh_trainer(client, 2, kOptions);
    losses = run(first, 0, 3);
    checkpoints.write(3, [&](const std::filesystem::path& folder) {
      save_state(folder, tiny::network(), first.state(),
                 {.step = 3, .data_position = 6, .seed = 5});
    });
  }

  const checkpoints::Found found = checkpoints.newest();
  ASSERT_EQ(found.step, 3);
  const TrainState saved = read_train_state(found.folder);
  EXPECT_EQ(saved.step, 3);
  EXPECT_EQ(saved.data_position, 6);
  EXPECT_EQ(saved.seed, 5);
  Trainer second =
      tiny::trainer(client, 2, kOptions, load_state(found.folder, tiny::specs(), true, client));
  const std::vector<double> rest = run(second, 3, 6);
  losses.insert(losses.end(), rest.begin(), rest.end());

  EXPECT_EQ(losses, expected);
  EXPECT_EQ(tiny::bytes_of(second.state()), tiny::bytes_of(unbroken.state()));
}

TEST_F(Resume, OfStateThatAllParametersShareIsBitForBit) {
  for (const OptimizerKind kind : {OptimizerKind::PRODIGY, OptimizerKind::SCHEDULE_FREE}) {
    StepOptions rule = kOptions;
    rule.optimizer = kind;
    rule.prodigy.d0 = 1e-3;
    const io::Scratch scratch;
    pjrt::Client client = pjrt::cpu_client();
    const auto fresh = [&] {
      std::vector<runtime::Array> params = runtime::to_arrays(tiny::params(client));
      return tiny::trainer(
          client, 2, rule,
          fresh_state(std::move(params), tiny::specs(), true, client, *make_optimizer(rule)));
    };
    Trainer unbroken = fresh();
    const std::vector<double> expected = run(unbroken, 0, 4);
    Trainer first = fresh();
    run(first, 0, 2);
    save_state(scratch / "2", tiny::network(), first.state(), {.step = 2});
    Trainer second = tiny::trainer(
        client, 2, rule,
        load_state(scratch / "2", tiny::specs(), true, client, *make_optimizer(rule)));
    const std::vector<double> rest = run(second, 2, 4);
    EXPECT_EQ(rest, (std::vector<double>{expected[2], expected[3]}));
    EXPECT_EQ(tiny::bytes_of(second.state()), tiny::bytes_of(unbroken.state()));
  }
}

// The reference evaluates and saves x, and computes gradients at y: here the loss of the next step
// is that of y, and what a checkpoint holds is x.
TEST_F(Resume, OfScheduleFreeSavesTheAverage) {
  StepOptions rule = kOptions;
  rule.optimizer = OptimizerKind::SCHEDULE_FREE;
  rule.ema = {};
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::trainer(client, 2, rule,
                                  fresh_state(runtime::to_arrays(tiny::params(client)),
                                              tiny::specs(), false, client, *make_optimizer(rule)));
  run(trainer, 0, 3);
  save_state(scratch / "3", tiny::network(), trainer.state(), {.step = 3});
  const State& kept = trainer.state().parts;
  const std::vector<runtime::Array> saved =
      weights::load(scratch / "3" / "transformer", tiny::specs(), runtime::Devices(client));
  // A trainer whose parameters are y: with z equal to them, its gradients are computed at y too.
  std::vector<runtime::Array> points;
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(saved[i].to_host().bytes, kept.trained[i].to_host().bytes);
    HostArray y = saved[i].to_host();
    const HostArray z = kept.mu[i + 1].to_host();
    for (size_t j = 0; j < y.as<float>().size(); ++j) {
      y.as<float>()[j] += (z.as<float>()[j] - y.as<float>()[j]) * static_cast<float>(1.0 - 0.9);
    }
    points.push_back(runtime::Devices(client).upload(y));
  }
  Trainer at_y = tiny::trainer(
      client, 2, rule,
      fresh_state(std::move(points), tiny::specs(), false, client, *make_optimizer(rule)));
  Trainer at_x = tiny::trainer(client, 2, rule,
                               fresh_state(weights::load(scratch / "3" / "transformer",
                                                         tiny::specs(), runtime::Devices(client)),
                                           tiny::specs(), false, client, *make_optimizer(rule)));
  const double next = trainer.run(3, 1e-2, tiny::batch(2, 3)).loss;
  EXPECT_NEAR(at_y.run(3, 1e-2, tiny::batch(2, 3)).loss, next, 1e-6 * next);
  EXPECT_GT(std::abs(at_x.run(3, 1e-2, tiny::batch(2, 3)).loss - next), 1e-5 * next);
}

TEST_F(Resume, DoesNotDependOnHowLayersAreStacked) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 2, kOptions);
  run(trainer, 0, 2);
  save_state(scratch / "saved", tiny::network(), trainer.state(), {.step = 2});
  nn::ModelOptions unrolled = tiny::options();
  unrolled.scan_layers = false;
  const std::vector<nn::ParamSpec> specs = wan::parameters(tiny::config(), unrolled);

  const State loaded = load_state(scratch / "saved", specs, true, client);
  save_state(scratch / "again", tiny::network(), StateView{specs, loaded}, {.step = 2});

  for (const char* name : {"mu.safetensors", "nu.safetensors"}) {
    const io::SafetensorsFile a = io::SafetensorsFile::open(scratch / "saved" / "optimizer" / name);
    const io::SafetensorsFile b = io::SafetensorsFile::open(scratch / "again" / "optimizer" / name);
    for (const io::TensorView& tensor : a.tensors()) {
      EXPECT_EQ(tensor.copy().bytes, b.at(tensor.name).copy().bytes) << tensor.name;
    }
  }
}

TEST_F(Resume, ACopyOnTheHostStaysWhatItWasWhileStepsGoOn) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 2, kOptions);
  run(trainer, 0, 2);
  const auto before = tiny::bytes_of(trainer.state());
  const StateSource copy = host_copy(trainer.state());
  const StateSource weights_only = host_copy(trainer.state(), {.optimizer = false});
  EXPECT_LT(host_bytes(trainer.state(), {.optimizer = false}), host_bytes(trainer.state()));
  run(trainer, 2, 4);

  save_state(scratch / "whole", tiny::network(), copy, {.step = 2});
  save_state(scratch / "weights", tiny::network(), weights_only, {.step = 2}, {.optimizer = false});

  const State whole = load_state(scratch / "whole", tiny::specs(), true, client);
  EXPECT_EQ(tiny::bytes_of({trainer.state().specs, whole}), before);
  const State weights = load_state(scratch / "weights", tiny::specs(), true, client);
  const StateView loaded{trainer.state().specs, weights};
  EXPECT_EQ(loaded.params()[0]->to_host().bytes, before[0]);
  EXPECT_EQ(loaded.parts.mu[0].to_host().as<float>()[0], 0.0F);
}

/// By Count.
std::vector<int32_t> counts_of(const State& state) {
  const HostArray counts = state.counts->to_host();
  const auto all = counts.as<int32_t>();
  return {all.begin(), all.end()};
}

TEST_F(Resume, StartsMomentsAtZeroWithoutASavedOptimizer) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 2, {});
  run(trainer, 0, 2);
  save_state(scratch / "weights", tiny::network(), trainer.state(), {.step = 2},
             {.optimizer = false});

  const State loaded = load_state(scratch / "weights", tiny::specs(), false, client);

  const StateView state{trainer.state().specs, loaded};
  EXPECT_EQ(state.params()[0]->to_host().bytes, trainer.state().params()[0]->to_host().bytes);
  EXPECT_THAT(counts_of(loaded), ElementsAre(2, 0, 2)) << "those of the moments start from 0";
  EXPECT_EQ(state.parts.mu[0].to_host().as<float>()[0], 0.0F);
  EXPECT_EQ(read_train_state(scratch / "weights").step, 2);
}

/// A trainer with the tiny parameters as initial ones, for any optimizer.
Trainer fresh(pjrt::Client& client, const StepOptions& rule) {
  return tiny::trainer(client, 2, rule,
                       fresh_state(runtime::to_arrays(tiny::params(client)), tiny::specs(),
                                   rule.ema.is_on(), client, *make_optimizer(rule)));
}

/// A run of three steps with `rule` that saves only weights and average, resumed for one step.
struct OneMore {
  io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  State before;  // before the fourth step
  Trainer trainer;

  explicit OneMore(const StepOptions& rule)
      : before(saved(rule)), trainer(tiny::trainer(client, 2, rule, load(rule))) {
    run(trainer, 3, 4);
  }
  State load(const StepOptions& rule) {
    return load_state(scratch / "3", tiny::specs(), rule.ema.is_on(), client,
                      *make_optimizer(rule));
  }

 private:
  State saved(const StepOptions& rule) {
    Trainer first = fresh(client, rule);
    run(first, 0, 3);
    save_state(scratch / "3", tiny::network(), first.state(), {.step = 3}, {.optimizer = false});
    return load(rule);
  }
};

TEST_F(Resume, WeighsTheSavedAverageByItsOwnCountWithoutASavedOptimizer) {
  for (const int64_t after : {-1, 0, 1}) {
    SCOPED_TRACE(after);
    StepOptions rule = kOptions;
    rule.ema = {.decay = 0.99, .update_after_step = after};
    const OneMore more(rule);
    const StateView now = more.trainer.state();
    EXPECT_THAT(counts_of(now.parts), ElementsAre(4, 1, 4));

    const double d = rule.ema.decay_at(4);
    for (size_t i = 0; i < now.parts.ema.size(); ++i) {
      const HostArray old = more.before.ema[i].to_host();
      const HostArray params = now.parts.trained[i].to_host();
      const HostArray found = now.parts.ema[i].to_host();
      for (size_t j = 0; j < found.as<float>().size(); ++j) {
        const double a = old.as<float>()[j];
        const double p = params.as<float>()[j];
        // Two products and a sum, each rounded in F32.
        const double limit = 0x1p-22 * (std::abs(a) + std::abs(p));
        ASSERT_NEAR(found.as<float>()[j], d * a + (1 - d) * p, limit) << i << " " << j;
      }
    }
  }
}

// Its first update is that of a run that starts with these weights: AdamW's moments are zero, and
// Adafactor's squares count fully, whatever the run did before.
TEST_F(Resume, CountsTheUpdatesOfMomentsFromWhereTheyBegin) {
  for (const OptimizerKind kind :
       {OptimizerKind::ADAMW, OptimizerKind::ADAMW8BIT, OptimizerKind::ADAFACTOR,
        OptimizerKind::LION, OptimizerKind::CAME, OptimizerKind::PRODIGY,
        OptimizerKind::SCHEDULE_FREE, OptimizerKind::MUON}) {
    SCOPED_TRACE(static_cast<int>(kind));
    StepOptions rule = kOptions;
    rule.optimizer = kind;
    OneMore more(rule);

    std::vector<runtime::Array> weights = weights::load(
        more.scratch / "3" / "transformer", tiny::specs(), runtime::Devices(more.client));
    Trainer anew = tiny::trainer(
        more.client, 2, rule,
        fresh_state(std::move(weights), tiny::specs(), true, more.client, *make_optimizer(rule)));
    run(anew, 3, 4);

    for (const auto part : {&State::trained, &State::mu, &State::nu}) {
      const auto& found = more.trainer.state().parts.*part;
      const auto& expected = anew.state().parts.*part;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].to_host().bytes, expected[i].to_host().bytes) << i;
      }
    }
  }
}

TEST_F(Resume, BeginsAnAverageThatTheCheckpointDoesNotHold) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  StepOptions rule = kOptions;
  rule.ema = {};
  Trainer without = tiny::fresh_trainer(client, 2, rule);
  run(without, 0, 3);
  save_state(scratch / "3", tiny::network(), without.state(), {.step = 3});
  rule.ema = {.decay = 0.99};

  State loaded = load_state(scratch / "3", tiny::specs(), true, client);
  EXPECT_THAT(counts_of(loaded), ElementsAre(3, 3, 0));
  const HostArray weights = loaded.trained[0].to_host();
  Trainer with = tiny::trainer(client, 2, rule, std::move(loaded));
  run(with, 3, 4);

  const StateView now = with.state();
  const double d = rule.ema.decay_at(1);
  const float expected = static_cast<float>(
      d * static_cast<double>(weights.as<float>()[0]) +
      (1 - d) * static_cast<double>(now.parts.trained[0].to_host().as<float>()[0]));
  EXPECT_NEAR(now.parts.ema[0].to_host().as<float>()[0], expected,
              0x1p-22 * 2 * std::abs(expected));
}

// Each count is saved with what it counts, so a run that is resumed twice keeps all three.
TEST_F(Resume, SavesTheCountsOfWhatItSaves) {
  OneMore more(kOptions);
  const auto saved = [&](const char* name, const Held& held) {
    save_state(more.scratch / name, tiny::network(), more.trainer.state(), {.step = 4}, held);
    return io::Json::read(more.scratch / name / "train_state.json");
  };
  const io::Json whole = saved("whole", {});
  EXPECT_EQ(whole.at("updates").as_int(), 4);
  EXPECT_EQ(whole.at("updates_of_moments").as_int(), 1);
  EXPECT_EQ(whole.at("updates_of_average").as_int(), 4);
  const State again = load_state(more.scratch / "whole", tiny::specs(), true, more.client);
  EXPECT_THAT(counts_of(again), ElementsAre(4, 1, 4));
  EXPECT_FALSE(saved("weights", {.optimizer = false}).contains("updates_of_moments"));

  // An earlier version saved only the first one.
  io::Json older = io::Json::object();
  for (const auto& [key, value] : whole.members()) {
    if (!key.starts_with("updates_of")) {
      older.set(key, value);
    }
  }
  io::write_file(more.scratch / "whole" / "train_state.json", older.dump());
  const State old = load_state(more.scratch / "whole", tiny::specs(), true, more.client);
  EXPECT_THAT(counts_of(old), ElementsAre(4, 4, 4));
}

TEST_F(Resume, KeepsTheSettingsOfTheRun) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  const Trainer trainer = tiny::fresh_trainer(client, 2, {});
  const std::map<std::string, std::string> settings{
      {"learning_rate", "0.0001"}, {"patch_size", "[1, 2, 2]"}, {"text_encoder", "\"hashed\""}};
  save_state(scratch / "a", tiny::network(), trainer.state(), {.settings = settings},
             {.optimizer = false});

  const TrainState saved = read_train_state(scratch / "a");
  EXPECT_EQ(saved.settings, settings);
  EXPECT_EQ(saved.setting("text_encoder"), "hashed");
  EXPECT_EQ(saved.setting("absent"), "");
  EXPECT_FALSE(has_optimizer(scratch / "a"));
}

// As written before all settings were saved.
TEST(AnOlderCheckpoint, IsComparedByTheSettingsThatItHas) {
  const io::Scratch scratch;
  io::write_file(scratch / "train_state.json", R"({"format": 1, "step": 3, "updates": 3,
      "data_position": 12, "seed": 5, "identity": {"seed": "5", "samples per step": "8",
      "gradient_accumulation_steps": "2", "dataset_type": "videos", "patch_size": "[1, 2, 2]",
      "image_dim": "null", "range of timesteps": "timesteps 0 to 1000"}})");

  const TrainState saved = read_train_state(scratch.path());
  EXPECT_EQ(saved.step, 3);
  config::Config same;
  same.run.seed = 5;
  same.data.dataset_type = config::DatasetType::VIDEOS;
  same.optimizer.global_batch_size = 4;
  same.optimizer.gradient_accumulation_steps = 2;
  EXPECT_NO_THROW(config::check_matches(saved.settings, config::record_of(same), "run"));
  same.data.dataset_type = config::DatasetType::TFRECORD;
  EXPECT_THAT([&] { config::check_matches(saved.settings, config::record_of(same), "run"); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("dataset_type is tfrecord"), HasSubstr("started with videos"))));
  same.data.dataset_type = config::DatasetType::VIDEOS;
  same.optimizer.global_batch_size = 8;
  EXPECT_THROW(config::check_matches(saved.settings, config::record_of(same), "run"), Error);

  io::write_file(scratch.path() / "train_state.json", R"({"format": 1, "step": 3, "updates": 3,
      "data_position": 12, "seed": 5, "identity": {"dataset_type": "grain"}})");
  EXPECT_EQ(read_train_state(scratch.path()).setting("dataset_type"), "tfrecord");
}

}  // namespace
}  // namespace kinema::training
