#include "kinema/encoders/kl_autoencoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::encoders {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The reference's tiny VAE, whose cells have a side of 4 pixels or more.
class KlAutoencoderTest : public pjrt::CpuTest {
 protected:
  static KlAutoencoder vae(std::optional<Tiling> tiling = {}) {
    return KlAutoencoder(runtime::Devices(pjrt::cpu_client()),
                         std::string(KINEMA_SOURCE_DIR) + "/tests/golden/sdxl/vae",
                         {.tiling = tiling});
  }
  static HostArray noise(Dims dims) {
    HostArray out(Shape{DType::F32, std::move(dims)});
    RandomStream random(random_key(1, "kl autoencoder test"));
    for (float& x : out.as<float>()) {
      x = 0.3F * random.normal();
    }
    return out;
  }
};

TEST_F(KlAutoencoderTest, LeavesImagesOfATileAlone) {
  const KlAutoencoder whole = vae();
  const int64_t cell = whole.layout().spatial;
  const HostArray latents = noise({whole.layout().channels, 1, 4, 4});
  const Tiling tile{4 * cell, 4 * cell, 4 * cell, 4 * cell};
  EXPECT_EQ(vae(tile).decode(latents).bytes, whole.decode(latents).bytes);
}

TEST_F(KlAutoencoderTest, PutsTilesWhereTheyLie) {
  const KlAutoencoder whole = vae();
  const int64_t cell = whole.layout().spatial;
  const HostArray latents = noise({whole.layout().channels, 1, 4, 6});
  // Tiles [0, 4) and [3, 6) of the columns: outside of their overlap only one contributes.
  const HostArray made = vae(Tiling{4 * cell, 4 * cell, 4 * cell, 3 * cell}).decode(latents);
  ASSERT_EQ(made.shape.dims, (Dims{3, 1, 4 * cell, 6 * cell}));
  const HostArray left = whole.decode(cut(latents, {0, 4}, {0, 4}));
  const HostArray right = whole.decode(cut(latents, {0, 4}, {3, 3}));
  const Tile rows{0, 4 * cell};
  EXPECT_EQ(cut(made, rows, {0, 3 * cell}).bytes, cut(left, rows, {0, 3 * cell}).bytes);
  EXPECT_EQ(cut(made, rows, {4 * cell, 2 * cell}).bytes, cut(right, rows, {cell, 2 * cell}).bytes);
}

TEST_F(KlAutoencoderTest, LimitsPixelsWhenTilesAreBlended) {
  const KlAutoencoder whole = vae();
  const int64_t cell = whole.layout().spatial;
  HostArray latents = noise({whole.layout().channels, 1, 4, 6});
  for (float& x : latents.as<float>()) {
    x *= 40.0F;
  }
  const HostArray made = vae(Tiling{4 * cell, 4 * cell, 4 * cell, 2 * cell}).decode(latents);
  const auto both = [&](const HostArray& of, int64_t from) {
    return cut(of, {0, 4 * cell}, {from, 2 * cell});
  };
  const HostArray blended = both(made, 2 * cell);
  const HostArray left = both(whole.decode(cut(latents, {0, 4}, {0, 4})), 2 * cell);
  const HostArray right = both(whole.decode(cut(latents, {0, 4}, {2, 4})), 0);
  // A blend of 1 and a smaller value is 1 only if the former was larger before clamping.
  int64_t from_beyond = 0;
  for (size_t i = 0; i < blended.as<float>().size(); ++i) {
    const float a = std::abs(left.as<float>()[i]);
    const float b = std::abs(right.as<float>()[i]);
    const float made_of_both = std::abs(blended.as<float>()[i]);
    const bool has_both = i % static_cast<size_t>(2 * cell) > 0;
    EXPECT_LE(made_of_both, 1.0F);
    from_beyond +=
        has_both && std::max(a, b) == 1.0F && std::min(a, b) < 0.99F && made_of_both == 1.0F;
  }
  EXPECT_GT(from_beyond, 0);
}

TEST_F(KlAutoencoderTest, EncodesByTilesToo) {
  const KlAutoencoder whole = vae();
  const int64_t cell = whole.layout().spatial;
  const HostArray pixels = noise({3, 1, 6 * cell, 4 * cell});
  const HostArray made = vae(Tiling{4 * cell, 4 * cell, 2 * cell, 4 * cell}).encode(pixels);
  ASSERT_EQ(made.shape.dims, (Dims{whole.layout().channels, 1, 6, 4}));
  const HostArray first = whole.encode(cut(pixels, {0, 4 * cell}, {0, 4 * cell}));
  EXPECT_EQ(cut(made, {0, 2}, {0, 4}).bytes, cut(first, {0, 2}, {0, 4}).bytes);
}

TEST_F(KlAutoencoderTest, TakesLessMemoryByTiles) {
  const KlAutoencoder whole = vae();
  const int64_t cell = whole.layout().spatial;
  const Dims latents{whole.layout().channels, 1, 64, 64};
  EXPECT_LT(vae(Tiling{16 * cell, 16 * cell, 12 * cell, 12 * cell}).decode_memory_bytes(latents),
            whole.decode_memory_bytes(latents));
}

TEST_F(KlAutoencoderTest, RefusesTilesThatAreNoCells) {
  const int64_t cell = vae().layout().spatial;
  EXPECT_THAT(
      [&] {
        vae(Tiling{4 * cell + 1, 4 * cell, cell, cell});
      },
      ThrowsMessage<Error>(HasSubstr("the tiles' height")));
}

}  // namespace
}  // namespace kinema::encoders
