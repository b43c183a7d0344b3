// Colors of latents without decoding.
#include "kinema/sample/latent_colors.h"

#include <gmock/gmock.h>

#include <cmath>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(LatentColors, LeastSquaresFindsTheCoefficients) {
  // y = 2 a - 3 b + 1, without noise.
  const std::vector<double> rows{1, 0, 1, 0, 1, 1, 2, 1, 1, -1, 3, 1};
  const std::vector<double> y{3, -2, 2, -10};
  const std::vector<double> x = least_squares(rows, y, 3, 0);
  EXPECT_NEAR(x[0], 2, 1e-12);
  EXPECT_NEAR(x[1], -3, 1e-12);
  EXPECT_NEAR(x[2], 1, 1e-12);
  // Equal columns have no only solution, except with a ridge, which shares between them.
  const std::vector<double> equal{1, 1, 2, 2};
  const std::vector<double> sums{2, 4};
  EXPECT_THROW(least_squares(equal, sums, 2, 0), Error);
  const std::vector<double> shared = least_squares(equal, sums, 2, 1e-9);
  EXPECT_NEAR(shared[0], 1, 1e-6);
  EXPECT_NEAR(shared[1], 1, 1e-6);
}

/// Blocks of 4 x 4 pixels as 48 channels: the mean color of a cell is linear in its latents.
TEST(LatentColors, OfAnAutoencoderShowWhatWasEncoded) {
  const auto autoencoder = encoders::space_to_depth_autoencoder({.block = 4, .scale = 2});
  const LatentColors colors = fit_colors(*autoencoder);
  EXPECT_EQ(colors.channels, 48);
  EXPECT_EQ(fit_colors(*autoencoder), colors);  // it draws no random numbers of its own
  HostArray pixels(Shape{DType::F32, {3, 1, 8, 12}});
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 12; ++x) {
        pixels.as<float>()[static_cast<size_t>((c * 8 + y) * 12 + x)] =
            0.5F * static_cast<float>(c - 1) + 0.2F * static_cast<float>(x / 4 - y / 4);
      }
    }
  }
  const HostArray picture = picture_of(autoencoder->encode(pixels), 0, colors);
  ASSERT_EQ(picture.shape.dims, (Dims{2, 3, 3}));
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 2; ++y) {
      for (int x = 0; x < 3; ++x) {
        const double color = 0.5 * (c - 1) + 0.2 * (x - y);
        // The ridge makes colors at most a hundredth weaker.
        EXPECT_NEAR(std::to_integer<int>(picture.bytes[static_cast<size_t>((y * 3 + x) * 3 + c)]),
                    (color + 1) * 127.5, 0.01 * 127.5 + 1);
      }
    }
  }
}

TEST(LatentColors, AreReadAsTheyWereWritten) {
  const LatentColors colors{.channels = 1, .factors = {1, 2, 3, 4, 5, 0.25F}};
  EXPECT_EQ(read_latent_colors(to_json(colors)), colors);
  EXPECT_THAT(
      [] {
        read_latent_colors(to_json({.channels = 2, .factors = {1, 2, 3, 4, 5, 6}}));
      },
      ThrowsMessage<Error>(HasSubstr("6 factors for 2 channels")));
  HostArray latents(Shape{DType::F32, {2, 1, 1, 1}});
  EXPECT_THAT([&] { picture_of(latents, 0, colors); },
              ThrowsMessage<Error>(HasSubstr("expected 1 channels")));
  HostArray one(Shape{DType::F32, {1, 1, 1, 1}});
  one.as<float>()[0] = std::nanf("");
  EXPECT_EQ(std::to_integer<int>(picture_of(one, 0, colors).bytes[0]), 0);
}

TEST(LatentColors, AreRefusedForLatentsOfManyChannels) {
  const auto autoencoder = encoders::space_to_depth_autoencoder({.block = 16});
  EXPECT_THAT([&] { fit_colors(*autoencoder); }, ThrowsMessage<Error>(HasSubstr("768 channels")));
}

}  // namespace
}  // namespace kinema::sample
