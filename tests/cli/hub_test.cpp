// Commands with a model from a local hub server.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "cli/run_kinema.h"
#include "cli/served_hub.h"
#include "io/scratch.h"
#include "kinema/io/mapped_file.h"

namespace kinema::cli_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HubCommand : public KinemaOnCpu {
 protected:
  std::vector<std::string> train() const {
    return {"train",
            std::string(KINEMA_SOURCE_DIR) + "/configs/tiny.yml",
            "output_dir=" + (folder_ / "out").string(),
            "dataset_type=synthetic",
            "synthetic_override_height=32",
            "synthetic_override_width=32",
            "synthetic_override_num_frames=5",
            "synthetic_override_vae_scale_factor_spatial=8",
            "synthetic_override_vae_scale_factor_temporal=4",
            "autoencoder=wan",
            "text_encoder=umt5",
            "caption_dropout=0.5",
            "max_train_steps=1",
            "pretrained_model_name_or_path=org/name"};
  }
};

TEST_F(HubCommand, TrainsAModelThatItFetchesOnce) {
  Hub hub(io::golden("wan21_t2v"));
  const Outcome first = run(train(), hub.environment(folder_ / "cache"));
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(io::read_text(folder_ / "out/tiny/config.yml"),
              HasSubstr("pretrained_model_name_or_path: \"org/name\""));

  hub.status = 500;
  fs::remove_all(folder_ / "out");
  EXPECT_EQ(run(train(), hub.environment(folder_ / "cache")).status, 0);
}

TEST_F(HubCommand, ReportsARefusalInTwoLines) {
  Hub hub(io::golden("wan21_t2v"));
  for (const int status : {401, 403, 404}) {
    hub.status = status;
    run(train(), hub.environment(folder_ / "cache")).expect_error(fmt::format("{}", status));
  }
}

}  // namespace
}  // namespace kinema::cli_test
