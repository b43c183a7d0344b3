#include "kinema/encoders/tiling.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace kinema::encoders {
namespace {

/// [1, 1, h, w] filled with `at(y, x)`.
HostArray image(int64_t h, int64_t w, const std::function<double(int64_t, int64_t)>& at) {
  HostArray out(Shape{DType::F32, {1, 1, h, w}});
  for (int64_t y = 0; y < h; ++y) {
    for (int64_t x = 0; x < w; ++x) {
      out.as<float>()[static_cast<size_t>(y * w + x)] = static_cast<float>(at(y, x));
    }
  }
  return out;
}

/// Splits into tiles of `tile`, `stride` apart, and reassembles them.
HostArray again(const HostArray& video, int64_t tile, int64_t stride) {
  const int64_t h = video.shape.dims[2];
  const int64_t w = video.shape.dims[3];
  TileBlender blender(1, 1, {h, stride, tile - stride}, {w, stride, tile - stride});
  const std::vector<Tile> rows = tiles(h, tile, stride);
  const std::vector<Tile> columns = tiles(w, tile, stride);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < columns.size(); ++j) {
      blender.add(static_cast<int64_t>(i), static_cast<int64_t>(j),
                  cut(video, rows[i], columns[j]));
    }
  }
  return blender.take();
}

TEST(Tiling, CutsTheRestIntoSmallerTiles) {
  const std::vector<Tile> cut = tiles(10, 4, 3);

  ASSERT_EQ(cut.size(), 4U);
  EXPECT_EQ(cut[3].start, 9);
  EXPECT_EQ(cut[3].size, 1);
  EXPECT_EQ(cut[2].size, 4);
}

TEST(Tiling, GivesThePictureBackWhereTilesAgree) {
  const HostArray video = image(11, 14, [](int64_t y, int64_t x) { return y * 100.0 + x; });
  for (const int64_t stride : {2, 3, 5}) {
    SCOPED_TRACE(stride);

    const HostArray same = again(video, 5, stride);

    for (size_t i = 0; i < same.as<float>().size(); ++i) {
      // One product and one sum of two numbers of up to 1113.
      EXPECT_NEAR(same.as<float>()[i], video.as<float>()[i], 1113 * 0x1p-22) << i;
    }
  }
}

TEST(Tiling, PassesLinearlyFromOneTileToTheNext) {
  TileBlender blender(1, 1, {2, 2, 0}, {8, 4, 2});
  blender.add(0, 0, image(2, 6, [](int64_t, int64_t) { return 1.0; }));
  blender.add(0, 1, image(2, 4, [](int64_t, int64_t) { return 3.0; }));

  const HostArray whole = blender.take();

  const std::vector<float> row{1, 1, 1, 1, 1, 2, 3, 3};
  EXPECT_EQ(std::vector<float>(whole.as<float>().begin(), whole.as<float>().begin() + 8), row);
}

TEST(Tiling, WeighsThePixelsOfAPatchAlike) {
  TileBlender blender(1, 1, {1, 1, 0}, {8, 4, 4, 2});
  blender.add(0, 0, image(1, 8, [](int64_t, int64_t) { return 0.0; }));
  blender.add(0, 1, image(1, 4, [](int64_t, int64_t) { return 1.0; }));

  const HostArray whole = blender.take();

  const std::vector<float> row{0, 0, 0, 0, 0, 0, 0.5F, 0.5F};
  EXPECT_EQ(std::vector<float>(whole.as<float>().begin(), whole.as<float>().end()), row);
}

TEST(Tiling, RepeatsTheLastFramePastTheEnd) {
  HostArray video(Shape{DType::F32, {2, 3, 1, 1}});
  for (size_t i = 0; i < 6; ++i) {
    video.as<float>()[i] = static_cast<float>(i);
  }

  const HostArray tail = cut_frames(video, 1, 4);

  const std::vector<float> expected{1, 2, 2, 2, 4, 5, 5, 5};
  EXPECT_EQ(std::vector<float>(tail.as<float>().begin(), tail.as<float>().end()), expected);
}

}  // namespace
}  // namespace kinema::encoders
