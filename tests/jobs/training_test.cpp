#include "kinema/jobs/training.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "cli/run_kinema.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/load.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

class TrainingRun : public cli_test::KinemaOnCpu {
 protected:
  /// A run with checkpoints of some 100 MB, so that writing one takes longer than the following
  /// code.
  Training open(const pjrt::Client& client, const config::Loaded& loaded) {
    return prepare_training(loaded, client, folder_ / "run", {}, nullptr, {});
  }
  config::Loaded configuration() {
    return resolve::load((folder_ / "tiny.yml").string(),
                         std::vector<std::string>{"ffn_dim=200000", "checkpoint_every=1"}, {});
  }
};

// Under AddressSanitizer this also shows that the writing thread uses no destroyed object.
TEST_F(TrainingRun, WaitsForTheCheckpointThatIsBeingWrittenWhenAStepThrows) {
  const config::Loaded loaded = configuration();
  const pjrt::Client client = runtime::open_client(resolve::client_spec(loaded.config));
  std::vector<std::string> lines;
  {
    Training training = open(client, loaded);
    training.log = [&](const std::string& line) { lines.push_back(line); };
    training::LoopParts parts = training.parts();
    parts.report = [](const training::StepRecord&) {};
    parts.stop_requested = [] { return false; };
    parts.run_step = [step = parts.run_step](int64_t i, double rate, const data::Batch& batch) {
      if (i == 2) {
        throw std::runtime_error("the device is gone");
      }
      return step(i, rate, batch);
    };
    EXPECT_THROW(training::train_loop(training.loop, parts), std::runtime_error);
  }
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/2/manifest.json"));
  ASSERT_EQ(lines.size(), 1u) << "of the first checkpoint, which the second one waited for";
}

}  // namespace
}  // namespace kinema::jobs
