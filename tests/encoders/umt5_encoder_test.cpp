#include "kinema/encoders/umt5_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "arrays.h"
#include "cpu_isa.h"
#include "io/scratch.h"
#include "kinema/allocator/large_blocks.h"
#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/networks/check_path.h"
#include "kinema/weights/t5.h"
#include "kinema/weights/weights.h"
#include "runtime/cpu_client.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const fs::path kPipeline = io::golden("wan21_t2v");

// The reference differs from float64 by 3e-6; our summation order adds as much. States have
// magnitude 10.
constexpr float kF32Limit = 2e-5F;
// 8 bits per value, a few roundings per layer along the residual stream: two percent of the largest
// value.
constexpr float kBf16Limit = 0.2F;

double rms_difference(const HostArray& a, const HostArray& b) {
  double sum = 0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const double d = static_cast<double>(a.as<float>()[i]) - b.as<float>()[i];
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(a.as<float>().size()));
}

class Umt5Test : public runtime::CpuClientTest {
 protected:
  static T5Settings settings() {
    return {.model = kPipeline / "text_encoder",
            .tokenizer = kPipeline / "tokenizer",
            .max_sequence_length = 64};
  }

  std::string problem_of(T5Settings given) const {
    try {
      umt5_text_encoder(client(), std::move(given));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// The golden model with its embedding under other names.
  fs::path with_embedding_as(const std::vector<std::string>& names,
                             const std::function<void(io::Json&)>& change = {}) const {
    const io::ModelFolder from = io::ModelFolder::open(kPipeline / "text_encoder");
    std::vector<io::TensorEntry> entries;
    for (const io::TensorView* tensor : from.tensors()) {
      if (tensor->name != "shared.weight") {
        entries.push_back(io::TensorEntry::of(tensor->name, *tensor));
        continue;
      }
      for (const std::string& name : names) {
        entries.push_back(io::TensorEntry::of(name, *tensor));
      }
    }
    io::Json config = from.config();
    if (change) {
      change(config);
    }
    io::write_model_folder(folder(), config, entries, {.stem = "model"});
    return folder();
  }
};

TEST_F(Umt5Test, GivesTheReferencesPromptEmbeddings) {
  const auto reference = io::SafetensorsFile::open(io::golden("io/umt5.safetensors"));
  const io::Json about = io::Json::read(io::golden("io/umt5.json"));
  std::vector<std::string> prompts;
  for (const io::Json& prompt : about.at("prompt_embeds").at("prompts").items()) {
    prompts.push_back(prompt.as_string());
  }
  const HostArray want = reference.at("prompt_embeds").copy();
  for (const bool scan : {false, true}) {
    for (const bool batched : {false, true}) {
      SCOPED_TRACE(fmt::format("scan {} batched {}", scan, batched));
      T5Settings given = settings();
      given.options.scan_layers = scan;
      given.batched = batched;
      const auto encoder = umt5_text_encoder(client(), given);

      const HostArray got = encoder->encode(prompts).states;

      EXPECT_EQ(got.shape, want.shape);
      EXPECT_LT(largest_difference(got, want), kF32Limit);
    }
  }
}

TEST_F(Umt5Test, HeadsInGroupsGiveTheSame) {
  const std::vector<std::string> prompts{"A red ball rolls", "two dogs"};
  const HostArray want = umt5_text_encoder(client(), settings())->encode(prompts).states;
  for (const bool scan : {false, true}) {
    // Two groups of two heads, then single heads.
    for (const int64_t bytes : {2 * 64 * 64 * 4, 1}) {
      SCOPED_TRACE(fmt::format("scan {} bytes {}", scan, bytes));
      T5Settings grouped = settings();
      grouped.options.scan_layers = scan;
      grouped.options.scores_bytes = bytes;
      EXPECT_LT(
          largest_difference(umt5_text_encoder(client(), grouped)->encode(prompts).states, want),
          kF32Limit);
    }
  }
}

TEST_F(Umt5Test, HalfPrecisionStaysNear) {
  const std::vector<std::string> prompts{"A red ball rolls", ""};
  const HostArray want = umt5_text_encoder(client(), settings())->encode(prompts).states;
  T5Settings half = settings();
  half.options = {.weights_dtype = DType::BF16, .activations_dtype = DType::BF16};
  const HostArray got = umt5_text_encoder(client(), half)->encode(prompts).states;

  EXPECT_LT(largest_difference(got, want), kBf16Limit);
  EXPECT_GT(largest_difference(got, want), 0.0F);
}

// The reference in bfloat16 differs from float32 by at most 0.054, and by 0.0057 in root mean
// square. Ours rounds at other points, so the two errors are independent: their difference has
// sqrt(2) times either's root mean square, and no element exceeds the sum of both.
TEST_F(Umt5Test, GivesTheReferencesPromptEmbeddingsInBfloat16) {
  const HostArray exact =
      io::SafetensorsFile::open(io::golden("io/umt5.safetensors")).at("prompt_embeds").copy();
  const auto file = io::SafetensorsFile::open(io::golden("text/umt5_bf16.safetensors"));
  const HostArray want = convert(file.at("prompt_embeds").copy(), DType::F32);
  const io::Json about = io::Json::read(io::golden("io/umt5.json"));
  std::vector<std::string> prompts;
  for (const io::Json& prompt : about.at("prompt_embeds").at("prompts").items()) {
    prompts.push_back(prompt.as_string());
  }
  const double largest = largest_difference(want, exact);
  const double rms = rms_difference(want, exact);
  for (const bool scan : {false, true}) {
    SCOPED_TRACE(fmt::format("scan {}", scan));
    T5Settings half = settings();
    half.options = {.weights_dtype = DType::BF16, .activations_dtype = DType::BF16};
    half.options.scan_layers = scan;

    const HostArray got = umt5_text_encoder(client(), half)->encode(prompts).states;

    EXPECT_EQ(got.shape, want.shape);
    EXPECT_LT(largest_difference(got, want), 2.0 * largest);
    EXPECT_LT(rms_difference(got, want), 1.5 * rms);
    EXPECT_GT(rms_difference(got, exact), 0.1 * rms);  // it really is bfloat16
  }
}

TEST_F(Umt5Test, RowsBehindThePromptAreZero) {
  const auto encoder = umt5_text_encoder(client(), settings());
  const std::string empty;  // one token: the end
  const HostArray states = encoder->encode(std::span(&empty, 1)).states;
  const auto values = states.as<float>();
  const auto width = static_cast<size_t>(states.shape.dims[2]);

  EXPECT_TRUE(std::ranges::any_of(values.first(width), [](float x) { return x != 0.0F; }));
  EXPECT_TRUE(std::ranges::all_of(values.subspan(width), [](float x) { return x == 0.0F; }));
}

TEST_F(Umt5Test, TheLengthThatItRunsInDoesNotMatter) {
  std::string longer;
  for (int i = 0; i < 40; ++i) {
    longer += "a red ball ";
  }
  T5Settings given = settings();
  given.max_sequence_length = 512;
  given.batched = true;
  const std::vector<std::string> both{"a red ball", longer};
  // In one run the short prompt is padded to the length of the long one.
  const HostArray together = umt5_text_encoder(client(), given)->encode(both).states;
  const HostArray alone =
      umt5_text_encoder(client(), given)->encode(std::span(both).first(1)).states;
  HostArray first(alone.shape);
  std::copy_n(together.bytes.begin(), first.bytes.size(), first.bytes.begin());

  EXPECT_LT(largest_difference(first, alone), kF32Limit);
}

TEST_F(Umt5Test, ReleasedParametersAreLoadedAgain) {
  const auto encoder = umt5_text_encoder(client(), settings());
  const std::vector<std::string> prompts{"a cat", "a dog"};
  const HostArray before = encoder->encode(std::span(prompts).first(1)).states;
  encoder->release();
  encoder->release();

  EXPECT_EQ(encoder->encode(std::span(prompts).first(1)).states.bytes, before.bytes);
  EXPECT_NE(encoder->encode(std::span(prompts).last(1)).states.bytes, before.bytes);
}

TEST_F(Umt5Test, StreamedBlocksGiveTheBitsOfResidentOnes) {
  const std::vector<std::string> prompts{"A red ball rolls", "two dogs", ""};
  for (const DType type : {DType::F32, DType::BF16}) {
    for (const bool batched : {false, true}) {
      SCOPED_TRACE(fmt::format("{} batched {}", to_string(type), batched));
      T5Settings given = settings();
      given.options = {.weights_dtype = type, .activations_dtype = type};
      given.batched = batched;
      given.memory = TextEncoderMemory::RESIDENT;
      const HostArray want = umt5_text_encoder(client(), given)->encode(prompts).states;
      for (const TextEncoderMemory memory :
           {TextEncoderMemory::STREAMED, TextEncoderMemory::AUTO}) {
        given.memory = memory;
        EXPECT_EQ(umt5_text_encoder(client(), given)->encode(prompts).states.bytes, want.bytes);
      }
    }
  }
}

// A resumed `prepare` encodes other prompts in the same call.
TEST_F(Umt5Test, APromptHasTheSameBitsWhateverComesWithIt) {
  std::string longer;
  for (int i = 0; i < 40; ++i) {
    longer += "a red ball ";
  }
  T5Settings given = settings();
  given.max_sequence_length = 512;
  const std::vector<std::string> both{"a red ball", longer};
  const HostArray together = umt5_text_encoder(client(), given)->encode(both).states;
  const HostArray alone =
      umt5_text_encoder(client(), given)->encode(std::span(both).first(1)).states;

  EXPECT_TRUE(std::ranges::equal(alone.bytes, std::span(together.bytes).first(alone.bytes.size())));
}

class Umt5MemoryTest : public Umt5Test {
 protected:
  static constexpr int64_t kLayers = 8;
  static constexpr int64_t kBlockBytes = (3 * 256 * 1024 + 4 * 256 * 256) * 4;

  /// An encoder of random weights whose matrices are large blocks, so that each is counted.
  std::unique_ptr<TextEncoder> wide(TextEncoderMemory memory) {
    if (fs::is_empty(folder())) {
      write();
    }
    T5Settings given = settings();
    given.model = folder();
    given.memory = memory;
    return umt5_text_encoder(client(), given);
  }

 private:
  void write() {
    io::Json config = io::ModelFolder::open(kPipeline / "text_encoder").config();
    config.set("d_model", 256).set("d_kv", 64).set("num_heads", 4).set("d_ff", 1024);
    config.set("num_layers", kLayers);
    const t5::EncoderConfig sizes = weights::parse_t5_config(config);
    std::vector<nn::ParamSpec> specs = t5::parameters(sizes, {.scan_layers = false});
    specs.push_back(t5::embedding_table(sizes));
    std::vector<io::TensorEntry> entries;
    for (const nn::ParamSpec& spec : specs) {
      entries.push_back(io::TensorEntry::lazy(
          spec.name, spec.shape, [dims = spec.shape.dims] { return normal(dims, 1); }));
    }
    io::write_model_folder(folder(), config, entries, {.stem = "model"});
  }
};

// The peak of a process only grows, so the smaller case runs first.
TEST_F(Umt5MemoryTest, StreamedHoldsTwoBlocksAndResidentAll) {
  if (!allocator::keep_large_blocks()) {
    GTEST_SKIP() << "large blocks are not counted in this build";
  }
  const std::vector<std::string> prompts{"a cat", "a dog"};
  const int64_t before = allocator::large_blocks().live_bytes;
  const auto most = [&] { return allocator::large_blocks().most_live_bytes - before; };

  const auto streamed = wide(TextEncoderMemory::STREAMED);
  const HostArray states = streamed->encode(prompts).states;
  // Two blocks, and briefly a third: the plugin frees a run's arguments some time after its results
  // are ready. In addition, the working memory of the products.
  EXPECT_LT(most(), 4 * kBlockBytes);

  EXPECT_EQ(wide(TextEncoderMemory::RESIDENT)->encode(prompts).states.bytes, states.bytes);
  EXPECT_GE(most(), kLayers * kBlockBytes);
}

TEST_F(Umt5MemoryTest, AutoStaysForTheSecondCallAndGoesWhenReleased) {
  if (!allocator::keep_large_blocks()) {
    GTEST_SKIP() << "large blocks are not counted in this build";
  }
  const std::vector<std::string> prompts{"a cat", "a dog", "a bird"};
  const auto encoder = wide(TextEncoderMemory::AUTO);
  const int64_t before = allocator::large_blocks().live_bytes;
  const auto held = [&] { return allocator::large_blocks().live_bytes - before; };
  // The plugin frees a run's arguments some time after its results are ready.
  const auto wait_until = [&](auto done) {
    for (int i = 0; i < 3000 && !done(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return done();
  };

  encoder->encode(std::span(prompts).first(1));
  EXPECT_TRUE(wait_until([&] { return held() < kBlockBytes / 2; })) << held();

  encoder->encode(std::span(prompts).subspan(1, 1));
  EXPECT_GE(held(), kLayers * kBlockBytes);

  encoder->release();
  EXPECT_TRUE(wait_until([&] { return held() < kBlockBytes / 2; })) << held();
}

TEST_F(Umt5Test, APromptThatIsCutGivesANote) {
  std::vector<std::string> notes;
  T5Settings given = settings();
  given.max_sequence_length = 4;
  given.on_note = [&](const std::string& note) { notes.push_back(note); };
  const std::string prompt = "A cat walks on the grass";
  const HostArray states = umt5_text_encoder(client(), given)->encode(std::span(&prompt, 1)).states;

  EXPECT_EQ(states.shape.dims[1], 4);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("tokens more than max_sequence_length 4 holds")));
}

TEST_F(Umt5Test, TheEmbeddingMayHaveItsOtherNameOrBoth) {
  const std::string prompt = "a cat";
  const HostArray want =
      umt5_text_encoder(client(), settings())->encode(std::span(&prompt, 1)).states;
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"encoder.embed_tokens.weight"},
        std::vector<std::string>{"shared.weight", "encoder.embed_tokens.weight"}}) {
    T5Settings given = settings();
    given.model = with_embedding_as(names);
    EXPECT_EQ(umt5_text_encoder(client(), given)->encode(std::span(&prompt, 1)).states.bytes,
              want.bytes);
    EXPECT_THAT(networks::check_path(given.model), HasSubstr("UMT5EncoderModel: 2 layers"));
  }
}

TEST_F(Umt5Test, ModelsThatDoNotFitAreRefused) {
  T5Settings given = settings();
  given.model = with_embedding_as({});
  EXPECT_THAT(problem_of(given), HasSubstr("shared.weight"));
  const auto changed = [&](const char* key, io::Json value) {
    given.model = with_embedding_as({"shared.weight"},
                                    [&](io::Json& config) { config.set(key, std::move(value)); });
    return problem_of(given);
  };
  EXPECT_THAT(changed("architectures", io::Json::array({"BertModel"})),
              AllOf(HasSubstr("BertModel"), HasSubstr("`T5EncoderModel` or `UMT5EncoderModel`")));
  EXPECT_THAT(changed("architectures", io::Json::array({"T5EncoderModel"})),
              HasSubstr("block.1.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_THAT(changed("dense_act_fn", "relu"), HasSubstr("`gelu_new` only"));
  EXPECT_THAT(changed("num_layers", 3), HasSubstr("encoder.block.2."));
  EXPECT_THAT(changed("num_layers", 1), HasSubstr("not part of the model"));
  EXPECT_THAT(changed("vocab_size", 511), HasSubstr("shared.weight"));
  EXPECT_THAT(changed("d_kv", -1), AllOf(HasSubstr("`d_kv` is -1"), HasSubstr("config.json")));
  EXPECT_THAT(changed("layer_norm_epsilon", "x"), HasSubstr("layer_norm_epsilon"));
  given = settings();
  given.width = 4096;
  EXPECT_THAT(problem_of(given), HasSubstr("the transformer takes 4096"));
  given = settings();
  given.tokenizer = "/nowhere";
  EXPECT_THAT(problem_of(given), HasSubstr("/nowhere"));
}

TEST_F(Umt5Test, APromptThatIsNotUtf8IsRefused) {
  const auto encoder = umt5_text_encoder(client(), settings());
  const std::string prompt =
      "a\xff"
      "b";
  EXPECT_THAT([&] { encoder->encode(std::span(&prompt, 1)); },
              ThrowsMessage<Error>(HasSubstr("byte 1 is 0xff")));
}

}  // namespace
}  // namespace kinema::encoders
