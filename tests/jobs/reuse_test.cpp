// The keys that let sampling steps reuse earlier ones.
#include <gmock/gmock.h>

#include <string>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ReuseKeys : public RunsTest {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=1"}).status, 0);
  }

  /// The number of steps that reused earlier ones.
  int64_t reused(std::vector<std::string> keys) {
    std::vector<std::string> words{"generate", "tiny.yml", "num_inference_steps=12",
                                   "contact_sheet=False", "--json"};
    words.insert(words.end(), keys.begin(), keys.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    if (outcome.status != 0) {
      return -1;
    }
    const io::Json report = io::Json::parse(outcome.out, "stdout");
    EXPECT_EQ(report.at("steps").as_int(), 12);
    return report.at("reused_steps").as_int();
  }
};

TEST_F(ReuseKeys, DoWhatTheySay) {
  EXPECT_EQ(reused({}), 0);
  EXPECT_EQ(reused({"use_kv_cache=True"}), 0);
  EXPECT_EQ(reused({"use_cfg_cache=True", "use_kv_cache=True"}), 4);
  // Computed completely: the first two, then one after each skip.
  EXPECT_EQ(reused({"use_magcache=True", "mag_ratios_base=[1,1]", "magcache_K=1"}), 5);
  EXPECT_EQ(reused({"use_magcache=True", "mag_ratios_base_480p=[1,1]", "magcache_K=0"}), 0);
}

TEST_F(ReuseKeys, SayWhatTheyNeed) {
  const std::vector<std::string> base{"generate", "tiny.yml"};
  const auto expect_error = [&](std::vector<std::string> keys, const std::string& about) {
    keys.insert(keys.begin(), base.begin(), base.end());
    run(keys).expect_error(about);
  };
  expect_error({"use_magcache=True"}, "mag_ratios_base");
  expect_error({"use_magcache=True", "mag_ratios_base=[1,1,1]"}, "3 values");
  expect_error({"use_magcache=True", "mag_ratios_base=[1,1]", "use_cfg_cache=True"},
               "cannot be combined");
  expect_error({"use_sen_cache=True", "use_cfg_cache=True"}, "cannot be combined");
  expect_error({"use_cfg_cache=True", "guidance_scale=1"}, "use_cfg_cache");
  expect_error({"use_sen_cache=True", "guidance_scale=1"}, "use_sen_cache");
}

}  // namespace
}  // namespace kinema::jobs_test
