// Checks the tables against the installed plugins: compiling for absent devices takes a tenth of a
// second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "flags/lists.h"
#include "kinema/core/error.h"
#include "kinema/flags/guard.h"
#include "kinema/flags/profile.h"
#include "kinema/pjrt/client.h"
#include "kinema/pjrt/topology.h"
#include "kinema/planning/target.h"
#include "kinema/runtime/client.h"

namespace kinema::flags {
namespace {

constexpr const char* kProgram = R"(module @small {
  func.func public @main(%a: tensor<8x128xf32>, %b: tensor<128x128xf32>) -> tensor<8x128xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x128xf32>, tensor<128x128xf32>) -> tensor<8x128xf32>
    return %0 : tensor<8x128xf32>
  }
}
)";

/// The variable that names a libtpu to use instead of the newest installed one.
constexpr const char* kOtherLibtpu = "KINEMA_TEST_LIBTPU";

std::string other_libtpu() {
  const char* path = std::getenv(kOtherLibtpu);
  return path == nullptr ? "" : path;
}

/// A compiler for a target, in this process: a refused option does not end it.
class Compiler {
 public:
  explicit Compiler(const std::string& target) : target_(planning::parse_target(target)) {
    for (const auto& [name, value] : target_.environment()) {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    }
    platform_ = flags_test::platform_of(target);
    const std::string hardware = platform_.backend == Backend::TPU   ? "tpu"
                                 : platform_.backend == Backend::GPU ? "cuda"
                                                                     : "cpu";
    path_ = hardware == "cpu"                              ? runtime::find_plugin({})
            : hardware == "tpu" && !other_libtpu().empty() ? other_libtpu()
                                                           : runtime::installed_plugin(hardware);
    platform_.version = plugin_version(path_);
    if (path_.empty()) {
      return;
    }
    if (hardware == "cpu") {
      client_ = std::make_unique<pjrt::Client>(runtime::open_client({}));
    } else {
      topology_ = std::make_unique<pjrt::Topology>(
          pjrt::Plugin::load(path_), target_.topology_name(), target_.topology_options());
    }
  }

  bool is_installed() const { return !path_.empty(); }
  /// True when the tables were measured with this plugin version.
  bool is_in_table() const { return is_installed() && platform_.in_table(); }
  const Platform& platform() const { return platform_; }

  /// The compiler's message about the options; empty if it accepts them.
  std::string refusal(const std::map<std::string, Value>& options) const {
    const pjrt::CompileOptions with{.flags = options};
    try {
      if (client_) {
        (void)client_->compile(kProgram, with);
      } else {
        (void)topology_->compile(kProgram, with);
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  planning::Target target_;
  Platform platform_;
  std::string path_;
  std::unique_ptr<pjrt::Topology> topology_;
  std::unique_ptr<pjrt::Client> client_;
};

#define SKIP_WITHOUT(compiler)                                                                \
  if (!(compiler).is_in_table()) {                                                            \
    GTEST_SKIP() << "no plugin of a version that the tables were measured with is installed"; \
  }

/// Combination `bits` of the five flags as options; flags that are off are set to false on request.
std::vector<GivenFlag> setting(int bits, bool rest_false) {
  std::vector<GivenFlag> out;
  for (size_t i = 0; i < 5; ++i) {
    const bool on = (bits >> i & 1) != 0;
    if (on || rest_false) {
      out.push_back({flags_test::nan_report()[i], on ? "true" : "false", "test"});
    }
  }
  return out;
}

class OnChip : public ::testing::TestWithParam<const char*> {};

TEST_P(OnChip, LibtpuRefusesWhatTheGuardCallsAnError) {
  const Compiler compiler(GetParam());
  SKIP_WITHOUT(compiler);
  for (const bool rest_false : {false, true}) {
    for (int bits = 0; bits < 32; ++bits) {
      Request request{.platform = compiler.platform()};
      request.given = setting(bits, rest_false);
      const Effective effective = resolve(request);
      const std::string refusal = compiler.refusal(effective.options());
      EXPECT_EQ(!effective.errors().empty(), !refusal.empty())
          << "setting " << bits << (rest_false ? ", the rest false: " : ": ") << refusal;
    }
  }
}

TEST_P(OnChip, LibtpuRefusesTheTwinsToo) {
  const Compiler compiler(GetParam());
  SKIP_WITHOUT(compiler);
  constexpr const char* kFuse = "xla_tpu_enable_async_collective_fusion_fuse_";
  const std::pair<const char*, const char*> twins[] = {
      {"all_gather", "xla_enable_async_all_gather"},
      {"reduce_scatter", "xla_enable_async_reduce_scatter_fusion"}};
  for (const auto& [kind, async] : twins) {
    for (int bits = 0; bits < 4; ++bits) {
      Request request{.platform = compiler.platform()};
      request.given = {{kFuse + std::string(kind), (bits & 1) != 0 ? "true" : "false", "test"},
                       {async, (bits & 2) != 0 ? "true" : "false", "test"}};
      const Effective effective = resolve(request);
      const std::string refusal = compiler.refusal(effective.options());
      EXPECT_EQ(!effective.errors().empty(), !refusal.empty()) << kind << " " << bits << refusal;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, OnChip,
                         ::testing::Values("v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2",
                                           "tpu7x:2x2x1"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find(':'));
                         });

// A process can load one libtpu, so each older one in the cache gets its own process.
TEST(OlderLibtpu, RefusesTheSameSettings) {
  if (!other_libtpu().empty()) {
    GTEST_SKIP() << "this is that process";
  }
  namespace fs = std::filesystem;
  const std::string newest = runtime::installed_plugin("tpu");
  int asked = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(runtime::cache_folder(), error)) {
    const fs::path plugin = entry.path() / "libtpu" / "libtpu.so";
    const Platform platform{.backend = Backend::TPU, .version = plugin_version(plugin.string())};
    if (!fs::exists(plugin) || plugin == newest || !platform.in_table()) {
      continue;
    }
    const std::string command =
        fmt::format("{}='{}' '{}' '--gtest_filter=Chips/OnChip.*' --gtest_brief=1", kOtherLibtpu,
                    plugin.string(), fs::read_symlink("/proc/self/exe").string());
    EXPECT_EQ(std::system(command.c_str()), 0) << plugin;
    ++asked;
  }
  if (asked == 0) {
    GTEST_SKIP() << "no older libtpu is in the cache";
  }
}

TEST(ProfilesCompiled, EachIsTakenByTheCompilerOfItsTarget) {
  int compiled = 0;
  for (const Profile& profile : profiles()) {
    const std::string target(profile.target);
    const Compiler compiler(target == "h100" ? "h100:1" : target);
    if (!compiler.is_installed()) {
      continue;
    }
    Request request{.platform = compiler.platform()};
    request.given = given_flags(profile);
    EXPECT_EQ(compiler.refusal(resolve(request).options()), "") << profile.name;
    ++compiled;
  }
  if (compiled == 0) {
    GTEST_SKIP() << "neither libtpu nor the CUDA plugin is installed";
  }
}

class OnPlugin : public ::testing::TestWithParam<const char*> {};

TEST_P(OnPlugin, HasTheFlagsThatTheTableHasAndNoOthers) {
  const Compiler compiler(GetParam());
  SKIP_WITHOUT(compiler);
  for (const std::span<const Flag> flags : {tpu_flags(), xla_flags()}) {
    for (const Flag& flag : flags) {
      const State state = flag_state(flag, compiler.platform());
      // `ignored` describes variables; dump flags would write files.
      if (state.kind == State::Kind::IGNORED || flag.name.starts_with("xla_dump")) {
        continue;
      }
      const bool known = state.kind == State::Kind::PRESENT && flag.per_program;
      std::string value(state.value);
      if (!known || value == "unset") {
        value = flag.type == Type::INTEGER || flag.type == Type::NUMBER ? "1" : "true";
      }
      const std::string said =
          compiler.refusal({{std::string(flag.name), to_option(&flag, value)}});
      EXPECT_EQ(parse_probe_answer(said).kind,
                known ? ProbeAnswer::Kind::OK : ProbeAnswer::Kind::UNKNOWN)
          << flag.name << ": " << said;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plugins, OnPlugin, ::testing::Values("cpu:1", "h100:1", "v6e:2x2"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace kinema::flags
