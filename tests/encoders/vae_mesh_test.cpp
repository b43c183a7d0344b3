// The VAE with frames sharded over the devices of a mesh equals the VAE on one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/mesh/settings.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const fs::path kGolden = fs::path(KINEMA_SOURCE_DIR) / "tests" / "golden";

class VaeMesh : public pjrt::CpuTest {
 protected:
  static const pjrt::Client& client() {
    static const pjrt::Client client = pjrt::cpu_client(4);
    return client;
  }
  static mesh::Mesh mesh_of(int64_t spatial) {
    std::vector<mesh::Device> devices;
    for (const pjrt::Device& each : client().devices()) {
      devices.push_back({each.id(), 0});
    }
    return mesh::make_vae_mesh(spatial, devices);
  }
  static runtime::Devices devices(int64_t spatial) {
    const auto rules =
        mesh::AxisRules::parse(mesh::Settings().vae_logical_axis_rules, "vae_logical_axis_rules");
    return {client(), mesh::Placement(mesh_of(spatial), rules)};
  }
};

// Sums of some hundred f32 products in another order, through all layers: the reference set's
// limit.
constexpr double kLimit = 1e-4;

TEST_F(VaeMesh, EncodesAndDecodesWhatOneDeviceDoes) {
  const fs::path folder = kGolden / "wan21_t2v" / "vae";
  const WanAutoencoder alone(client(), folder);
  const WanAutoencoder split(devices(-1), folder);
  const HostArray pixels = normal({3, 5, 16, 32}, 1);
  const HostArray latents = normal({alone.layout().channels, 2, 2, 4}, 2);
  EXPECT_LT(largest_difference(split.encode(pixels), alone.encode(pixels)), kLimit);
  EXPECT_LT(largest_difference(split.decode(latents), alone.decode(latents)), kLimit);
}

// Three columns of latents are divisible by no group; the kernels are replicated.
TEST_F(VaeMesh, DecodesWidthsThatDoNotDivide) {
  const fs::path folder = kGolden / "wan22_ti2v" / "vae";
  const WanAutoencoder alone(client(), folder);
  const WanAutoencoder split(devices(2), folder, {.replicate = true});
  const HostArray latents = normal({alone.layout().channels, 2, 2, 3}, 2);
  EXPECT_LT(largest_difference(split.decode(latents), alone.decode(latents)), kLimit);
}

TEST_F(VaeMesh, GroupsMustDivideTheDevices) {
  EXPECT_EQ(mesh::axes_text(mesh_of(2).axes), "redundant=2 vae_spatial=2");
  EXPECT_THAT([] { mesh_of(3); },
              ThrowsMessage<Error>(AllOf(HasSubstr("4 devices do not make groups of vae_spatial=3"),
                                         HasSubstr("1, 2 or 4"))));
  EXPECT_THAT([] { mesh_of(0); }, ThrowsMessage<Error>(HasSubstr("vae_spatial=0")));
}

}  // namespace
}  // namespace kinema::encoders
