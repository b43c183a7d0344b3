#include "kinema/encoders/wan_autoencoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "arrays.h"
#include "cpu_isa.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/io/safetensors.h"
#include "runtime/cpu_client.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const fs::path kGolden = fs::path(KINEMA_SOURCE_DIR) / "tests" / "golden";
const fs::path kVae21 = kGolden / "wan21_t2v" / "vae";
const fs::path kVae22 = kGolden / "wan22_ti2v" / "vae";

/// The reference set's limit: sums of some hundred f32 products in another order.
constexpr double kLimit = 1e-4;

HostArray random_array(Dims dims, uint64_t seed) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "wan_autoencoder_test"));
  for (float& value : out.as<float>()) {
    value = 2.0F * static_cast<float>(stream.uniform()) - 1.0F;
  }
  return out;
}

class WanAutoencoderTest : public runtime::CpuClientTest {
 protected:
  /// Programs are shared by the tests, since compiling takes nearly all of the time.
  static void SetUpTestSuite() {
    programs_ = fs::path(testing::TempDir()) / ("kinema_vae_programs_" + std::to_string(getpid()));
  }
  static void TearDownTestSuite() { fs::remove_all(programs_); }

  WanAutoencoder vae(const fs::path& folder, WanAutoencoderOptions options = {}) const {
    options.program.executable_cache = programs_.string();
    return WanAutoencoder(client(), folder, options);
  }

 private:
  static inline fs::path programs_;
};

// TI2V training relies on this: the first latent frame of a clip equals that of its first frame
// alone, which sampling gets. The same program computes both.
TEST_F(WanAutoencoderTest, MakesTheFirstLatentFrameOfTheFirstFrameAlone) {
  const HostArray pixels = random_array({3, 5, 32, 48}, 1);
  HostArray first(Shape{DType::F32, {3, 1, 32, 48}});
  constexpr int64_t kPlane = 32 * 48;
  for (int64_t c = 0; c < 3; ++c) {
    std::copy_n(pixels.as<float>().begin() + c * 5 * kPlane, kPlane,
                first.as<float>().begin() + c * kPlane);
  }
  const WanAutoencoder autoencoder = vae(kVae22);
  const HostArray clip = autoencoder.encode(pixels);
  const HostArray alone = autoencoder.encode(first);
  const int64_t plane = alone.shape.dims[2] * alone.shape.dims[3];
  for (int64_t c = 0; c < alone.shape.dims[0]; ++c) {
    const auto a = alone.as<float>().subspan(c * plane, plane);
    const auto b = clip.as<float>().subspan(c * clip.shape.dims[1] * plane, plane);
    EXPECT_TRUE(std::ranges::equal(a, b)) << c;
  }
}

// Chunks of 8 do not divide the frames after the first of 13; -1 encodes all at once.
TEST_F(WanAutoencoderTest, EncodesTheSameBitsWhateverTheChunk) {
  for (const fs::path& folder : {kVae21, kVae22}) {
    SCOPED_TRACE(folder);
    const HostArray pixels = random_array({3, 13, 32, 48}, 1);

    const HostArray expected = vae(folder).encode(pixels);

    EXPECT_EQ(expected.shape.dims[1], 4);
    for (const int64_t chunk : {8, -1}) {
      EXPECT_TRUE(vae(folder, {.encode_chunk = chunk}).encode(pixels).bytes == expected.bytes)
          << chunk;
    }
  }
}

TEST_F(WanAutoencoderTest, DecodesTheSameBitsWhateverTheChunk) {
  for (const fs::path& folder : {kVae21, kVae22}) {
    SCOPED_TRACE(folder);
    const int64_t z = vae(folder).layout().channels;
    const HostArray latents = random_array({z, 4, 3, 4}, 2);

    const HostArray expected = vae(folder).decode(latents);

    EXPECT_EQ(expected.shape.dims[1], 13);
    for (const int64_t chunk : {2, -1}) {
      EXPECT_TRUE(vae(folder, {.decode_chunk = chunk}).decode(latents).bytes == expected.bytes)
          << chunk;
    }
  }
}

TEST_F(WanAutoencoderTest, HandsOutTheVideoPieceByPiece) {
  std::vector<int64_t> frames;

  vae(kVae21).decode(random_array({16, 3, 2, 2}, 3), [&](const HostArray& piece) {
    frames.push_back(piece.shape.dims[1]);
    for (const float value : piece.as<float>()) {
      ASSERT_LE(std::abs(value), 1.0F);
    }
  });

  EXPECT_EQ(frames, (std::vector<int64_t>{1, 4, 4}));
}

TEST_F(WanAutoencoderTest, NormalisesWhatItEncodesAndDenormalisesWhatItDecodes) {
  const WanAutoencoder subject = vae(kVae22);
  const HostArray pixels = random_array({3, 1, 32, 32}, 4);
  const HostArray mean = subject.moments(pixels).mean;

  const HostArray latents = subject.encode(pixels);

  EXPECT_EQ(latents.bytes, subject.normalise(mean).bytes);
  EXPECT_LE(largest_difference(subject.denormalise(latents), mean), 1e-6);
  HostArray decoded;
  subject.decode_denormalised(subject.denormalise(latents), [&](const HostArray& piece) {
    decoded = piece;  // the last piece
  });
  EXPECT_EQ(decoded.bytes, [&] {
    HostArray last;
    subject.decode(latents, [&](const HostArray& piece) { last = piece; });
    return last.bytes;
  }());
}

// Rows with the first model, columns with the second, whose encoder counts in patches.
TEST_F(WanAutoencoderTest, TilesAsTheReferenceDoes) {
  const auto file = io::SafetensorsFile::open(kGolden / "vae_tiles" / "reference.safetensors");
  struct Set {
    std::string name;
    fs::path folder;
    Tiling tiling;
  };
  for (const Set& set :
       {Set{"vae.", kVae21, {32, 40, 24, 16}}, Set{"vae22.", kVae22, {32, 48, 16, 32}}}) {
    SCOPED_TRACE(set.name);
    const auto tensor = [&](const char* name) { return file.at(set.name + name).copy(); };
    const WanAutoencoder subject = vae(set.folder, {.tiling = set.tiling});

    const WanAutoencoder::Moments moments = subject.moments(tensor("video"));
    const HostArray decoded = subject.decode(subject.normalise(tensor("mean")));

    EXPECT_LE(largest_difference(moments.mean, tensor("mean")), kLimit);
    EXPECT_LE(largest_difference(moments.logvar, tensor("logvar")), kLimit);
    EXPECT_LE(largest_difference(decoded, tensor("decoded")), kLimit);
  }
}

TEST_F(WanAutoencoderTest, LeavesVideosOfOneTileWhole) {
  const HostArray pixels = random_array({3, 1, 32, 32}, 5);

  const HostArray whole = vae(kVae21).encode(pixels);

  EXPECT_EQ(vae(kVae21, {.tiling = Tiling{32, 32, 16, 16}}).encode(pixels).bytes, whole.bytes);
}

// A bf16 rounding error is 2^-9 of a value. About forty follow one another on the longest path, and
// the reference's norms keep values near one, so a tenth of the range of 2 is a wide limit.
TEST_F(WanAutoencoderTest, HalfPrecisionStaysNear) {
  const HostArray latents = random_array({16, 1, 3, 4}, 6);
  const vae::Options half{.weights_dtype = DType::BF16, .activations_dtype = DType::BF16};

  const HostArray decoded = vae(kVae21, {.model = half}).decode(latents);

  EXPECT_LE(largest_difference(decoded, vae(kVae21).decode(latents)), 0.1);
  EXPECT_LE(
      largest_difference(vae(kVae21, {.model = {.weights_dtype = DType::BF16}}).decode(latents),
                         vae(kVae21).decode(latents)),
      0.05);
}

TEST_F(WanAutoencoderTest, NamesSizesThatWork) {
  const WanAutoencoder subject = vae(kVae22);
  const auto encode = [&](Dims dims) {
    return [&, dims] { subject.encode(HostArray({DType::F32, dims})); };
  };

  EXPECT_THAT(encode({3, 1, 40, 32}), ThrowsMessage<Error>(HasSubstr("32 and 48 work")));
  EXPECT_THAT(encode({3, 1, 32, 8}), ThrowsMessage<Error>(HasSubstr("16 and 32 work")));
  EXPECT_THAT(encode({3, 4, 32, 32}), ThrowsMessage<Error>(HasSubstr("1 and 5 work")));
  EXPECT_THAT(encode({3, 0, 32, 32}), ThrowsMessage<Error>(HasSubstr("1 and 5 work")));
  EXPECT_THAT(encode({4, 1, 32, 32}), ThrowsMessage<Error>(HasSubstr("f32[3,f,h,w]")));
  EXPECT_THAT(
      [&] {
        subject.decode(random_array({16, 1, 2, 2}, 1));
      },
      ThrowsMessage<Error>(HasSubstr("this VAE has 8 channels")));
}

TEST_F(WanAutoencoderTest, RefusesChunksAndTilesThatCannotBe) {
  EXPECT_THAT([&] { vae(kVae21, {.encode_chunk = 6}); },
              ThrowsMessage<Error>(HasSubstr("multiple of 4")));
  EXPECT_THAT([&] { vae(kVae21, {.decode_chunk = 0}); },
              ThrowsMessage<Error>(HasSubstr("vae_decode_chunk is 0")));
  EXPECT_THAT(
      [&] {
        vae(kVae21, {.tiling = Tiling{30, 32, 16, 16}});
      },
      ThrowsMessage<Error>(HasSubstr("24 and 32 work")));
  EXPECT_THAT(
      [&] {
        vae(kVae21, {.tiling = Tiling{32, 32, 40, 16}});
      },
      ThrowsMessage<Error>(HasSubstr("would not touch")));
}

TEST_F(WanAutoencoderTest, SeveralThreadsMayEncodeAtOnce) {
  const WanAutoencoder subject = vae(kVae21);
  const HostArray pixels = random_array({3, 1, 32, 32}, 7);
  std::vector<HostArray> results(4);
  {
    std::vector<std::jthread> threads;
    for (HostArray& result : results) {
      threads.emplace_back([&] { result = subject.encode(pixels); });
    }
  }
  for (const HostArray& result : results) {
    EXPECT_EQ(result.bytes, results[0].bytes);
  }
}

}  // namespace
}  // namespace kinema::encoders
