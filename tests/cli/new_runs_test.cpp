// Runs with other optimizers and schedules, from other runs' weights, with held-out samples, and at
// the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/run_kinema.h"
#include "kinema/io/json.h"

namespace kinema::cli_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class NewRuns : public KinemaOnCpu {
 protected:
  /// The entries of metrics.jsonl.
  std::vector<io::Json> rows(const std::string& run_name) const {
    std::vector<io::Json> out;
    std::istringstream in(read_text(folder_ / "out" / run_name / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      out.push_back(io::Json::parse(line, "metrics"));
    }
    return out;
  }
  std::vector<double> rates(const std::string& run_name) const {
    std::vector<double> out;
    for (const io::Json& row : rows(run_name)) {
      out.push_back(row.at("learning/current_learning_rate").as_number());
    }
    return out;
  }
  /// Training on records, with an evaluation after each step.
  std::vector<std::string> on_records(const std::vector<std::string>& more) const {
    const std::string golden = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
    std::vector<std::string> out{"train",
                                 "tiny.yml",
                                 "pretrained_model_name_or_path=" + golden + "/wan21_t2v",
                                 "dataset_type=tfrecord",
                                 "train_data_dir=" + golden + "/dataset/tfrecords/train",
                                 "max_sequence_length=32",
                                 "eval_every=1",
                                 "eval_split=0.3"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};

TEST_F(NewRuns, FollowTheScheduleThatIsNamed) {
  const auto of = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"train",
                                 "tiny.yml",
                                 "run_name=rates",
                                 "warmup_steps_fraction=0",
                                 "max_train_steps=4",
                                 "final_lr_fraction=0.5"};
    all.insert(all.end(), words.begin(), words.end());
    fs::remove_all(folder_ / "out/rates");
    EXPECT_EQ(run(all).status, 0);
    std::vector<double> out = rates("rates");
    for (double& rate : out) {
      rate = std::round(rate * 1e6);
    }
    return out;
  };
  using Rates = std::vector<double>;
  EXPECT_EQ(of({}), (Rates{1000, 1000, 1000, 1000}));
  EXPECT_EQ(of({"lr_schedule=linear"}), (Rates{1000, 875, 750, 625}));
  EXPECT_EQ(of({"lr_schedule=cosine"}), (Rates{1000, 927, 750, 573}));
  EXPECT_EQ(of({"lr_schedule=wsd", "lr_decay_fraction=0.5"}), (Rates{1000, 1000, 1000, 750}));
  run({"train", "tiny.yml", "lr_schedule=cosine", "lr_decay_fraction=0"})
      .expect_error("has no decay steps");
  run({"train", "tiny.yml", "lr_schedule=step"}).expect_error("cosine");
}

TEST_F(NewRuns, GoOnBitForBitWhateverTheOptimizer) {
  for (const std::string optimizer :
       {"adamw8bit", "adafactor", "lion8bit", "came", "prodigy", "adamw_schedule_free", "muon"}) {
    const auto with = [&](const std::string& name, const std::string& steps) {
      const Outcome out = run({"train", "tiny.yml", "run_name=" + optimizer + name,
                               "optimizer=" + optimizer, "ffn_dim=256", "max_train_steps=" + steps,
                               "learning_rate_schedule_steps=4", "adam_weight_decay=0.01",
                               "learning_rate_groups=[{match: '*.ffn.*', learning_rate: 0}]"});
      EXPECT_EQ(out.status, 0) << out.err;
    };
    with("_whole", "4");
    with("_parts", "2");
    with("_parts", "4");
    EXPECT_EQ(losses(optimizer + "_parts"), losses(optimizer + "_whole"));
    const auto moments = [&](const std::string& name) {
      const char* file = optimizer == "lion8bit" ? "mu.safetensors" : "nu.safetensors";
      return read_text(folder_ / "out" / (optimizer + name) / "checkpoints/4/optimizer" / file);
    };
    EXPECT_FALSE(moments("_whole").empty());
    EXPECT_EQ(moments("_parts"), moments("_whole"));
    EXPECT_EQ(fs::exists(folder_ / "out" / (optimizer + "_whole") /
                         "checkpoints/4/optimizer/mu.safetensors"),
              optimizer != "adafactor");
    EXPECT_EQ(rows(optimizer + "_whole").back().contains("learning/d"), optimizer == "prodigy");
  }
  // Another optimizer's moments cannot be used.
  run({"train", "tiny.yml", "run_name=adamw8bit_parts", "ffn_dim=256", "max_train_steps=5"})
      .expect_error("optimizer is adamw, but the run of");
}

TEST_F(NewRuns, TakeAdafactorsRelativeStepAndWarmRestarts) {
  EXPECT_EQ(run({"train", "tiny.yml", "run_name=relative", "optimizer=adafactor",
                 "adafactor_relative_step=true", "adafactor_warmup_init=true"})
                .status,
            0);
  EXPECT_NEAR(rates("relative").front(), 1e-6, 1e-12);
  EXPECT_NEAR(rates("relative").back(), 4e-6, 1e-12);
  EXPECT_EQ(run({"train", "tiny.yml", "run_name=restarts", "lr_schedule=cosine_with_restarts",
                 "lr_num_cycles=2", "lr_cycle_growth=3", "lr_cycle_peak=0.5", "learning_rate=1e-3",
                 "warmup_steps_fraction=0"})
                .status,
            0);
  EXPECT_NEAR(rates("restarts").front(), 1e-3, 1e-9);
  EXPECT_NEAR(rates("restarts")[1], 5e-4, 1e-9) << "one step, then three";
}

TEST_F(NewRuns, RefuseRatesThatHaveNoMeaning) {
  run({"train", "tiny.yml", "learning_rate_groups=[{match: 'nothing.*', learning_rate: 1e-4}]"})
      .expect_error("matches no trained parameter");
  run({"train", "tiny.yml", "learning_rate_groups=[{match: '*'}]"})
      .expect_error("expected {match: NAMES, learning_rate: RATE}");
  run({"train", "tiny.yml", "learning_rate=0",
       "learning_rate_groups=[{match: '*', learning_rate: 1e-4}]"})
      .expect_error("relative to learning_rate");
  run({"train", "tiny.yml", "optimizer=prodigy", "learning_rate=1",
       "learning_rate_groups=[{match: '*', learning_rate: 0.5}]"})
      .expect_error("one learning rate for all");
  run({"train", "tiny.yml", "optimizer=prodigy", "prodigy_growth_rate=0.5"})
      .expect_error("prodigy_growth_rate is 0.5");
  run({"train", "tiny.yml", "debiased_estimation=true"}).expect_error("debiased_estimation is for");
  run({"train", "tiny.yml", "loss_type=huber", "huber_schedule=snr"})
      .expect_error("huber_schedule=snr is for");
}

TEST_F(NewRuns, NeedLessMemoryWithSmallerOptimizerStates) {
  const auto state = [&](const std::string& optimizer) {
    const Outcome out = run({"train", "tiny.yml", "run_name=" + optimizer, "optimizer=" + optimizer,
                             "ffn_dim=262144", "max_train_steps=1", "save_final_checkpoint=false"});
    EXPECT_EQ(out.status, 0) << out.err;
    const size_t at = out.out.find("(state ");
    return at == std::string::npos ? 0.0 : std::stod(out.out.substr(at + 7));
  };
  // 12.6 million numbers: 4 bytes each for the parameter, and 8, 2 or almost none for the moments.
  const double wide = state("adamw");
  EXPECT_NEAR(state("adamw8bit"), wide / 2, 0.011);
  EXPECT_NEAR(state("adafactor"), wide / 3, 0.011);
}

TEST_F(NewRuns, StartWithTheWeightsOfAnother) {
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=first"}).status, 0);
  for (const char* named : {"first", "out/first", "out/first/checkpoints/4"}) {
    const Outcome out = run({"train", "tiny.yml", "run_name=next", "max_train_steps=1",
                             std::string("init_from=") + named});
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_THAT(out.out, AllOf(HasSubstr("first/checkpoints/4/transformer"),
                               HasSubstr("completed step: 1,"), Not(HasSubstr("resumed"))));
    fs::remove_all(folder_ / "out/next");
  }
  // At a rate of zero the checkpoint has the initial weights.
  const auto part = [&](const std::string& name, const char* file) {
    return read_text(folder_ / "out" / name / file);
  };
  const auto copy = [&](const std::string& name, const std::string& word) {
    EXPECT_EQ(run({"train", "tiny.yml", "run_name=" + name, "max_train_steps=1", "learning_rate=0",
                   "init_from=first", word})
                  .status,
              0);
  };
  copy("weights", "init_optimizer=false");
  copy("both", "init_optimizer=true");
  const char* weights = "transformer/diffusion_pytorch_model.safetensors";
  const std::string before = part("first/checkpoints/4", weights);
  EXPECT_EQ(part("weights/checkpoints/1", weights), before);
  EXPECT_EQ(part("both/checkpoints/1", weights), before);
  const auto updates = [&](const std::string& run_name) {
    return io::Json::read(folder_ / "out" / run_name / "checkpoints/1/train_state.json")
        .at("updates")
        .as_int();
  };
  EXPECT_EQ(updates("weights"), 1);
  EXPECT_EQ(updates("both"), 5);
  EXPECT_NE(part("both/checkpoints/1", "optimizer/nu.safetensors"),
            part("weights/checkpoints/1", "optimizer/nu.safetensors"));

  // After its first checkpoint, the run resumes from its own.
  const Outcome more =
      run({"train", "tiny.yml", "run_name=both", "max_train_steps=2", "init_from=first"});
  EXPECT_THAT(more.out, HasSubstr("resumed after step 1")) << more.err;
}

TEST_F(NewRuns, RefuseWeightsOfOtherModels) {
  ASSERT_EQ(
      run({"train", "tiny.yml", "run_name=first", "max_train_steps=1", "save_optimizer=false"})
          .status,
      0);
  const auto refused = [&](const std::vector<std::string>& words, const std::string& about) {
    std::vector<std::string> all{"train", "tiny.yml", "run_name=next"};
    all.insert(all.end(), words.begin(), words.end());
    run(all).expect_error(about);
  };
  refused({"init_from=first", "num_layers=2"}, "init_from: num_layers is 2, but the network of");
  refused({"init_from=nowhere"}, "init_from `nowhere` is neither a folder nor a run in out");
  refused({"init_from=out"}, "neither a run's folder nor a checkpoint");
  refused({"init_from=first", "resume_from=out/first"}, "set only one");
  refused({"init_from=first", "init_optimizer=true"}, "has no optimizer state");
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=second", "max_train_steps=1"}).status, 0);
  refused({"init_from=second", "init_optimizer=true", "optimizer=adafactor"},
          "has adamw's state, but this run's optimizer is adafactor");
}

TEST_F(NewRuns, EvaluateHeldOutSamples) {
  const Outcome out = run(on_records({"max_train_steps=3"}));
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_THAT(out.out, HasSubstr("evaluation after step 1:"));
  int64_t evaluations = 0;
  for (const io::Json& row : rows("tiny")) {
    evaluations += row.contains("learning/eval_loss") ? 1 : 0;
  }
  EXPECT_EQ(evaluations, 3);
  // `kinema evaluate` returns the same loss.
  const Outcome apart = run({"evaluate", "out/tiny/config.yml", "--json"});
  ASSERT_EQ(apart.status, 0) << apart.err;
  EXPECT_EQ(io::Json::parse(apart.out, "stdout").at("loss").as_number(),
            rows("tiny").back().at("learning/eval_loss").as_number());

  // Held-out samples without an evaluation are logged, because they are not used.
  const Outcome silent = run(on_records({"run_name=silent", "eval_every=-1", "max_train_steps=1"}));
  EXPECT_EQ(silent.status, 0) << silent.err;
  EXPECT_THAT(silent.err, HasSubstr("eval_split 0.3 (command line) holds out samples, but "
                                    "eval_every is -1"));
  run(on_records({"run_name=other", "eval_data_dir=somewhere"}))
      .expect_error("set only one of them");
  run({"train", "tiny.yml", "run_name=other", "eval_split=0.1"}).expect_error("is synthetic");
  run({"evaluate", "tiny.yml", "eval_split=0.1"}).expect_error("is synthetic");
  run({"convert", "out/tiny", "tiny.safetensors", "--to", "comfyui"})
      .expect_error("holds a run's checkpoints");
  run({"convert", "out/tiny/checkpoints/500", "tiny.safetensors", "--to", "kohya"})
      .expect_error("out/tiny/checkpoints/500 does not exist: the run has checkpoints of steps ");
  run({"convert", "nothing.safetensors", "tiny.safetensors", "--to", "kohya"})
      .expect_error("nothing.safetensors does not exist");
  run(on_records({"eval_split=0.2"})).expect_error("eval_split is 0.2, but the run of");
}

TEST_F(NewRuns, HoldOutClipsToo) {
  fs::copy(fs::path(KINEMA_SOURCE_DIR) / "tests/golden/dataset", folder_ / "clips",
           fs::copy_options::recursive);
  fs::remove_all(folder_ / "clips/tfrecords");
  for (const std::string location : {"", "kept"}) {
    const Outcome out =
        run({"train", "tiny.yml", "run_name=clips" + location, "dataset_type=videos",
             "train_data_dir=clips", "num_frames=5", "eval_every=2", "eval_split=0.5",
             "max_train_steps=2", "dataset_save_location=" + location});
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_THAT(out.out, HasSubstr("evaluation after step 2:"));
    EXPECT_TRUE(rows("clips" + location).back().contains("learning/eval_loss"));
  }
}

TEST_F(NewRuns, StopWithoutABetterEvaluation) {
  // At a rate of zero the second and the third evaluation have no lower loss.
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = on_records(
        {"run_name=" + name, "learning_rate=0", "stop_after_evaluations_without_gain=2"});
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Outcome whole = train("whole", {"max_train_steps=9"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.out,
              HasSubstr("stopped after 3 steps (2 evaluations without improvement, the best "
                        "loss is "));
  EXPECT_TRUE(fs::exists(folder_ / "out/whole/checkpoints/3/manifest.json"));

  // A resumed run continues to count.
  ASSERT_EQ(train("parts", {"max_train_steps=2"}).status, 0);
  const Outcome parts = train("parts", {"max_train_steps=9", "--json"});
  ASSERT_EQ(parts.status, 0) << parts.err;
  const io::Json result = io::Json::parse(parts.out, "stdout");
  EXPECT_EQ(result.at("steps").as_int(), 3);
  EXPECT_TRUE(result.at("stopped").as_bool());
  EXPECT_THAT(result.at("stopped_for").as_string(), HasSubstr("after step 1"));

  const Outcome again = train("whole", {"max_train_steps=9", "pjrt_plugin=/absent.so"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("nothing to do"));
  const Outcome past =
      train("whole", {"max_train_steps=4", "stop_after_evaluations_without_gain=0"});
  EXPECT_THAT(past.out, HasSubstr("done after 4 steps")) << past.err;
}

TEST_F(NewRuns, SayTimeEpochAndMemory) {
  const Outcome out = run({"train", "tiny.yml", "synthetic_num_samples=2", "--json"});
  ASSERT_EQ(out.status, 0) << out.err;
  const io::Json result = io::Json::parse(out.out, "stdout");
  const io::Json last = rows("tiny").back();
  for (const io::Json* json : {&result, &last}) {
    EXPECT_DOUBLE_EQ(json->at("learning/epoch").as_number(), 2.0);  // 4 steps of 2 batches
    EXPECT_GT(json->at("perf/rss_bytes").as_int(), 10'000'000);
    EXPECT_GE(json->at("perf/peak_rss_bytes").as_int(), json->at("perf/rss_bytes").as_int());
    EXPECT_THAT(json->at("time").as_string(), ::testing::MatchesRegex("20[0-9-]+T[0-9:.]+Z"));
  }
}

TEST_F(NewRuns, AreCompared) {
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=first"}).status, 0);
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=second", "learning_rate=2e-3", "max_train_steps=3"})
                .status,
            0);
  const Outcome out = run({"compare", "out/first", "out/second", "--svg", "both.svg"});
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_THAT(out.out, AllOf(HasSubstr("learning_rate            0.001"), HasSubstr("0.002\n"),
                             HasSubstr("max_train_steps          4"), Not(HasSubstr("run_name")),
                             HasSubstr("\ngradient norm\n"), HasSubstr("steps a second"),
                             HasSubstr("losses equal to first's  - "),
                             HasSubstr("at the first 1 of 3 steps\n")));
  EXPECT_THAT(run({"compare", "out/first", "out/first"}).out, HasSubstr("at all 4 steps\n"));
  const std::string svg = read_text(folder_ / "both.svg");
  EXPECT_THAT(svg, AllOf(HasSubstr(">learning rate</text>"), HasSubstr(">second</text>"),
                         Not(HasSubstr("nan")), ::testing::EndsWith("</svg>\n")));

  const Outcome json = run({"compare", "out/first", "out/second", "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const io::Json found = io::Json::parse(json.out, "stdout");
  EXPECT_EQ(found.at("runs").items()[1].at("steps").as_int(), 3);
  EXPECT_EQ(found.at("differences").at("learning_rate").items()[1].as_string(), "0.002");
  EXPECT_EQ(found.at("curves").at("loss").items()[0].at("values").items().size(), 4);
  EXPECT_EQ(std::to_string(found.at("runs").items()[0].at("best_loss").as_number()),
            std::to_string(std::stod(std::ranges::min(
                losses("first"), {}, [](const std::string& loss) { return std::stod(loss); }))));

  // The configuration of a copied run names the run that it was copied from.
  fs::copy(folder_ / "out/first", folder_ / "copied", fs::copy_options::recursive);
  EXPECT_THAT(run({"train", "copied/config.yml", "max_train_steps=4"}).err,
              HasSubstr("copied/config.yml is beside checkpoints, but its keys name the run "
                        "out/first\n"));
  EXPECT_THAT(run({"train", "out/first/config.yml", "max_train_steps=4"}).err,
              Not(HasSubstr("beside checkpoints")));

  run({"compare", "out/first"}).expect_error("1 run was given");
  run({"compare", "absent"}).expect_error("absent is not a folder of a run");
  run({"compare", "out"}).expect_error("out is not a run, but contains 2 runs");
  run({"compare", "out/first", "absent"}).expect_error("absent is not a folder of a run");
  run({"compare", "out/first", "out"})
      .expect_error("out is not a run, but contains 2 runs: second, first");
  fs::create_directories(folder_ / "empty");
  write("empty/metrics.jsonl", "");
  run({"compare", "empty", "out/first"}).expect_error("has made no step");
}

}  // namespace
}  // namespace kinema::cli_test
