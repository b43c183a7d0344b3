#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"

namespace kinema::jobs_test {

/// A folder with the reference's tiny SDXL in one file.
class OnePipelineFile : public RunsTest {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    // The sizes of a tiny model are not the released ones: config files next to the weights have
    // them.
    std::filesystem::copy_file(io::golden("single/sdxl.safetensors"), folder_ / "sdxl.safetensors");
    for (const char* part : {"unet", "vae", "text_encoder", "text_encoder_2"}) {
      std::filesystem::create_directory(folder_ / part);
      std::filesystem::copy_file(io::golden(std::string("sdxl/") + part + "/config.json"),
                                 folder_ / part / "config.json");
    }
  }

  Outcome generate(const std::vector<std::string>& keys,
                   const std::string& model = "sdxl.safetensors") {
    std::vector<std::string> words{"generate",
                                   model,
                                   "prompt=a red square",
                                   "height=32",
                                   "width=32",
                                   "num_inference_steps=1",
                                   "contact_sheet=False",
                                   "output_dir=out"};
    words.insert(words.end(), keys.begin(), keys.end());
    return run(words);
  }
  void bring_tokenizers(const std::filesystem::path& to) {
    for (const char* part : {"tokenizer", "tokenizer_2"}) {
      std::filesystem::copy(io::golden(std::string("sdxl/") + part), to / part,
                            std::filesystem::copy_options::recursive);
    }
  }
  HostArray latents(std::vector<std::string> keys, const std::string& model) {
    keys.emplace_back("save_latents=latents.safetensors");
    const Outcome outcome = generate(keys, model);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::SafetensorsFile::open(folder_ / "latents.safetensors").at("latents").copy();
  }
  bool has_picture(const std::string& model = "sdxl") const {
    return std::filesystem::exists(folder_ / "out/samples" / model / "000_a_red_square.png");
  }
};

}  // namespace kinema::jobs_test
