#include "kinema/encoders/vae_side.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "kinema/allocator/large_blocks.h"
#include "kinema/core/threefry.h"
#include "kinema/weights/weights.h"
#include "runtime/cpu_client.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;

vae::Config narrow() {
  vae::Config config;
  config.base_dim = 8;
  config.z_dim = 4;
  config.num_res_blocks = 1;
  config.latents_mean.assign(4, 0.0);
  config.latents_std.assign(4, 1.0);
  return config;
}

HostArray random_array(Dims dims) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(1, "vae_side_test"));
  for (float& value : out.as<float>()) {
    value = 2.0F * static_cast<float>(stream.uniform()) - 1.0F;
  }
  return out;
}

class VaeSideTest : public runtime::CpuClientTest {
 protected:
  /// A VAE side that counts how often parameters are loaded.
  std::unique_ptr<VaeSide> side(VaeSide::Kind kind, vae::Config config,
                                runtime::ProgramOptions program = {}) {
    return std::make_unique<VaeSide>(
        kind, client(), config, vae::Options{}, std::move(program),
        [this](std::span<const nn::ParamSpec> specs) {
          ++loads_;
          pjrt::Client device = client();
          return runtime::to_arrays(weights::initialise(specs, 2, device));
        });
  }

  static std::vector<std::byte> bytes(VaeSide& subject, const HostArray& input, int64_t chunk) {
    std::vector<std::byte> out;
    subject.run(input, chunk, [&](const HostArray& piece) {
      out.insert(out.end(), piece.bytes.begin(), piece.bytes.end());
    });
    return out;
  }

  int loads_ = 0;
};

TEST_F(VaeSideTest, ReleasedParametersAreLoadedAgain) {
  const auto subject = side(VaeSide::Kind::ENCODER, narrow());
  const HostArray frame = random_array({3, 1, 16, 16});
  const auto expected = bytes(*subject, frame, 4);
  EXPECT_EQ(bytes(*subject, frame, 4), expected);
  EXPECT_EQ(loads_, 1);

  subject->release();
  subject->release();

  EXPECT_EQ(bytes(*subject, frame, 4), expected);
  EXPECT_EQ(loads_, 2);
}

// The widest convolutions have 4 x 32 channels on both sides and 27 taps: each is larger than the
// smallest block of the pool.
TEST_F(VaeSideTest, ReleaseGivesTheParametersMemoryBack) {
  if (!allocator::keep_large_blocks()) {
    GTEST_SKIP() << "large blocks are not counted in this build";
  }
  vae::Config config = narrow();
  config.base_dim = 32;
  const auto subject = side(VaeSide::Kind::ENCODER, config);
  const int64_t before = allocator::large_blocks().live_bytes;
  bytes(*subject, random_array({3, 1, 16, 16}), 4);
  const int64_t widest = int64_t{128} * 128 * 27 * 4;
  EXPECT_GE(allocator::large_blocks().live_bytes - before, widest);

  subject->release();

  // The plugin frees a run's arguments some time after its results are ready.
  for (int i = 0; i < 3000 && allocator::large_blocks().live_bytes - before >= widest; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(allocator::large_blocks().live_bytes - before, widest);
}

TEST_F(VaeSideTest, ARunThatIsUnderWayKeepsItsParameters) {
  const auto subject = side(VaeSide::Kind::DECODER, narrow());
  const HostArray latents = random_array({4, 3, 2, 2});
  const auto expected = bytes(*subject, latents, 1);
  std::vector<std::byte> out;

  subject->run(latents, 1, [&](const HostArray& piece) {
    subject->release();
    out.insert(out.end(), piece.bytes.begin(), piece.bytes.end());
  });

  EXPECT_EQ(out, expected);
}

// Donation, in-place barriers and our own kernels: a program loaded from the cache must run in the
// same order as the compiled one.
TEST_F(VaeSideTest, ProgramsFromTheCacheGiveTheBitsOfCompiledOnesInEveryRun) {
  constexpr int kLoads = 3;
  constexpr int kRuns = 4;
  struct Case {
    VaeSide::Kind kind;
    bool kernels;
  };
  for (const Case& c : {Case{VaeSide::Kind::ENCODER, true}, Case{VaeSide::Kind::DECODER, true},
                        Case{VaeSide::Kind::DECODER, false}}) {
    const bool encodes = c.kind == VaeSide::Kind::ENCODER;
    SCOPED_TRACE(testing::Message()
                 << (encodes ? "encoder" : "decoder") << ", kernels " << c.kernels);
    const HostArray input = encodes ? random_array({3, 9, 16, 16}) : random_array({4, 3, 2, 2});
    const std::string cache = folder() + (encodes ? "/e" : "/d") + (c.kernels ? "k" : "");
    const runtime::ProgramOptions program{.kernels = c.kernels, .executable_cache = cache};
    const auto entries = [&] {
      return std::distance(fs::directory_iterator(cache), fs::directory_iterator());
    };
    const auto expected = bytes(*side(c.kind, narrow(), program), input, encodes ? 4 : 1);
    EXPECT_EQ(entries(), 2);  // for the first frame and for a chunk

    for (int load = 0; load < kLoads; ++load) {
      const auto subject = side(c.kind, narrow(), program);
      for (int run = 0; run < kRuns; ++run) {
        EXPECT_TRUE(bytes(*subject, input, encodes ? 4 : 1) == expected)
            << "load " << load << ", run " << run;
      }
    }
    EXPECT_EQ(entries(), 2);
  }
}

}  // namespace
}  // namespace kinema::encoders
