#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/safetensors.h"
#include "kinema/training/checkpoint_folder.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::AllOf;
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
  CheckpointFolder checkpoints(scratch / "checkpoints");
  std::vector<double> losses;
  {
    Trainer first = tiny::fresh_trainer(client, 2, kOptions);
    losses = run(first, 0, 3);
    checkpoints.write(3, [&](const std::filesystem::path& folder) {
      save_state(folder, tiny::network(), first.state(),
                 {.step = 3, .data_position = 6, .seed = 5});
    });
  }

  const Found found = checkpoints.newest();
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
  EXPECT_EQ(state.parts.count->to_host().as<int32_t>()[0], 0);
  EXPECT_EQ(state.parts.mu[0].to_host().as<float>()[0], 0.0F);
  EXPECT_EQ(read_train_state(scratch / "weights").step, 2);
}

TEST_F(Resume, KeepsTheSettingsOfTheRun) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  const Trainer trainer = tiny::fresh_trainer(client, 2, {});
  const config::Record settings{
      {"learning_rate", "0.0001"}, {"patch_size", "[1, 2, 2]"}, {"text_encoder", "\"hashed\""}};
  save_state(scratch / "a", tiny::network(), trainer.state(), {.settings = settings},
             {.optimizer = false});

  const TrainState saved = read_train_state(scratch / "a");
  EXPECT_EQ(saved.settings, settings);
  EXPECT_EQ(saved.setting("text_encoder"), "hashed");
  EXPECT_EQ(saved.setting("absent"), "");
  EXPECT_FALSE(has_optimizer(scratch / "a"));
}

// As it was written before all settings were kept.
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
                  AllOf(HasSubstr("dataset_type is tfrecord"), HasSubstr("begun with videos"))));
  same.data.dataset_type = config::DatasetType::VIDEOS;
  same.optimizer.global_batch_size = 8;
  EXPECT_THROW(config::check_matches(saved.settings, config::record_of(same), "run"), Error);

  io::write_file(scratch.path() / "train_state.json", R"({"format": 1, "step": 3, "updates": 3,
      "data_position": 12, "seed": 5, "identity": {"dataset_type": "grain"}})");
  EXPECT_EQ(read_train_state(scratch.path()).setting("dataset_type"), "tfrecord");
}

}  // namespace
}  // namespace kinema::training
