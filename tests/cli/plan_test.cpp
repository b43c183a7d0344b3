// `kinema plan` as a user runs it: on the CPU plugin, and on libtpu where it is installed.
#include <gmock/gmock.h>

#include "cli/run_kinema.h"
#include "io/json.h"

namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kTiny = std::string(KINEMA_SOURCE_DIR) + "/configs/tiny.yml";

class Plan : public KinemaTest {};

TEST_F(Plan, ReportsTheTrainingStepOnCpu) {
  const Outcome outcome = run({"plan", kTiny, "target=cpu:1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::parse(outcome.out, "plan");
  EXPECT_EQ(json.at("devices").as_int(), 1);
  EXPECT_TRUE(json.at("fits").as_bool());
  const io::Json& bytes = json.at("bytes");
  EXPECT_GT(bytes.at("arguments").as_int(), 0);
  EXPECT_GT(bytes.at("temporaries").as_int(), 0);
  EXPECT_GT(bytes.at("aliased").as_int(), 0) << "the state is donated";
  EXPECT_GE(json.at("flops").as_number(), json.at("model_flops").as_number())
      << "the formula leaves out embeddings and head";
}

TEST_F(Plan, ReportsTheDenoisingStepForPeople) {
  const Outcome outcome = run({"plan", kTiny, "target=cpu:1", "mode=generate"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("denoising step for cpu:1"), HasSubstr("temporaries"),
                                 HasSubstr("fits")));
}

TEST_F(Plan, RefusesWrongInputInALineOrTwo) {
  run({"plan", kTiny}).expect_error("target=v6e:4x4");
  run({"plan", kTiny, "target=v9:1"}).expect_error("is not known");
  run({"plan", kTiny, "target=cpu:1", "mode=dance"}).expect_error("train or generate");
  run({"plan", "target=cpu:1"}).expect_error("which configuration");
  run({"plan", kTiny, "target=cpu:1", "--flag", "xla_no_such=true"})
      .expect_error("xla_no_such (command line) is refused");
  run({"plan", kTiny, "target=v6e:1x1"}, "KINEMA_CACHE=/nowhere")
      .expect_error("kinema doctor --install tpu");
  run({"plan", kTiny, "target=cpu:1", "compile_memory_gib=0.001"})
      .expect_error("compile_memory_gib=N");
  run({"plan", kTiny, "target=cpu:1", "pretrained_model_name_or_path=Some/Model"})
      .expect_error("sizes are not known");
}

/// Needs libtpu, which `kinema doctor --install tpu` fetches; the tests do not.
class PlanTpu : public KinemaTest {
 protected:
  void SetUp() override {
    KinemaTest::SetUp();
    const Outcome doctor = run({"doctor", "--json"});
    if (doctor.out.find("libtpu.so") == std::string::npos) {
      GTEST_SKIP() << "libtpu is not installed";
    }
  }
};

TEST_F(PlanTpu, CompilesWithTheRealCompiler) {
  const Outcome outcome = run({"plan", kTiny, "target=v6e:1x1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::parse(outcome.out, "plan");
  EXPECT_GT(json.at("bytes").at("limit").as_int(), int64_t{30} << 30);
  EXPECT_GT(json.at("roofline").at("seconds").as_number(), 0);
}

TEST_F(PlanTpu, SaysWhatDoesNotFitAndWhy) {
  const Outcome outcome =
      run({"plan", kTiny, "target=v5e:1x1", "height=2048", "width=2048", "num_frames=16"});
  outcome.expect_error("does not fit");
  EXPECT_THAT(outcome.err, HasSubstr("largest values"));
}

}  // namespace
}  // namespace kinema::cli_test
