#include "kinema/sample/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/models/wan/config_file.h"
#include "kinema/networks/open.h"
#include "kinema/sample/denoise_step.h"

namespace kinema::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kTemporal = 4;

Animation of_frames(int64_t frames, int64_t length, int64_t shared) {
  return {.poses = HostArray(Shape{DType::U8, {frames, 2, 2, 3}}),
          .faces = {},
          .background = {},
          .mask = {},
          .segment_frames = length,
          .shared_frames = shared};
}

TEST(Segments, CoverAllFramesOfThePoses) {
  const auto count = [](int64_t frames, int64_t length, int64_t shared) {
    return segments_of(of_frames(frames, length, shared), kTemporal).count;
  };
  EXPECT_EQ(count(77, 77, 1), 1);
  EXPECT_EQ(count(78, 77, 1), 2);
  EXPECT_EQ(count(153, 77, 1), 2);  // 77 + 76
  EXPECT_EQ(count(154, 77, 1), 3);
  EXPECT_EQ(count(19, 13, 5), 2);
  EXPECT_EQ(count(1, 77, 1), 1);
  EXPECT_EQ(count(3, 77, 5), 1);
  EXPECT_EQ(segments_of(of_frames(153, 77, 5), kTemporal).first_frame(1), 72);
}

TEST(Segments, HaveFramesThatTheAutoencoderCanDivide) {
  EXPECT_THAT([] { segments_of(of_frames(9, 8, 1), kTemporal); },
              ThrowsMessage<Error>(HasSubstr("segment_frame_length is 8")));
  EXPECT_THAT([] { segments_of(of_frames(9, 9, 2), kTemporal); },
              ThrowsMessage<Error>(HasSubstr("prev_segment_conditioning_frames is 2")));
  EXPECT_THAT([] { segments_of(of_frames(9, 9, 9), kTemporal); },
              ThrowsMessage<Error>(HasSubstr("below segment_frame_length=9")));
}

TEST(Segments, GoOnBackwardsAfterTheEnd) {
  HostArray video(Shape{DType::U8, {4, 1}});
  std::ranges::copy(std::vector<uint8_t>{1, 2, 3, 4}, video.as<uint8_t>().begin());
  const auto values = [&](int64_t first, int64_t count) {
    const HostArray frames = continued_frames(video, first, count);
    return std::vector<int>(frames.as<uint8_t>().begin(), frames.as<uint8_t>().end());
  };
  EXPECT_THAT(values(0, 9), ElementsAre(1, 2, 3, 4, 3, 2, 1, 2, 3));
  EXPECT_THAT(values(3, 3), ElementsAre(4, 3, 2));
  video.bytes.resize(1);
  video.shape.dims[0] = 1;
  EXPECT_THAT(values(0, 3), ElementsAre(1, 1, 1));
}

/// Returns the latents as pixels, two frames at a time.
class CopyingAutoencoder final : public encoders::Autoencoder {
 public:
  using Autoencoder::decode;
  std::string name() const override { return "copying"; }
  encoders::LatentLayout layout() const override { return {}; }
  HostArray encode(const HostArray& pixels) const override { return pixels; }
  void decode(const HostArray& latents, const encoders::FrameSink& sink) const override {
    const Dims& d = latents.shape.dims;
    for (int64_t first = 0; first < d[1]; first += 2) {
      const int64_t count = std::min<int64_t>(2, d[1] - first);
      HostArray part(Shape{DType::F32, {3, count, d[2], d[3]}});
      for (int64_t c = 0; c < 3; ++c) {
        std::copy_n(latents.as<float>().begin() + (c * d[1] + first) * d[2] * d[3],
                    count * d[2] * d[3], part.as<float>().begin() + c * count * d[2] * d[3]);
      }
      sink(part);
    }
  }
};

/// One pixel a frame, frame i with the byte `first` + i in every channel.
HostArray pixels(int first, int64_t frames) {
  HostArray out(Shape{DType::F32, {3, frames, 1, 1}});
  for (int64_t i = 0; i < 3 * frames; ++i) {
    out.as<float>()[static_cast<size_t>(i)] =
        static_cast<float>(first + i % frames) / 127.5F - 1.0F;
  }
  return out;
}

TEST(Segments, AreJoinedWithoutTheFramesThatTheyShare) {
  const Segments segments{.count = 2, .length = 5, .shared = 1, .frames = 7};
  SegmentFrames frames(segments, {.num_frames = 5, .height = 1, .width = 1, .latents = {}});
  const CopyingAutoencoder autoencoder;
  frames.add(autoencoder, pixels(10, 5));
  EXPECT_EQ(frames.last().as<float>()[0], 14.0F / 127.5F - 1.0F);
  frames.add(autoencoder, pixels(100, 5));  // its first frame is known, its last ones are too many
  const HostArray all = frames.take();
  EXPECT_EQ(all.shape.dims, (Dims{7, 1, 1, 3}));
  std::vector<int> first_channel;
  for (size_t i = 0; i < all.bytes.size(); i += 3) {
    first_channel.push_back(all.as<uint8_t>()[i]);
  }
  EXPECT_THAT(first_channel, ElementsAre(10, 11, 12, 13, 14, 101, 102));
  EXPECT_THAT(
      [&] {
        SegmentFrames few(segments, {.num_frames = 5, .height = 1, .width = 1, .latents = {}});
        few.add(autoencoder, pixels(0, 4));
      },
      ThrowsMessage<Error>(HasSubstr("made 4 frames of a segment of 5")));
}

TEST(Segments, EncodeTheFacesOnceAndNotInEachStep) {
  wan::TransformerConfig config{.num_attention_heads = 2,
                                .attention_head_dim = 4,
                                .in_channels = 12,
                                .out_channels = 4,
                                .text_dim = 6,
                                .freq_dim = 8,
                                .ffn_dim = 8,
                                .num_layers = 2,
                                .image_dim = 6,
                                .added_kv_proj_dim = 8};
  config.animate = wan::AnimateConfig{.latent_channels = 4,
                                      .motion_channels = {3, 4},
                                      .motion_style_dim = 5,
                                      .motion_dim = 2,
                                      .motion_encoder_dim = 6,
                                      .face_hidden_dim = 4,
                                      .face_heads = 2,
                                      .inject_face_latents_blocks = 1};
  StepSpec spec{.network = networks::from_config(wan::config_json(config)),
                .latents = {1, 4, 3, 4, 4},
                .text_length = 3,
                .guidance = Guidance::DOUBLED_BATCH,
                .image_tokens = 5};
  for (const networks::NamedInput& input : spec.network.sizes().named) {
    spec.inputs.push_back({.input = input});
  }
  const auto convolves = [](const StepGraph& graph) {
    return emit(graph.graph, graph.outputs).find("stablehlo.convolution") != std::string::npos;
  };
  EXPECT_FALSE(convolves(*build_step(spec)));
  const std::unique_ptr<StepGraph> faces = build_faces(spec);
  EXPECT_TRUE(convolves(*faces));
  // Two contexts of three latent frames with three tokens.
  EXPECT_EQ(faces->outputs.at(0).shape().dims, (Dims{2, 3, 3, 8}));
}

}  // namespace
}  // namespace kinema::sample
