// prompt_syntax in `generate`, with the reference's tiny SDXL, Flux and Wan. tests/peers/prompts.py
// has the numbers.
#include <gmock/gmock.h>

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/checkpoint.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class PromptSyntaxKey : public RunsTest {
 protected:
  Outcome generate(const std::string& prompt, std::vector<std::string> more,
                   const std::string& model = "sdxl") {
    std::vector<std::string> words{"generate",
                                   golden_ + "/" + model,
                                   "prompt=" + prompt,
                                   "height=32",
                                   "width=32",
                                   "num_inference_steps=2",
                                   "weights_dtype=float32",
                                   "activations_dtype=float32",
                                   "contact_sheet=False",
                                   "video_folder=out",
                                   "save_latents=latents.safetensors",
                                   "executable_cache=../kinema_cli_programs"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  HostArray latents(const std::string& prompt, std::vector<std::string> more,
                    const std::string& model = "sdxl") {
    fs::remove(folder_ / "latents.safetensors");
    const Outcome made = generate(prompt, std::move(more), model);
    EXPECT_EQ(made.status, 0) << made.err;
    said_ = made.err;
    return made.status == 0
               ? io::SafetensorsFile::open(folder_ / "latents.safetensors").at("latents").copy()
               : HostArray();
  }
  HostArray a1111(const std::string& prompt, std::vector<std::string> more = {}) {
    more.emplace_back("prompt_syntax=a1111");
    return latents(prompt, std::move(more));
  }
  HostArray compel(const std::string& prompt) { return latents(prompt, {"prompt_syntax=compel"}); }

  std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
  std::string said_;
};

TEST_F(PromptSyntaxKey, WeightsChangeThePicture) {
  const HostArray plain = latents("a red ball", {});
  EXPECT_EQ(a1111("a red ball").bytes, plain.bytes);
  EXPECT_EQ(a1111("a (red:1.0) \\ball").bytes, plain.bytes);
  EXPECT_EQ(compel("a red ball").bytes, plain.bytes);
  EXPECT_NE(a1111("a (red:1.3) ball").bytes, plain.bytes);
  EXPECT_NE(a1111("a red BREAK ball").bytes, plain.bytes);
  EXPECT_NE(compel("a red- ball").bytes, plain.bytes);
  EXPECT_THAT(said_, Not(HasSubstr("plain text")));
  latents("a (red:1.3) ball", {});
  EXPECT_THAT(said_, HasSubstr("prompt_syntax=a1111"));
}

TEST_F(PromptSyntaxKey, LongPromptsHaveSeveralSequences) {
  std::string prompt;
  for (int i = 0; i < 60; ++i) {
    prompt += "a red ball ";
  }
  const HostArray first = a1111(prompt);
  EXPECT_THAT(said_, Not(HasSubstr("dropped")));
  EXPECT_NE(a1111(prompt + "and a blue box").bytes, first.bytes);
}

TEST_F(PromptSyntaxKey, TextChangesBetweenSteps) {
  const HostArray ball = a1111("a red ball");
  const HostArray box = a1111("a blue box");
  EXPECT_EQ(a1111("[a red ball:a blue box:2]").bytes, ball.bytes);
  EXPECT_EQ(a1111("[a red ball:a blue box:0]").bytes, box.bytes);
  const HostArray both = a1111("[a red ball:a blue box:1]");
  EXPECT_EQ(a1111("[a red ball|a blue box]").bytes, both.bytes);
  EXPECT_NE(both.bytes, ball.bytes);
  EXPECT_NE(both.bytes, box.bytes);
}

TEST_F(PromptSyntaxKey, LorasAreFoundByName) {
  fs::create_directories(folder_ / "loras/more");
  fs::copy(golden_ + "/lora/sdxl_kohya.safetensors", folder_ / "loras/more/style.safetensors");
  const HostArray wanted = latents("a red ball", {"lora=loras/more/style.safetensors:0.5"});
  EXPECT_NE(wanted.bytes, latents("a red ball", {}).bytes);
  EXPECT_EQ(a1111("a red ball<lora:style:0.5>", {"lora_folder=loras"}).bytes, wanted.bytes);
  // compel pools the prompt as it is written: prompt_2 is what SDXL pools.
  EXPECT_EQ(latents("a red ball withLora(style, 0.5)",
                    {"prompt_syntax=compel", "lora_folder=loras", "prompt_2=a red ball"})
                .bytes,
            wanted.bytes);
  const Outcome other = generate("a <lora:stile:1>", {"prompt_syntax=a1111", "lora_folder=loras"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("the most similar name is `style`"));
  const Outcome none = generate("a <lora:style:1>", {"prompt_syntax=a1111"});
  EXPECT_THAT(none.err, HasSubstr("lora_folder is empty"));
}

TEST_F(PromptSyntaxKey, LearnedWordsReplaceRowsOfTheEmbeddingTable) {
  // The rows of a known token give what the token gives.
  const int64_t id = io::Json::read(golden_ + "/sdxl/tokenizer/vocab.json").at("a</w>").as_int();
  std::deque<HostArray> rows;
  std::vector<io::TensorEntry> entries;
  for (const auto& [part, name] :
       {std::pair("text_encoder", "clip_l"), {"text_encoder_2", "clip_g"}}) {
    const model_files::Checkpoint files = model_files::Checkpoint::open(golden_ + "/sdxl/" + part);
    const HostArray table = files.at("text_model.embeddings.token_embedding.weight").copy();
    const int64_t width = table.shape.dims[1];
    const auto all = table.as<float>();
    rows.push_back(HostArray::f32(
        {1, width}, all.subspan(static_cast<size_t>(id * width), static_cast<size_t>(width))));
    entries.push_back(io::TensorEntry::of(name, rows.back()));
  }
  fs::create_directories(folder_ / "words");
  io::write_safetensors(folder_ / "words/zqx.safetensors", entries, {});
  const std::vector<std::string> keys{"embeddings_folder=words"};
  const HostArray wanted = latents("a red ball", {});
  EXPECT_NE(latents("zqx red ball", {}).bytes, wanted.bytes);
  EXPECT_EQ(latents("zqx red ball", keys).bytes, wanted.bytes);
  EXPECT_EQ(a1111("embedding:zqx red ball", keys).bytes, wanted.bytes);
  // diffusers' names; punctuation that touches one is tokenized by itself.
  io::write_safetensors(folder_ / "words/<zqx>.safetensors", entries, {});
  EXPECT_EQ(latents("<ZQX>, red ball", keys).bytes, latents("a, red ball", {}).bytes);
  EXPECT_EQ(latents("zqxy red ball", keys).bytes, latents("zqxy red ball", {}).bytes);
  const Outcome flux =
      generate("zqx ball", {"embeddings_folder=words", "height=64", "width=64"}, "flux_dev");
  EXPECT_EQ(flux.status, flux.err.find("trained for another model") == std::string::npos ? 0 : 1);
  io::write_safetensors(folder_ / "words/zqx.safetensors", std::span(entries).subspan(1), {});
  const Outcome half = generate("zqx ball", keys);
  EXPECT_EQ(half.status, 1);
  EXPECT_THAT(half.err, HasSubstr("is not a textual inversion for `clip_l`: it has `clip_g` only"));
}

TEST_F(PromptSyntaxKey, WeightsApplyToT5) {
  for (const std::string model : {"flux_dev", "wan21_t2v"}) {
    std::vector<std::string> keys{"height=64", "width=64", "max_sequence_length=16"};
    if (model == "wan21_t2v") {
      keys.emplace_back("num_frames=5");
    }
    const HostArray plain = latents("a red ball", keys, model);
    for (const auto& [syntax, same, other] :
         {std::tuple("a1111", "a (red ball:1)", "a (red:1.5) ball"),
          std::tuple("compel", "a red ball", "a red- ball")}) {
      std::vector<std::string> with(keys);
      with.push_back(std::string("prompt_syntax=") + syntax);
      EXPECT_EQ(latents(same, with, model).bytes, plain.bytes) << model << " " << syntax;
      EXPECT_NE(latents(other, with, model).bytes, plain.bytes) << model << " " << syntax;
    }
  }
}

}  // namespace
}  // namespace kinema::jobs_test
