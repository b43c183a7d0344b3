#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "kinema/io/safetensors.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const pjrt::Client& client() {
  static const pjrt::Client opened = runtime::open_client({});
  return opened;
}

/// A golden case with its models, which a test changes.
class ChangedCase {
 public:
  explicit ChangedCase(std::string name) : name_(std::move(name)), folder_("verify-changed") {
    for (const auto& entry : fs::directory_iterator(kGolden)) {
      if (entry.path().filename() != "io") {
        fs::create_symlink(entry.path(), folder_.path() / entry.path().filename());
      }
    }
    std::ifstream in(kGolden / "io" / (name_ + ".json"));
    json_.assign(std::istreambuf_iterator<char>(in), {});
    const auto file = io::SafetensorsFile::open(kGolden / "io" / (name_ + ".safetensors"));
    for (const io::TensorView& tensor : file.tensors()) {
      tensors_.emplace(tensor.name, tensor.copy());
    }
  }

  const HostArray& tensor(const std::string& name) const { return tensors_.at(name); }
  ChangedCase& remove(const std::string& tensor) {
    EXPECT_EQ(tensors_.erase(tensor), 1U) << tensor;
    return *this;
  }
  ChangedCase& put(const std::string& tensor, HostArray value) {
    tensors_[tensor] = std::move(value);
    return *this;
  }
  ChangedCase& replace(const std::string& text, const std::string& by) {
    const size_t at = json_.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    json_.replace(at, text.size(), by);
    return *this;
  }

  std::vector<Row> rows() const {
    fs::create_directory(folder_.path() / "io");
    std::ofstream(folder_.path() / "io" / (name_ + ".json")) << json_;
    std::vector<io::TensorEntry> entries;
    for (const auto& [name, value] : tensors_) {
      entries.push_back(io::TensorEntry::of(name, value));
    }
    io::write_safetensors(folder_.path() / "io" / (name_ + ".safetensors"), entries);
    return run_cached(folder_.path(), client(), {.scan_off = false}).rows;
  }
  /// The failed rows, `TENSOR: MESSAGE`.
  std::vector<std::string> misses() const {
    std::vector<std::string> out;
    for (const Row& row : rows()) {
      if (!row.ok) {
        out.push_back(row.tensor + ": " + row.message);
      }
    }
    return out;
  }

 private:
  std::string name_;
  io::TemporaryFolder folder_;
  std::string json_;
  std::map<std::string, HostArray> tensors_;
};

HostArray changed(HostArray value) {
  value.as<float>()[0] += 1.0F;
  return value;
}

/// The array without its last row.
HostArray shorter(const HostArray& value) {
  Shape shape = value.shape;
  --shape.dims.at(0);
  HostArray out(shape);
  std::copy_n(value.bytes.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

TEST(ChangedCase, TokensOfVideosNeedTheirMask) {
  ChangedCase c("tokenizer");
  EXPECT_THAT(c.remove("mask").misses(), Contains(HasSubstr("has no tensor `mask`")));
}

TEST(ChangedCase, TokensOfImagesAreThoseOfThePromptAsItIs) {
  ChangedCase c("clip_tokenizer");
  EXPECT_THAT(c.put("mask", c.tensor("ids")).misses(), IsEmpty());
}

TEST(ChangedCase, APipelineNeedsEveryArgumentThatItsClassNeeds) {
  for (const char* key : {"height", "width", "num_inference_steps", "max_sequence_length"}) {
    EXPECT_THAT(ChangedCase("flux_pipeline_schnell")
                    .replace(fmt::format("\"{}\"", key), "\"other\"")
                    .misses(),
                Contains(HasSubstr(key)));
  }
  for (const char* key : {"height", "num_frames", "guidance_scale", "max_sequence_length"}) {
    EXPECT_THAT(
        ChangedCase("pipeline_t2v").replace(fmt::format("\"{}\"", key), "\"other\"").misses(),
        Contains(HasSubstr(key)));
  }
}

TEST(ChangedCase, AVideosNegativePromptIsComparedWithoutGuidanceToo) {
  ChangedCase c("pipeline_t2v_g1");
  c.put("negative_prompt_embeds", changed(ChangedCase("pipeline_t2v").tensor("prompt_embeds")));
  EXPECT_THAT(c.misses(), Contains(HasSubstr("negative_prompt_embeds: ")));
}

TEST(ChangedCase, AVideosScheduleIsNoConfiguration) {
  ChangedCase c("pipeline_t2v");
  c.replace("\"scheduler\": \"as in the folder\"",
            R"("scheduler": {"class": "FlowMatchEulerDiscreteScheduler"})");
  EXPECT_THAT(c.misses(), Contains(HasSubstr("scheduler")));
}

TEST(ChangedCase, AVideosLoraNeedsEveryFactor) {
  for (const char* factor : {"lora_A", "lora_B"}) {
    const std::string tensor = fmt::format("lora.blocks.0.attn1.to_q.{}.weight", factor);
    EXPECT_THAT(ChangedCase("lora_train").remove(tensor).misses(), Contains(HasSubstr(tensor)));
  }
}

TEST(ChangedCase, AVideosLoraNeedsItsOutputs) {
  for (const char* tensor : {"eval.output.base", "eval.hidden_states"}) {
    EXPECT_THAT(ChangedCase("lora_train").remove(tensor).misses(), Contains(HasSubstr(tensor)));
  }
  EXPECT_THAT(ChangedCase("lora_train").replace("\"use_rslora\"", "\"other\"").misses(),
              Contains(HasSubstr("use_rslora")));
}

TEST(ChangedCase, WeightsOfALossAreThoseOfEverySampleAndStep) {
  ChangedCase c("train_weighted");
  c.put("loss_weights", shorter(c.tensor("loss_weights")));
  EXPECT_THAT(c.misses(), Contains(HasSubstr("which has no such element")));
}

TEST(ChangedCase, AnOutputWithoutAnAdapterMayHaveAnyName) {
  ChangedCase c("lora");
  const HostArray base = c.tensor("base.output");
  EXPECT_THAT(c.put("a.b.output", base).misses(), IsEmpty());
  EXPECT_THAT(c.put("a.b.output", changed(base)).misses(),
              ElementsAre(HasSubstr("a.b.output: element 0")));
  c.remove("a.b.output").put("none.scale1e0.output", base);
  EXPECT_THAT(c.misses(), Contains(HasSubstr("none.safetensors")));
}

TEST(ChangedCase, AnOperationNeedsEveryOperand) {
  for (const char* tensor :
       {"linear.x", "mlp.dy", "mlp.linear_2.bias", "attention.dy", "conv.bias"}) {
    EXPECT_THAT(ChangedCase("quant_int8").remove(tensor).misses(), Contains(HasSubstr(tensor)));
  }
}

TEST(ChangedCase, DistancesAreOfArraysOfOneSize) {
  ChangedCase c("quant_model_int8");
  c.put("plain.prediction", shorter(c.tensor("plain.prediction")));
  EXPECT_THAT(c.misses(), Contains(HasSubstr("is compared with")));
}

TEST(ChangedCase, CasesOfImagesStateTheirLimits) {
  for (const char* name : {"flux_sched", "flux_objective", "quant_int8"}) {
    EXPECT_THAT(ChangedCase(name).replace("\"limits\"", "\"other\"").misses(),
                Contains(HasSubstr("limits")));
  }
}

}  // namespace
}  // namespace kinema::verification
