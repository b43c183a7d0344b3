// LoRA files in `generate`.
#include <gmock/gmock.h>

#include <deque>
#include <string>
#include <vector>

#include "arrays.h"
#include "jobs/call_kinema.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LoraKeys : public RunsTest {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    const Outcome trained = run({"train", "tiny.yml", "max_train_steps=1"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }

  /// A file with an adapter of this rank for some linear layers of the run's transformer.
  void write_lora(const std::string& name, int64_t rank, uint64_t seed) {
    fs::path transformer;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "out")) {
      if (entry.path().filename() == "transformer") {
        transformer = entry.path();
      }
    }
    const io::ModelFolder model = io::ModelFolder::open(transformer);
    std::vector<io::TensorEntry> entries;
    for (const std::string module : {"blocks.0.attn1.to_q", "blocks.0.ffn.net.2", "proj_out"}) {
      const Dims& dims = model.at(module + ".weight").shape.dims;
      arrays_.push_back(normal({rank, dims[1]}, seed++));
      entries.push_back(
          io::TensorEntry::of("transformer." + module + ".lora_A.weight", arrays_.back()));
      arrays_.push_back(normal({dims[0], rank}, seed++));
      entries.push_back(
          io::TensorEntry::of("transformer." + module + ".lora_B.weight", arrays_.back()));
    }
    io::write_safetensors(folder_ / name, entries, {});
  }

  /// The latents of a video with these keys.
  HostArray latents(std::vector<std::string> keys) {
    std::vector<std::string> words{"generate", "tiny.yml", "prompt=a red square",
                                   "contact_sheet=False", "save_latents=latents.safetensors"};
    words.insert(words.end(), keys.begin(), keys.end());
    last_ = run(words);
    EXPECT_EQ(last_.status, 0) << last_.err;
    if (last_.status != 0) {
      return {};
    }
    const auto file = io::SafetensorsFile::open(folder_ / "latents.safetensors");
    return convert(file.tensors()[0].copy(), DType::F32);
  }

  std::deque<HostArray> arrays_;  // the entries point to them
  Outcome last_;
};

TEST_F(LoraKeys, AreMergedOrAppliedToTheSameEffect) {
  write_lora("one.safetensors", 3, 1);
  write_lora("two.safetensors", 2, 11);
  const std::string files =
      "lora_config={lora_model_name_or_path: [one.safetensors, two.safetensors], "
      "scale: [0.1, -0.05]}";
  const HostArray without = latents({});
  const HostArray merged = latents({"enable_lora=true", files});
  EXPECT_THAT(last_.err, AllOf(HasSubstr("one.safetensors: all 6 keys matched, 3 parameters, scale "
                                         "0.1 (diffusers names, rank 3"),
                               HasSubstr("scale -0.05")));
  const HostArray applied = latents({"enable_lora=true", files, "lora_mode=apply"});
  EXPECT_THAT(last_.err, HasSubstr("3 parameters, 3 low-rank pairs not merged, scale 0.1"));

  EXPECT_GT(largest_difference(without, merged), 0.1);
  // The same function of the same numbers in f32, over two steps.
  EXPECT_LT(largest_difference(merged, applied), 1e-4 * largest(merged));
}

TEST_F(LoraKeys, ConvertedFilesMakeTheSameVideo) {
  write_lora("one.safetensors", 3, 1);
  const auto with = [&](const std::string& file) {
    return latents({"enable_lora=true", "lora_config={lora_model_name_or_path: " + file + "}"});
  };
  const HostArray expected = with("one.safetensors");
  std::string before = "one.safetensors";
  for (const std::string format : {"kohya", "comfyui", "original", "diffusers"}) {
    const std::string target = format + ".safetensors";
    const Outcome converted = run({"convert", before, target, "--to", format});
    ASSERT_EQ(converted.status, 0) << converted.err;
    EXPECT_EQ(with(target).bytes, expected.bytes) << format;
    before = target;
  }
  run({"convert", "one.safetensors", "x.safetensors", "--to", "gguf"}).expect_error("or kohya");
}

TEST_F(LoraKeys, AppliedTakeTheirMemoryInAPlan) {
  write_lora("one.safetensors", 3, 1);
  const auto arguments = [&](const std::string& mode) {
    const Outcome outcome =
        run({"plan", "tiny.yml", "target=cpu:1", "mode=generate", "--json", "enable_lora=true",
             "lora_mode=" + mode, "lora_config={lora_model_name_or_path: one.safetensors}"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::Json::parse(outcome.out, "plan").at("bytes").at("arguments").as_int();
  };
  EXPECT_GT(arguments("apply"), arguments("merge"));
}

TEST_F(LoraKeys, ReportErrors) {
  write_lora("one.safetensors", 3, 1);
  const auto refused = [&](const std::vector<std::string>& keys, const std::string& about) {
    std::vector<std::string> words{"generate", "tiny.yml", "prompt=a red square",
                                   "enable_lora=true"};
    words.insert(words.end(), keys.begin(), keys.end());
    run(words).expect_error(about);
  };
  refused({"lora_config={lora_model_name_or_path: none.safetensors}"}, "does not exist");
  refused({"lora_config={lora_model_name_or_path: one.safetensors}", "lora_mode=add"},
          "expected one of merge, apply");
}

}  // namespace
}  // namespace kinema::jobs_test
