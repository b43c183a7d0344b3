#include "kinema/sample/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/safetensors.h"
#include "kinema/sample/latents.h"
#include "kinema/sample/memory.h"
#include "kinema/sample/output.h"
#include "sample/tiny_transformer.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr data::SpaceToDepth kBlocks{.block = 2, .temporal = 1};
constexpr text::HashedEncoder kText{.max_sequence_length = 4, .text_dim = 6};

/// For the number of channels that kBlocks makes.
wan::TransformerConfig twelve_channels() {
  wan::TransformerConfig config = tiny();
  config.patch_size = {1, 1, 1};
  config.num_attention_heads = 1;
  config.in_channels = config.out_channels = 12;
  return config;
}

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() { save_transformer(folder_.path() / "transformer", twelve_channels(), 1); }

  Pipeline pipeline(std::optional<int64_t> available_bytes = {}) {
    return {client(),
            read_pipeline_folder(folder_.path()),
            {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks),
             .text_encoder = encoders::hashed_text_encoder(kText)},
            {.program = {.executable_cache = program_cache()}, .available_bytes = available_bytes}};
  }
  static GenerateRequest request() {
    return {.prompts = {"a red circle", "a blue square", "a green triangle"},
            .num_frames = 3,
            .height = 8,
            .width = 12,
            .num_inference_steps = 3,
            .guidance_scale = 2.0,
            .seed = 7};
  }

  TemporaryFolder folder_;
};

TEST_F(PipelineTest, MakesOneVideoAPrompt) {
  Pipeline made = pipeline();

  const Generated out = made.generate(request());

  ASSERT_EQ(out.videos.size(), 3U);
  EXPECT_EQ(out.videos[1].prompt, "a blue square");
  EXPECT_EQ(out.videos[1].frames.shape, (Shape{DType::U8, {3, 8, 12, 3}}));
  EXPECT_NE(out.videos[0].frames.bytes, out.videos[1].frames.bytes);
  EXPECT_EQ(out.videos[1].index, 1);
  EXPECT_GT(out.timings.compile, 0.0);
}

TEST_F(PipelineTest, IsAFunctionOfTheSeed) {
  Pipeline made = pipeline();
  GenerateRequest other = request();
  other.seed = 8;

  const Generated first = made.generate(request());
  const Generated again = made.generate(request());
  const Generated different = made.generate(other);

  EXPECT_EQ(first.videos[2].frames.bytes, again.videos[2].frames.bytes);
  EXPECT_NE(first.videos[2].frames.bytes, different.videos[2].frames.bytes);
}

// Three prompts in batches of two: the padding of the last batch must not matter. Frames have 255
// levels, so rounding may change one by a level.
TEST_F(PipelineTest, TheBatchSizeDoesNotShow) {
  Pipeline made = pipeline();
  GenerateRequest batched = request();
  batched.batch_size = 2;

  const Generated one = made.generate(request());
  const Generated two = made.generate(batched);

  ASSERT_EQ(two.videos.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const auto a = one.videos[i].frames.as<uint8_t>();
    const auto b = two.videos[i].frames.as<uint8_t>();
    for (size_t j = 0; j < a.size(); ++j) {
      ASSERT_NEAR(a[j], b[j], 1) << "video " << i << " byte " << j;
    }
  }
}

TEST_F(PipelineTest, SavedLatentsAreWhatTheFramesShow) {
  Pipeline made = pipeline();
  GenerateRequest saving = request();
  saving.save_latents = folder_.path() / "final.safetensors";

  const Generated out = made.generate(saving);

  const auto file = io::SafetensorsFile::open(saving.save_latents);
  const HostArray all = file.at("latents").copy();
  ASSERT_EQ(all.shape, (Shape{DType::F32, {3, 12, 3, 4, 6}}));
  HostArray first(Shape{DType::F32, {12, 3, 4, 6}});
  std::copy_n(all.bytes.begin(), first.bytes.size(), first.bytes.begin());
  EXPECT_EQ(encoders::to_frames(kBlocks.decode(first)).bytes, out.videos[0].frames.bytes);

  EXPECT_NO_THROW(made.verify(saving)) << "latents may take the place of latents";
  saving.save_latents = folder_.path() / "notes.txt";
  io::write_file(saving.save_latents, "not latents");
  EXPECT_THAT([&] { made.verify(saving); }, ThrowsMessage<Error>(HasSubstr("exists already")));
}

TEST_F(PipelineTest, GivenLatentsReplaceTheSeedsNoise) {
  Pipeline made = pipeline();
  const HostArray noise = [] {
    const HostArray one = initial_noise(7, 0, {12, 3, 4, 6});
    HostArray with_batch(Shape{DType::F32, {1, 12, 3, 4, 6}});
    with_batch.bytes = one.bytes;
    return with_batch;
  }();
  const std::vector<io::TensorEntry> entries{io::TensorEntry::of("latents", noise)};
  io::write_safetensors(folder_.path() / "noise.safetensors", entries);
  GenerateRequest given = request();
  given.seed = 99;
  given.initial_latents = folder_.path() / "noise.safetensors";

  const Generated from_seed = made.generate(request());
  const Generated from_file = made.generate(given);

  EXPECT_EQ(from_seed.videos[0].frames.bytes, from_file.videos[0].frames.bytes);
}

TEST_F(PipelineTest, RefusesGivenLatentsOfAnotherShape) {
  Pipeline made = pipeline();
  const HostArray noise(Shape{DType::F32, {2, 12, 3, 4, 6}});
  const std::vector<io::TensorEntry> entries{io::TensorEntry::of("latents", noise)};
  io::write_safetensors(folder_.path() / "noise.safetensors", entries);
  GenerateRequest given = request();
  given.initial_latents = folder_.path() / "noise.safetensors";

  EXPECT_THAT([&] { made.generate(given); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("f32[2,12,3,4,6]"), HasSubstr("expected f32[3,12,3,4,6]"))));
}

TEST_F(PipelineTest, RefusesAnAutoencoderOfOtherChannels) {
  EXPECT_THAT(
      [&] {
        Pipeline(client(), read_pipeline_folder(folder_.path()),
                 {.autoencoder = encoders::space_to_depth_autoencoder({.block = 4}),
                  .text_encoder = encoders::hashed_text_encoder(kText)});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("makes 48 channels"), HasSubstr("takes 12"))));
}

TEST_F(PipelineTest, WritesAnMp4WithItsStoryAPromptAndAContactSheet) {
  Pipeline made = pipeline();
  const Generated out = made.generate(request());

  const OutputFiles files =
      write_outputs(folder_.path() / "out", request(), out, made, {.fps = 8, .enlarge = 2});

  ASSERT_EQ(files.videos.size(), 3U);
  EXPECT_EQ(files.videos[1].filename(), "001_a_blue_square.mp4");
  EXPECT_TRUE(fs::exists(files.contact_sheet));
  const io::Json metadata = io::Json::read(fs::path(files.videos[1]).replace_extension(".json"));
  EXPECT_EQ(metadata.at("prompt").as_string(), "a blue square");
  EXPECT_EQ(metadata.at("seed").as_int(), 7);
  EXPECT_EQ(metadata.at("num_inference_steps").as_int(), 3);
  EXPECT_THAT(timing_table(out), AllOf(HasSubstr("compile"), HasSubstr("denoise")));
}

TEST_F(PipelineTest, NothingThatIsThereIsWrittenOver) {
  Pipeline made = pipeline();
  const Generated out = made.generate(request());
  const fs::path folder = folder_.path() / "out";
  const OutputOptions options{.frames = true};
  const OutputFiles first = write_outputs(folder, request(), out, made, options);
  io::write_file(first.videos[0], "a video");
  io::write_file(first.contact_sheet, "a sheet");
  fs::remove(fs::path(first.videos[1]).replace_extension(".json"));
  OutputOptions others = options;
  others.taken = {"002_a_green_triangle.mp4", "002_a_green_triangle_1"};

  const OutputFiles second = write_outputs(folder, request(), out, made, others);

  EXPECT_EQ(io::read_text(first.videos[0]), "a video");
  EXPECT_EQ(io::read_text(first.contact_sheet), "a sheet");
  EXPECT_EQ(second.videos[0].filename(), "000_a_red_circle_1.mp4");
  EXPECT_EQ(second.videos[1].filename(), "001_a_blue_square_1.mp4");
  EXPECT_EQ(second.videos[2].filename(), "002_a_green_triangle_2.mp4");
  EXPECT_EQ(second.frames[1].filename(), "001_a_blue_square_1");
  EXPECT_EQ(second.contact_sheet.filename(), "contact_sheet_1.png");
  EXPECT_TRUE(fs::exists(folder / "000_a_red_circle_1.json"));
  std::istringstream list(io::read_text(folder / "metadata.jsonl"));
  std::vector<std::string> names;
  for (std::string line; std::getline(list, line);) {
    names.push_back(io::Json::parse(line, "metadata").at("file_name").as_string());
  }
  EXPECT_EQ(names.size(), 6U);
  EXPECT_EQ(names[3], "000_a_red_circle_1.mp4");

  // A repeated training step makes its videos again.
  OutputOptions again = options;
  again.keep_existing = false;
  EXPECT_EQ(write_outputs(folder, request(), out, made, again).videos, first.videos);
  EXPECT_NE(io::read_text(first.videos[0]), "a video");
}

TEST_F(PipelineTest, SeveralVideosAPromptDifferInTheirNoiseOnly) {
  Pipeline made = pipeline();
  GenerateRequest two = request();
  two.prompts = {"a red circle", "a blue square"};
  two.num_videos_per_prompt = 2;
  two.batch_size = 3;  // a batch of videos of both prompts
  GenerateRequest plain = request();
  plain.prompts = {"a red circle"};

  const Generated out = made.generate(two);

  ASSERT_EQ(out.videos.size(), 4U);
  EXPECT_EQ(out.videos[1].prompt, "a red circle");
  EXPECT_EQ(out.videos[2].prompt, "a blue square");
  EXPECT_EQ(out.videos[3].index, 3);
  EXPECT_NE(out.videos[0].frames.bytes, out.videos[1].frames.bytes);
  const auto alone = made.generate(plain).videos[0].frames;
  for (size_t i = 0; i < alone.bytes.size(); ++i) {
    ASSERT_NEAR(alone.as<uint8_t>()[i], out.videos[0].frames.as<uint8_t>()[i], 1);
  }
}

TEST_F(PipelineTest, AVideoOfSeveralIsMadeAgainByItsIndex) {
  Pipeline made = pipeline();
  GenerateRequest third = request();
  third.prompts = {request().prompts[2]};
  third.first_index = 2;

  EXPECT_EQ(made.generate(third).videos[0].frames.bytes,
            made.generate(request()).videos[2].frames.bytes);
}

TEST_F(PipelineTest, SaysWhatIsDoneWithOtherNumbersOfFramesBeforeTheWork) {
  const wan::TransformerConfig odd = [] {
    auto config = twelve_channels();
    config.patch_size = {2, 1, 1};
    return config;
  }();
  save_transformer(folder_.path() / "transformer", odd, 1);
  Pipeline made = pipeline();
  std::vector<std::string> heard;
  bool worked = false;
  made.generate(request(), {.note =
                                [&](const std::string& note) {
                                  EXPECT_FALSE(worked);
                                  heard.push_back(note);
                                },
                            .step = [&](const DenoiseStep&) { worked = true; }});
  EXPECT_THAT(heard, ElementsAre(HasSubstr("num_frames 3 is made 2")));
}

TEST_F(PipelineTest, SaysHowManyFramesFitBeforeAnyStep) {
  GenerateRequest long_video = request();
  long_video.prompts = {"a red circle"};
  long_video.num_frames = 64;
  const int64_t weights = parameter_bytes(network_of(twelve_channels()), {}, client());
  bool worked = false;
  const auto generate = [&](int64_t frames, int64_t available) -> std::string {
    Pipeline made = pipeline(available);
    GenerateRequest each = long_video;
    each.num_frames = frames;
    try {
      made.generate(each, {.step = [&](const DenoiseStep&) { worked = true; }});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_THAT(generate(64, weights - 1), HasSubstr("weights alone take"));
  // The four latents that a step gets take 288 KiB for 64 frames.
  const int64_t available = weights + (int64_t{1} << 18);
  const std::string message = generate(64, available);
  EXPECT_FALSE(worked);
  ASSERT_THAT(message, AllOf(HasSubstr("64 frames of 8 x 12 take"), HasSubstr("frames of this")));
  // The number in the message fits, and a much larger one does not.
  const size_t at = message.find("about ");
  ASSERT_NE(at, std::string::npos) << message;
  const int64_t fit = std::stoll(message.substr(at + 6));
  EXPECT_GE(fit, 1);
  EXPECT_EQ(generate(fit, available), "");
  EXPECT_NE(generate(fit * 2, available), "");
}

// Both predictions in one batch need more memory than one after the other; the available memory is
// set to exactly what each needs, and one byte less.
TEST_F(PipelineTest, GoesInTwoPassesWhereOneBatchOfBothDoesNotFit) {
  GenerateRequest one = request();
  one.prompts = {"a red circle"};
  one.num_frames = 16;
  const Experts experts(client(), read_pipeline_folder(folder_.path()), {});
  StepPrograms programs(client(), {.executable_cache = program_cache()});
  DenoiseBatch shapes;
  shapes.latents.shape = {DType::F32, {1, 12, 16, 4, 6}};
  shapes.text.shape = {DType::F32, {1, 4, 6}};
  const auto bytes = [&](bool two_passes) {
    const DenoiseSettings settings{.guidance_scale = 2.0, .two_passes = two_passes};
    return programs.get(step_spec(experts, 0, shapes, settings)).report().memory.total();
  };
  ASSERT_GT(bytes(false), bytes(true));
  std::vector<std::string> heard;
  const auto generate = [&](std::optional<int64_t> available, bool two_passes = false) {
    heard.clear();
    GenerateRequest each = one;
    each.two_passes = two_passes;
    return pipeline(available)
        .generate(each, {.note = [&](const std::string& note) { heard.push_back(note); }})
        .videos[0]
        .latents;
  };

  const HostArray at_once = generate(bytes(false));
  EXPECT_THAT(heard, ElementsAre());
  const HostArray fallen_back = generate(bytes(false) - 1);
  EXPECT_THAT(heard, ElementsAre(HasSubstr("one after the other")));
  const HostArray tight = generate(bytes(true));
  EXPECT_THAT(heard, ElementsAre(HasSubstr("one after the other")));
  // The same program as with guidance_in_two_passes; the other form rounds differently, by some
  // 2^-24 of values near 1 in each of three steps.
  EXPECT_EQ(fallen_back.bytes, generate({}, true).bytes);
  EXPECT_EQ(tight.bytes, fallen_back.bytes);
  EXPECT_LT(largest_difference(fallen_back, at_once), 1e-4);
  EXPECT_THAT([&] { generate(bytes(true) - 1); },
              ThrowsMessage<Error>(HasSubstr("frames of 8 x 12 take")));
}

// 2^20 x 2^20 pixels are 2^38 tokens: refused without a compile, which would take long.
TEST_F(PipelineTest, SizesThatCannotFitAreRefusedBeforeAnythingIsCompiled) {
  wan::TransformerConfig config = twelve_channels();
  config.rope_max_seq_len = 1 << 19;
  save_transformer(folder_.path() / "transformer", config, 1);
  const auto programs = std::make_shared<StepPrograms>(client());
  Pipeline made(client(), read_pipeline_folder(folder_.path()),
                {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks),
                 .text_encoder = encoders::hashed_text_encoder(kText)},
                {.programs = programs, .available_bytes = int64_t{1} << 40});
  GenerateRequest large = request();
  large.height = large.width = 1 << 20;
  large.decodes = false;

  EXPECT_THAT([&] { made.generate(large); },
              ThrowsMessage<Error>(HasSubstr("3 frames of 1048576 x 1048576 take at least")));
  EXPECT_EQ(programs->compile_seconds(), 0.0);
}

/// Counts its calls.
class CountedText final : public encoders::TextEncoder {
 public:
  std::string name() const override { return "counted"; }
  Shape shape() const override { return words_->shape(); }
  encoders::TextStates encode_prompts(std::span<const encoders::Prompt> prompts) const override {
    ++calls;
    return words_->encode(prompts);
  }
  int64_t prompts_bytes(std::span<const encoders::Prompt>) const override { return bytes; }
  void release() const override { ++releases; }

  int64_t bytes = 40'000'000'000;
  mutable int calls = 0;
  mutable int releases = 0;

 private:
  std::unique_ptr<encoders::TextEncoder> words_ = encoders::hashed_text_encoder(kText);
};

TEST_F(PipelineTest, WhatDoesNotFitIsRefusedBeforeAnythingIsEncoded) {
  const auto text = std::make_shared<CountedText>();
  Pipeline made(
      client(), read_pipeline_folder(folder_.path()),
      {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks), .text_encoder = text},
      {.program = {.executable_cache = program_cache()}, .available_bytes = 1});

  EXPECT_THAT([&] { made.generate(request()); }, ThrowsMessage<Error>(HasSubstr("are free")));
  EXPECT_EQ(text->calls, 0);
}

TEST_F(PipelineTest, SaysWhatItWillTakeBeforeAnythingIsEncoded) {
  const auto text = std::make_shared<CountedText>();
  Pipeline made(
      client(), read_pipeline_folder(folder_.path()),
      {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks), .text_encoder = text},
      {.program = {.executable_cache = program_cache()}});
  int64_t predicted = 0;
  const GenerateObserver observer{.memory = [&](const MemoryUse& use) {
    EXPECT_EQ(text->calls, 0);
    predicted = use.predicted();
    // The text encoder needs the most, and frames need as many bytes.
    EXPECT_EQ(use.predicted(), std::max(use.before, use.held + 40'000'000'000));
    EXPECT_EQ(use.frames, 3 * 3 * 8 * 12 * 3);
  }};

  const Generated out = made.generate(request(), observer);

  EXPECT_EQ(text->calls, 1);
  EXPECT_EQ(out.memory.predicted(), predicted);
  EXPECT_GT(out.peak_bytes, 0);
}

TEST_F(PipelineTest, EncodersStayForTheNextRequestOrGoWhenThereIsNone) {
  for (const bool goes : {false, true}) {
    const auto text = std::make_shared<CountedText>();
    text->bytes = 1'000'000;
    Pipeline made(
        client(), read_pipeline_folder(folder_.path()),
        {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks), .text_encoder = text},
        {.program = {.executable_cache = program_cache()}, .releases_encoders = goes});

    const MemoryUse use = made.generate(request()).memory;

    EXPECT_EQ(text->releases, goes ? 1 : 0);
    EXPECT_EQ(use.kept, goes ? 0 : 1'000'000);
    EXPECT_EQ(
        use.predicted(),
        std::max(use.before, use.held + use.kept + std::max(use.steps, use.decode + use.frames)));
  }
}

TEST_F(PipelineTest, SaysWhenTheLowNoiseScaleHasNoEffect) {
  save_transformer(folder_.path() / "transformer_2", twelve_channels(), 2);
  folder_.write("model_index.json",
                R"({"_class_name": "WanPipeline", "boundary_ratio": 0.875,
                    "transformer": ["diffusers", "WanTransformer3DModel"],
                    "transformer_2": ["diffusers", "WanTransformer3DModel"]})");
  Pipeline made = pipeline();
  GenerateRequest scales = request();
  std::vector<std::string> heard;
  const GenerateObserver observer{.note = [&](const std::string& n) { heard.push_back(n); }};
  scales.guidance_scale_2 = 1.0;
  made.generate(scales, observer);
  EXPECT_THAT(heard, ElementsAre());
  scales.guidance_scale = 1.0;
  scales.guidance_scale_2 = 3.0;
  made.generate(scales, observer);
  EXPECT_THAT(heard, ElementsAre(HasSubstr("guidance scale 3 has no effect")));
}

// ---- memory.h ----

TEST(FramesFit, SaysHowManyDo) {
  const VideoSizes sizes{.num_frames = 81, .height = 16, .width = 32};
  const encoders::LatentLayout layout{.temporal = 4, .first_frame_alone = true};
  const int64_t frame = 2 * 16 * 32 * 3;  // of two videos
  check_frames_fit(2, sizes, layout, 81 * frame);

  EXPECT_THAT([&] { check_frames_fit(2, sizes, layout, 81 * frame - 1); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("81 decoded frames of 16 x 32 for each of 2 at a time take 0.2 "
                                  "MiB, but 0.2 MiB are free"),
                        HasSubstr("77 frames fit"))));
  EXPECT_THAT([&] { check_frames_fit(2, sizes, layout, frame - 1); },
              ThrowsMessage<Error>(HasSubstr("\n  0 frames fit")));
}

TEST(DecodeFits, SuggestsSmallerSettings) {
  const VideoSizes sizes{.num_frames = 81, .height = 16, .width = 32};
  check_decode_fits(sizes, 1 << 30, 1 << 30);

  EXPECT_THAT([&] { check_decode_fits(sizes, (1 << 30) + 1, 1 << 30); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("decoding 81 frames of 16 x 32 takes 1.00 GiB, but 1.00 GiB are free"),
                  HasSubstr("vae_tiling=true"))));
}

TEST(FramesFit, SaysImagesForImageModels) {
  const VideoSizes sizes{.num_frames = 1, .height = 16, .width = 32, .is_image = true};
  // Three of one byte per number, and one of four.
  check_frames_fit(3, sizes, {}, 7 * 16 * 32 * 3);
  EXPECT_THAT([&] { check_frames_fit(3, sizes, {}, 7 * 16 * 32 * 3 - 1); },
              ThrowsMessage<Error>(AllOf(HasSubstr("the pixels of 3 images of 16 x 32 take"),
                                         HasSubstr("\n  2 of them fit;"))));
  EXPECT_THAT([&] { check_frames_fit(1, sizes, {}, 1); },
              ThrowsMessage<Error>(HasSubstr("\n  not even one fits;")));
  EXPECT_THAT([&] { check_decode_fits(sizes, 2, 1); },
              ThrowsMessage<Error>(AllOf(HasSubstr("decoding an image of 16 x 32 takes"),
                                         HasSubstr("vae_tiling=true or vae_dtype"))));
}

TEST(StepGrowth, GoesThroughBothMeasurements) {
  // 100 s + 3 s^2
  const StepGrowth growth = StepGrowth::through(10, 1300, 40, 8800);
  EXPECT_NEAR(growth.linear, 100, 1e-9);
  EXPECT_NEAR(growth.square, 3, 1e-9);
  EXPECT_NEAR(growth.bytes(20), 3200, 1e-6);
  // Growth slower than the number of tokens counts as linear: never too many frames.
  EXPECT_EQ(StepGrowth::through(10, 1300, 40, 4000).square, 0);
}

TEST(InitialNoise, DependsOnSeedAndIndexOnly) {
  EXPECT_EQ(initial_noise(1, 2, {4, 5}).bytes, initial_noise(1, 2, {4, 5}).bytes);
  EXPECT_NE(initial_noise(1, 2, {4, 5}).bytes, initial_noise(1, 3, {4, 5}).bytes);
  EXPECT_NE(initial_noise(1, 2, {4, 5}).bytes, initial_noise(2, 2, {4, 5}).bytes);
}

TEST(ToFrames, ClampsAndRounds) {
  const HostArray pixels = HostArray::f32({3, 1, 1, 1}, std::vector<float>{-2.0F, 0.0F, 3.0F});

  EXPECT_THAT(encoders::to_frames(pixels).as<uint8_t>(), ElementsAre(0, 128, 255));
}

TEST(VideosOfShare, AreWholeBatchesInARow) {
  GenerateRequest request{.prompts = {"a", "b", "c", "d", "e"}, .batch_size = 2};
  const auto range = [&](int64_t index) {
    const VideoRange made = videos_in_share(request, index);
    return std::pair(made.first, made.count);
  };
  request.share.count = 2;
  EXPECT_EQ(range(0), std::pair(int64_t{0}, int64_t{4}));
  EXPECT_EQ(range(1), std::pair(int64_t{4}, int64_t{1}));
  request.share.count = 5;
  EXPECT_EQ(range(2), std::pair(int64_t{4}, int64_t{1}));
  EXPECT_EQ(range(3).second, 0);
  EXPECT_EQ(range(4).second, 0);
}

TEST_F(PipelineTest, SharesMakeTheVideosOfTheWhole) {
  GenerateRequest whole = request();
  whole.num_videos_per_prompt = 2;
  whole.batch_size = 4;  // the last of two is padded
  const Generated expected = pipeline().generate(whole);
  for (const bool all_texts : {false, true}) {
    SCOPED_TRACE(all_texts);
    std::vector<GeneratedVideo> made;
    for (int64_t index = 0; index < 2; ++index) {
      GenerateRequest part = whole;
      part.share = {.index = index, .count = 2, .all_texts = all_texts};
      for (GeneratedVideo& video : pipeline().generate(part).videos) {
        made.push_back(std::move(video));
      }
    }
    ASSERT_EQ(made.size(), expected.videos.size());
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].prompt, expected.videos[i].prompt);
      EXPECT_EQ(made[i].index, expected.videos[i].index);
      EXPECT_EQ(made[i].latents.bytes, expected.videos[i].latents.bytes) << i;
      EXPECT_EQ(made[i].frames.bytes, expected.videos[i].frames.bytes) << i;
    }
  }
  GenerateRequest none = whole;
  none.share = {.index = 2, .count = 3};
  EXPECT_THAT([&] { pipeline().generate(none); }, ThrowsMessage<Error>(HasSubstr("has no video")));
}

// The weights of the second expert may be lost while the first one makes its steps. Processes that
// share the devices must all know before its first step, in which they would wait for each other.
TEST_F(PipelineTest, AgreesOnTheWeightsOfEachExpert) {
  const fs::path second = folder_.path() / "transformer_2";
  save_transformer(second, twelve_channels(), 2);
  folder_.write("model_index.json",
                R"({"_class_name": "WanPipeline", "boundary_ratio": 0.875,
                    "transformer": ["diffusers", "WanTransformer3DModel"],
                    "transformer_2": ["diffusers", "WanTransformer3DModel"]})");
  std::vector<std::string> asked;
  Pipeline made(
      client(), read_pipeline_folder(folder_.path()),
      {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks),
       .text_encoder = encoders::hashed_text_encoder(kText)},
      {.program = {.executable_cache = program_cache()}, .agree = [&](const std::string& problem) {
         asked.push_back(problem);
         return problem;
       }});
  const auto lose = [&](const DenoiseStep& step) {
    EXPECT_EQ(step.expert, "transformer");
    fs::remove(second / "diffusion_pytorch_model.safetensors");
  };
  EXPECT_THAT([&] { made.generate(request(), {.step = lose}); },
              ThrowsMessage<Error>(HasSubstr("transformer_2")));
  ASSERT_FALSE(asked.empty());
  EXPECT_THAT(asked.back(), HasSubstr("transformer_2"));
}

TEST_F(PipelineTest, EndsWithWhatIsWrongInAnotherProcess) {
  std::string asked;
  std::string answer;
  Pipeline made(
      client(), read_pipeline_folder(folder_.path()),
      {.autoencoder = encoders::space_to_depth_autoencoder(kBlocks),
       .text_encoder = encoders::hashed_text_encoder(kText)},
      {.program = {.executable_cache = program_cache()}, .agree = [&](const std::string& problem) {
         asked += problem;
         return problem.empty() ? answer : problem;
       }});
  EXPECT_EQ(made.generate(request()).videos.size(), 3U);
  EXPECT_EQ(asked, "");
  GenerateRequest latents = request();
  latents.decodes = false;
  EXPECT_TRUE(made.generate(latents).videos.front().frames.bytes.empty());
  answer = "[process 1 on b] it does not fit";
  EXPECT_THAT([&] { made.generate(request()); }, ThrowsMessage<Error>(answer));
}

}  // namespace
}  // namespace kinema::sample
