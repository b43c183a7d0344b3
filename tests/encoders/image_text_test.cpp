#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/sdxl_encoder.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/weights/lora.h"
#include "models/text_reference.h"
#include "runtime/cpu_client.h"

// The text encoders of Flux.1 and Stable Diffusion XL, on pipelines of the reference.
namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The reference differs from float64 by 6e-7 of the largest value.
constexpr double kLimit = 3e-6;
// 8 bits per value, a few roundings per layer.
constexpr double kBf16Limit = 5e-2;

/// A complete pipeline of the reference: its prompts and their encodings.
class Case {
 public:
  explicit Case(const std::string& name)
      : about_(io::Json::read(io::golden("io/" + name + ".json"))),
        file_(io::SafetensorsFile::open(io::golden("io/" + name + ".safetensors"))) {}

  fs::path pipeline() const { return io::golden(about_.at("pipeline").as_string()); }
  HostArray tensor(const std::string& name) const { return file_.at(name).copy(); }
  const io::Json& call() const { return about_.at("call"); }

  /// `prompt` and `prompt_2`, or the negative ones.
  std::vector<Prompt> prompts(const std::string& negative = "") const {
    std::vector<Prompt> out;
    for (const std::string& text : texts(negative + "prompt")) {
      out.push_back({text});
    }
    const std::vector<std::string> second = texts(negative + "prompt_2");
    for (size_t i = 0; i < second.size(); ++i) {
      out.at(i).second = second[i];
    }
    return out;
  }

  void expect_states(const TextStates& got, const std::string& negative = "") const {
    const HostArray states = tensor(negative + "prompt_embeds");
    const HostArray pooled = tensor(negative + "pooled_prompt_embeds");
    EXPECT_EQ(got.states.shape, states.shape);
    EXPECT_EQ(got.pooled.shape, pooled.shape);
    EXPECT_LT(text_difference(got.states, states), kLimit) << negative;
    EXPECT_LT(text_difference(got.pooled, pooled), kLimit) << negative;
  }

 private:
  std::vector<std::string> texts(const std::string& key) const {
    const io::Json* value = call().find(key);
    if (value == nullptr) {
      return {};
    }
    if (!value->is_array()) {
      return {value->as_string()};
    }
    std::vector<std::string> out;
    for (const io::Json& item : value->items()) {
      out.push_back(item.as_string());
    }
    return out;
  }

  io::Json about_;
  io::SafetensorsFile file_;
};

std::string problem_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A copy of a pipeline's text encoders.
class Pipeline {
 public:
  explicit Pipeline(const std::string& from) {
    for (const char* part : {"text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2"}) {
      fs::copy(io::golden(from) / part, scratch_ / part);
    }
  }
  fs::path path() const { return scratch_.path(); }
  fs::path operator/(const std::string& name) const { return scratch_ / name; }

  /// Stores a part's weights in another dtype, as in published checkpoints.
  void store_as(const std::string& part, DType type) {
    const io::ModelFolder files = io::ModelFolder::open(scratch_ / part);
    std::vector<HostArray> arrays;
    for (const io::TensorView* tensor : files.tensors()) {
      const HostArray own = tensor->copy();
      arrays.push_back(is_float(own.shape.dtype) ? convert(own, type) : own);
    }
    std::vector<io::TensorEntry> entries;
    for (size_t i = 0; i < arrays.size(); ++i) {
      entries.push_back(io::TensorEntry::of(files.tensors()[i]->name, arrays[i]));
    }
    io::write_safetensors(scratch_ / (part + "/model.safetensors"), entries);
  }

 private:
  io::Scratch scratch_;
};

class FluxText : public runtime::CpuClientTest {
 protected:
  FluxTextSettings settings(const Case& c) const {
    return {.pipeline = c.pipeline(),
            .max_sequence_length = c.call().at("max_sequence_length").as_int(),
            .options = {.precision = Precision::HIGHEST}};
  }
};

/// A LoRA file of T5 in kohya's names, and a pipeline with T5's weights merged with it.
TEST_F(FluxText, MergesAdaptersOfT5) {
  const Case c("flux_pipeline_two");
  const Pipeline changed("flux_dev");
  const io::ModelFolder files = io::ModelFolder::open(c.pipeline() / "text_encoder_2");
  std::vector<HostArray> arrays;  // of the adapter, then of the merged model
  std::vector<io::TensorEntry> adapter;
  std::vector<io::TensorEntry> merged;
  arrays.reserve(4 * files.tensors().size());
  for (const io::TensorView* tensor : files.tensors()) {
    HostArray own = convert(tensor->copy(), DType::F32);
    std::string module = tensor->name.substr(0, tensor->name.rfind('.'));
    if (module.ends_with("SelfAttention.q") || module.ends_with("DenseReluDense.wo")) {
      std::ranges::replace(module, '.', '_');
      const int64_t out = own.shape.dims[0];
      const int64_t in = own.shape.dims[1];
      const HostArray& down = arrays.emplace_back(normal({1, in}, 1));
      const HostArray& up = arrays.emplace_back(normal({out, 1}, 2));
      const float half = 0.5F;
      const HostArray& alpha = arrays.emplace_back(HostArray::f32({}, std::span(&half, 1)));
      adapter.push_back(io::TensorEntry::of("lora_te3_" + module + ".lora_down.weight", down));
      adapter.push_back(io::TensorEntry::of("lora_te3_" + module + ".lora_up.weight", up));
      adapter.push_back(io::TensorEntry::of("lora_te3_" + module + ".alpha", alpha));
      for (int64_t i = 0; i < out * in; ++i) {
        own.as<float>()[static_cast<size_t>(i)] += half *
                                                   up.as<float>()[static_cast<size_t>(i / in)] *
                                                   down.as<float>()[static_cast<size_t>(i % in)];
      }
    }
    merged.push_back(io::TensorEntry::of(tensor->name, arrays.emplace_back(std::move(own))));
  }
  const fs::path file = changed / "t5.safetensors";
  io::write_safetensors(file, adapter);
  io::write_safetensors(changed / "text_encoder_2/model.safetensors", merged);

  FluxTextSettings with = settings(c);
  const auto lora = std::make_shared<const weights::Lora>(weights::Lora::open(file));
  EXPECT_TRUE(lora->unknown().empty());
  with.t5_adapters = weights::for_text(std::vector<weights::Adapter>{{.lora = lora}},
                                       weights::LoraMember::TEXT_ENCODER_2);
  ASSERT_EQ(with.t5_adapters.size(), 1U);
  FluxTextSettings merged_settings = settings(c);
  merged_settings.pipeline = changed.path();
  const HostArray states = flux_text_encoder(client(), with)->encode(c.prompts()).states;
  const HostArray expected =
      flux_text_encoder(client(), merged_settings)->encode(c.prompts()).states;
  EXPECT_LT(text_difference(states, expected), kLimit);
  const HostArray plain = flux_text_encoder(client(), settings(c))->encode(c.prompts()).states;
  EXPECT_GT(text_difference(plain, expected), 1000 * kLimit) << "too little to see";

  // Same result streamed and resident.
  with.memory = TextEncoderMemory::STREAMED;
  EXPECT_EQ(flux_text_encoder(client(), with)->encode(c.prompts()).states.bytes, states.bytes);

  // For more blocks than the model has.
  const HostArray& down = arrays.emplace_back(normal({1, 24}, 1));
  const HostArray& up = arrays.emplace_back(normal({24, 1}, 1));
  const std::string other = "text_encoder_2.encoder.block.77.layer.0.SelfAttention.q";
  io::write_safetensors(changed / "other.safetensors",
                        std::vector{io::TensorEntry::of(other + ".lora_A.weight", down),
                                    io::TensorEntry::of(other + ".lora_B.weight", up)});
  with.t5_adapters = {{.lora = std::make_shared<const weights::Lora>(
                           weights::Lora::open(changed / "other.safetensors")),
                       .member = weights::LoraMember::TEXT_ENCODER_2}};
  EXPECT_THAT(problem_of([&] { flux_text_encoder(client(), with); }),
              AllOf(HasSubstr("other.safetensors"), HasSubstr("fit no parameter")));
}

TEST_F(FluxText, StatesAreTheReferencesOfBothPrompts) {
  for (const char* name :
       {"flux_pipeline_two", "flux_pipeline_true_cfg", "flux_pipeline_schnell"}) {
    SCOPED_TRACE(name);
    const Case c(name);
    const auto encoder = flux_text_encoder(client(), settings(c));
    EXPECT_EQ(encoder->shape(), (Shape{DType::F32, {40, 24}}));
    EXPECT_EQ(encoder->pooled_shape(), (Shape{DType::F32, {16}}));
    c.expect_states(encoder->encode(c.prompts()));
    if (c.call().contains("negative_prompt")) {
      c.expect_states(encoder->encode(c.prompts("negative_")), "negative_");
    }
  }
}

TEST_F(FluxText, WithoutASecondTextBothEncodersReadTheFirst) {
  const Case c("flux_pipeline_two");
  const auto encoder = flux_text_encoder(client(), settings(c));
  const std::vector<std::string> texts{"a red ball"};
  const TextStates got = encoder->encode(texts);
  const std::vector<Prompt> same{{.text = "a red ball", .second = "a red ball"}};
  const std::vector<Prompt> other{{.text = "a red ball", .second = "a dog"}};
  EXPECT_EQ(encoder->encode(same).states.bytes, got.states.bytes);
  EXPECT_NE(encoder->encode(other).states.bytes, got.states.bytes);
  EXPECT_EQ(encoder->encode(other).pooled.bytes, got.pooled.bytes);
}

TEST_F(FluxText, ParametersMayBeAnywhereAndPromptsInOneArray) {
  const Case c("flux_pipeline_two");
  FluxTextSettings given = settings(c);
  given.memory = TextEncoderMemory::RESIDENT;
  const TextStates want = flux_text_encoder(client(), given)->encode(c.prompts());
  for (const TextEncoderMemory memory : {TextEncoderMemory::STREAMED, TextEncoderMemory::AUTO}) {
    given.memory = memory;
    const TextStates got = flux_text_encoder(client(), given)->encode(c.prompts());
    EXPECT_EQ(got.states.bytes, want.states.bytes);
    EXPECT_EQ(got.pooled.bytes, want.pooled.bytes);
  }
  given.batched = true;
  c.expect_states(flux_text_encoder(client(), given)->encode(c.prompts()));
}

TEST_F(FluxText, PaddingTakesPart) {
  const Case c("flux_pipeline_two");
  FluxTextSettings given = settings(c);
  given.max_sequence_length = 48;
  const HostArray longer = flux_text_encoder(client(), given)->encode(c.prompts()).states;
  const HostArray want = c.tensor("prompt_embeds");
  const size_t row = 24;
  double difference = 0;
  for (size_t i = 0; i < row; ++i) {  // of the first token
    difference =
        std::max<double>(difference, std::abs(longer.as<float>()[i] - want.as<float>()[i]));
  }
  EXPECT_GT(difference, 1e-2);
  // Padding rows are kept: the last is not zero.
  EXPECT_NE(longer.as<float>()[48 * row - 1], 0.0F);
}

TEST_F(FluxText, ReleasedParametersAreLoadedAgain) {
  const Case c("flux_pipeline_true_cfg");
  const auto encoder = flux_text_encoder(client(), settings(c));
  const std::vector<Prompt> prompts = c.prompts();
  const int64_t before = encoder->memory_bytes(prompts);
  EXPECT_GT(before, 0);
  const TextStates first = encoder->encode(prompts);
  EXPECT_LT(encoder->memory_bytes(prompts), before);
  encoder->release();
  const TextStates again = encoder->encode(prompts);
  EXPECT_EQ(again.states.bytes, first.states.bytes);
  EXPECT_EQ(again.pooled.bytes, first.pooled.bytes);
}

TEST_F(FluxText, FilesOfOtherDtypesAreWidened) {
  const Case c("flux_pipeline_two");
  Pipeline narrow("flux_dev");
  narrow.store_as("text_encoder", DType::F16);
  narrow.store_as("text_encoder_2", DType::BF16);
  FluxTextSettings given = settings(c);
  given.pipeline = narrow.path();
  const TextStates got = flux_text_encoder(client(), given)->encode(c.prompts());
  // Rounded weights, exact arithmetic: within the weights' precision, but not equal.
  EXPECT_LT(text_difference(got.pooled, c.tensor("pooled_prompt_embeds")), 5e-3);
  EXPECT_LT(text_difference(got.states, c.tensor("prompt_embeds")), kBf16Limit);
  EXPECT_GT(text_difference(got.pooled, c.tensor("pooled_prompt_embeds")), kLimit);

  given.clip_dtype = DType::BF16;
  given.options.weights_dtype = DType::BF16;
  given.options.activations_dtype = DType::BF16;
  const TextStates half = flux_text_encoder(client(), given)->encode(c.prompts());
  EXPECT_EQ(half.pooled.shape.dtype, DType::F32);
  EXPECT_LT(text_difference(half.pooled, c.tensor("pooled_prompt_embeds")), kBf16Limit);
  EXPECT_LT(text_difference(half.states, c.tensor("prompt_embeds")), kBf16Limit);
}

TEST_F(FluxText, PromptsThatAreCutGiveNotes) {
  const Case c("flux_pipeline_two");
  std::vector<std::string> notes;
  FluxTextSettings given = settings(c);
  given.on_note = [&](const std::string& note) { notes.push_back(note); };
  std::string text;
  for (int i = 0; i < 80; ++i) {
    text += "a ";
  }
  flux_text_encoder(client(), given)->encode(std::span<const std::string>(&text, 1));
  EXPECT_THAT(notes,
              testing::UnorderedElementsAre(HasSubstr("41 tokens more than max_sequence_length 40"),
                                            HasSubstr("a prompt has 80 tokens, 75 fit into CLIP")));
}

TEST_F(FluxText, WhatDoesNotFitIsRefused) {
  const Case c("flux_pipeline_two");
  const auto with = [&](const auto& change) {
    FluxTextSettings given = settings(c);
    change(given);
    return problem_of([&] { flux_text_encoder(client(), given); });
  };
  EXPECT_THAT(with([](auto& s) { s.max_sequence_length = 513; }), HasSubstr("takes 1 to 512"));
  EXPECT_THAT(with([](auto& s) { s.width = 25; }), HasSubstr("width 24"));
  EXPECT_THAT(with([](auto& s) { s.pooled_width = 17; }), HasSubstr("16 wide"));
  EXPECT_THAT(with([](auto& s) { s.pipeline = io::golden("sdxl"); }),
              HasSubstr("tokenizer_2 holds neither spiece.model"));
  Pipeline broken("flux_dev");
  fs::remove(broken / "tokenizer/merges.txt");
  EXPECT_THAT(with([&](auto& s) { s.pipeline = broken.path(); }), HasSubstr("merges.txt"));
  const std::string wrong = "a\xff";
  EXPECT_THAT(
      problem_of([&] {
        flux_text_encoder(client(), settings(c))->encode(std::span<const std::string>(&wrong, 1));
      }),
      HasSubstr("not UTF-8"));
}

class SdxlText : public runtime::CpuClientTest {
 protected:
  static SdxlTextSettings settings() { return {.pipeline = io::golden("sdxl")}; }
};

TEST_F(SdxlText, StatesAreTheReferences) {
  const auto encoder = sdxl_text_encoder(client(), settings());
  EXPECT_EQ(encoder->shape(), (Shape{DType::F32, {77, 36}}));
  EXPECT_EQ(encoder->pooled_shape(), (Shape{DType::F32, {12}}));
  for (const char* name : {"sdxl_pipeline", "sdxl_pipeline_empty"}) {
    SCOPED_TRACE(name);
    const Case c(name);
    c.expect_states(encoder->encode(c.prompts()));
    c.expect_states(encoder->encode(c.prompts("negative_")), "negative_");
  }
}

TEST_F(SdxlText, APromptThatIsCutGivesOneNoteForBothEncoders) {
  std::vector<std::string> notes;
  SdxlTextSettings given = settings();
  given.on_note = [&](const std::string& note) { notes.push_back(note); };
  std::string text;
  for (int i = 0; i < 80; ++i) {
    text += "a ";
  }
  sdxl_text_encoder(client(), given)->encode(std::span<const std::string>(&text, 1));
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("a prompt has 80 tokens, 75 fit into CLIP")));
}

TEST_F(SdxlText, AStateHasTheSameBitsWhateverComesWithIt) {
  const Case c("sdxl_pipeline");
  const auto encoder = sdxl_text_encoder(client(), settings());
  std::vector<Prompt> both = c.prompts();
  both.push_back(c.prompts("negative_")[0]);
  const TextStates together = encoder->encode(both);
  const TextStates alone = encoder->encode(std::span<const Prompt>(both).last(1));
  EXPECT_TRUE(std::ranges::equal(std::span(together.states.bytes).last(alone.states.bytes.size()),
                                 alone.states.bytes));
  EXPECT_TRUE(std::ranges::equal(std::span(together.pooled.bytes).last(alone.pooled.bytes.size()),
                                 alone.pooled.bytes));
  EXPECT_EQ(encoder->encode(std::vector<Prompt>()).states.shape, (Shape{DType::F32, {0, 77, 36}}));
}

TEST_F(SdxlText, TheSecondTextGoesToTheSecondEncoder) {
  const auto encoder = sdxl_text_encoder(client(), settings());
  const std::vector<Prompt> one{{"a cat"}};
  const std::vector<Prompt> two{{.text = "a cat", .second = "a dog"}};
  const TextStates a = encoder->encode(one);
  const TextStates b = encoder->encode(two);
  EXPECT_NE(a.pooled.bytes, b.pooled.bytes);
  for (size_t t = 0; t < 77; ++t) {
    const auto row = [&](const TextStates& x) { return x.states.as<float>().subspan(t * 36, 36); };
    EXPECT_TRUE(std::ranges::equal(row(a).first(16), row(b).first(16)));
  }
  EXPECT_NE(a.states.bytes, b.states.bytes);
}

// Layers further from the end, whose states are in the cases of the single encoders.
TEST_F(SdxlText, ClipSkipTakesEarlierLayers) {
  const io::Json about = io::Json::read(io::golden("io/sdxl_clip2.json"));
  const auto first = io::SafetensorsFile::open(io::golden("io/flux_clip.safetensors"));
  const auto second = io::SafetensorsFile::open(io::golden("io/sdxl_clip2.safetensors"));
  std::vector<std::string> prompts;
  for (const io::Json& prompt : about.at("prompts").items()) {
    prompts.push_back(prompt.as_string());
  }
  SdxlTextSettings given = settings();
  given.clip_skip = 1;
  const TextStates got = sdxl_text_encoder(client(), given)->encode(prompts);
  const HostArray embeddings = first.at("tap.embeddings").copy();  // of two layers
  const HostArray layer0 = second.at("tap.layer0").copy();         // of three layers
  HostArray want(got.states.shape);
  for (size_t row = 0; row < prompts.size() * 77; ++row) {
    const auto to = want.as<float>().subspan(row * 36, 36);
    std::ranges::copy(embeddings.as<float>().subspan(row * 16, 16), to.begin());
    std::ranges::copy(layer0.as<float>().subspan(row * 20, 20), to.begin() + 16);
  }
  EXPECT_LT(text_difference(got.states, want), kLimit);
  EXPECT_LT(text_difference(got.pooled, second.at("text_embeds").copy()), kLimit);

  // diffusers skips no layer for a negative prompt.
  const std::vector<Prompt> both{{.text = prompts[0]}, {.text = prompts[0], .is_negative = true}};
  const TextStates mixed = sdxl_text_encoder(client(), given)->encode(both);
  EXPECT_EQ(row(mixed, 0).states.bytes, row(got, 0).states.bytes);
  EXPECT_EQ(row(mixed, 1).states.bytes,
            row(sdxl_text_encoder(client(), settings())->encode(prompts), 0).states.bytes);

  given.clip_skip = 2;
  EXPECT_THAT(problem_of([&] { sdxl_text_encoder(client(), given); }),
              HasSubstr("layer 4 from the end was requested"));
  given.clip_skip = -1;
  EXPECT_THAT(problem_of([&] { sdxl_text_encoder(client(), given); }),
              HasSubstr("clip_skip is -1"));
}

TEST_F(SdxlText, HalfPrecisionStaysNearAndFilesOfItAreRead) {
  const Case c("sdxl_pipeline");
  Pipeline narrow("sdxl");
  narrow.store_as("text_encoder", DType::F16);
  narrow.store_as("text_encoder_2", DType::F16);
  SdxlTextSettings given = settings();
  given.pipeline = narrow.path();
  const TextStates wide = sdxl_text_encoder(client(), given)->encode(c.prompts());
  EXPECT_LT(text_difference(wide.states, c.tensor("prompt_embeds")), 5e-3);
  given.dtype = DType::BF16;
  const TextStates half = sdxl_text_encoder(client(), given)->encode(c.prompts());
  EXPECT_EQ(half.states.shape.dtype, DType::F32);
  EXPECT_LT(text_difference(half.states, c.tensor("prompt_embeds")), kBf16Limit);
  EXPECT_LT(text_difference(half.pooled, c.tensor("pooled_prompt_embeds")), kBf16Limit);
}

TEST_F(SdxlText, ReleasedParametersAreLoadedAgain) {
  const Case c("sdxl_pipeline");
  const auto encoder = sdxl_text_encoder(client(), settings());
  const int64_t before = encoder->memory_bytes(c.prompts());
  const TextStates first = encoder->encode(c.prompts());
  EXPECT_LT(encoder->memory_bytes(c.prompts()), before);
  encoder->release();
  EXPECT_EQ(encoder->memory_bytes(c.prompts()), before);
  EXPECT_EQ(encoder->encode(c.prompts()).states.bytes, first.states.bytes);
}

TEST_F(SdxlText, WhatDoesNotFitIsRefused) {
  const auto with = [&](const auto& change) {
    SdxlTextSettings given = settings();
    change(given);
    return problem_of([&] { sdxl_text_encoder(client(), given); });
  };
  EXPECT_THAT(with([](auto& s) { s.width = 35; }), HasSubstr("states of width 36"));
  EXPECT_THAT(with([](auto& s) { s.pooled_width = 35; }), HasSubstr("pools 12 numbers"));
  EXPECT_THAT(with([](auto& s) { s.pipeline = "/nowhere"; }), HasSubstr("/nowhere"));
  Pipeline swapped("sdxl");
  fs::remove_all(swapped / "text_encoder_2");
  fs::copy(io::golden("sdxl/text_encoder"), swapped / "text_encoder_2");
  EXPECT_THAT(with([&](auto& s) { s.pipeline = swapped.path(); }), HasSubstr("has no projection"));
}

}  // namespace
}  // namespace kinema::encoders
