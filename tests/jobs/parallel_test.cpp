// Training over a mesh of CPU devices.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "arrays.h"
#include "jobs/call_kinema.h"
#include "kinema/io/safetensors.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Parallel : public RunsTest {
 protected:
  Outcome train(std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "tiny.yml"});
    return run(words);
  }
};

TEST_F(Parallel, RunsGoOnOnOtherDevices) {
  const std::string batch = "global_batch_size=8";
  const std::string steps = "learning_rate_schedule_steps=4";
  ASSERT_EQ(train({batch, "run_name=one"}).status, 0);

  const Outcome four = train({batch, steps, "run_name=moved", "max_train_steps=2",
                              "cpu_device_count=4", "ici_fsdp_parallelism=4"});
  ASSERT_EQ(four.status, 0) << four.err;
  EXPECT_THAT(four.out, HasSubstr("devices: 4, data=1 fsdp=4 context=1 tensor=1"));
  const Outcome two = train({batch, steps, "run_name=moved", "max_train_steps=3",
                             "cpu_device_count=2", "ici_tensor_parallelism=2"});
  ASSERT_EQ(two.status, 0) << two.err;
  const Outcome eight =
      train({batch, steps, "run_name=moved", "cpu_device_count=8", "ici_data_parallelism=2",
             "ici_fsdp_parallelism=2", "debug_sharding=true"});
  ASSERT_EQ(eight.status, 0) << eight.err;

  const std::vector<std::string> expected = losses("one");
  const std::vector<std::string> found = losses("moved");
  ASSERT_EQ(found.size(), 4U);
  for (size_t i = 0; i < found.size(); ++i) {
    // F32 rounding of sums in another order, amplified by updates of 1e-3 whose sign depends on
    // rounding if a gradient is nearly zero.
    const double wanted = std::stod(expected[i]);
    EXPECT_NEAR(std::stod(found[i]), wanted, 1e-3 * wanted) << i;
  }
  EXPECT_THAT(eight.out,
              AllOf(HasSubstr("mesh data=2 fsdp=2 context=2 tensor=1 over 8 devices"),
                    HasSubstr("[layers_per_stage, heads, embed -> context x fsdp]"),
                    HasSubstr("all-gather"), HasSubstr("over fsdp"), HasSubstr("blocks/")));
}

TEST_F(Parallel, MistakesAreAnsweredWithTheRemedy) {
  struct Mistake {
    std::vector<std::string> words;
    const char* answer;
    const char* remedy;
  };
  const std::vector<Mistake> mistakes = {
      {{"ici_data_parallelism=-1", "ici_context_parallelism=-1"},
       "but only one axis of a network",
       "ici_context_parallelism=1"},
      {{"ici_data_parallelism=2", "ici_context_parallelism=1"}, "makes 2", "is 4"},
      {{"ici_data_parallelism=4", "global_batch_size=6"},
       "does not divide over data=4",
       "set global_batch_size=8"},
      {{"per_device_batch_size=0.3"}, "which is not a whole number", "set global_batch_size=1"},
      {{"per_device_batch_size=0.5", "ici_data_parallelism=4"},
       "a fraction leaves fewer samples",
       "the product is 1 or 2"},
      {{"ici_tensor_parallelism=4"}, "2 attention heads do not divide over tensor=4", "1 or 2"},
      {{R"(logical_axis_rules=[["embed", "sequence"]])"}, "`embed` on `sequence`", "not an axis"},
  };
  for (const Mistake& each : mistakes) {
    std::vector<std::string> words = each.words;
    words.push_back("cpu_device_count=4");
    const Outcome outcome = train(words);
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(each.answer), HasSubstr(each.remedy)));
  }
}

TEST_F(Parallel, GeneratesOverAMeshWhatOneDeviceGenerates) {
  ASSERT_EQ(train({"run_name=made", "max_train_steps=1"}).status, 0);
  const auto generate = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", "tiny.yml", "run_name=made", "prompt=a red circle",
                                 "num_inference_steps=2"});
    return run(words);
  };
  const Outcome one = generate({"save_latents=one.safetensors"});
  ASSERT_EQ(one.status, 0) << one.err;
  const Outcome four =
      generate({"save_latents=four.safetensors", "cpu_device_count=4", "ici_data_parallelism=2",
                "ici_tensor_parallelism=2", "ici_context_parallelism=1", "debug_sharding=true"});
  ASSERT_EQ(four.status, 0) << four.err;
  EXPECT_EQ(four.err, "");
  EXPECT_THAT(four.out, AllOf(HasSubstr("devices: 4, data=2 fsdp=1 context=1 tensor=2"),
                              HasSubstr("[layers_per_stage, heads -> tensor, embed]"),
                              HasSubstr("over tensor")));
  const auto latents = [&](const char* file) {
    return io::SafetensorsFile::open(folder_ / file).at("latents").copy();
  };
  // Sums in another order, over two steps: some roundings of values near 1.
  EXPECT_LT(largest_difference(latents("one.safetensors"), latents("four.safetensors")), 1e-4);

  const Outcome refused = generate({"cpu_device_count=4", "ici_data_parallelism=4"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("2 prompts and negative prompts"),
                                 HasSubstr("generate_batch_size=2")));
}

TEST_F(Parallel, RulesOfARunPutTheSequenceOnFsdp) {
  const Outcome older =
      train({"cpu_device_count=4", "ici_fsdp_parallelism=4", "per_device_batch_size=0.25",
             "run_name=older", "max_train_steps=1", "debug_sharding=true",
             R"(logical_axis_rules=[["activation_batch", "data"], ["activation_length", "fsdp"], )"
             R"(["activation_heads", "tensor"], ["embed", "fsdp"], ["heads", "tensor"]])"});

  ASSERT_EQ(older.status, 0) << older.err;
  EXPECT_THAT(older.out, AllOf(HasSubstr("batch: 1 samples"), HasSubstr("embed -> fsdp")));
}

}  // namespace
}  // namespace kinema::jobs_test
