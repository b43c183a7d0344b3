#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "flags/lists.h"
#include "kinema/core/error.h"
#include "kinema/flags/docs.h"
#include "kinema/flags/guard.h"
#include "kinema/flags/profile.h"

namespace kinema::flags {
namespace {

using flags_test::errors;
using flags_test::ids;
using flags_test::platform_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Flag> all_flags() {
  std::vector<Flag> out(tpu_flags().begin(), tpu_flags().end());
  out.insert(out.end(), xla_flags().begin(), xla_flags().end());
  return out;
}

TEST(Registry, HasEveryFlagOnceWithMeaningSourceAndDefaults) {
  std::set<std::string_view> names;
  for (const Flag& flag : all_flags()) {
    SCOPED_TRACE(flag.name);
    EXPECT_TRUE(names.insert(flag.name).second);
    EXPECT_FALSE(flag.meaning.empty());
    EXPECT_FALSE(flag.source.empty());
    EXPECT_NE(flag.defaults.find(':'), std::string_view::npos);
    EXPECT_EQ(find_flag(flag.name)->name, flag.name);
  }
}

TEST(Registry, DefaultsAreValuesOfTheFlag) {
  for (const Flag& flag : all_flags()) {
    for (const char* target : {"v6e", "h100", "cpu"}) {
      const State state = flag_state(flag, platform_of(target));
      if (state.kind == State::Kind::PRESENT && state.value != "unset") {
        EXPECT_EQ(canonical(flag, state.value, Reader::OPTION), state.value)
            << flag.name << " on " << target;
      }
    }
  }
}

TEST(Registry, WhatIsGoneNamesAReplacement) {
  for (const Flag& flag : all_flags()) {
    const State::Kind kind = flag_state(flag, platform_of("h100")).kind;
    if (kind == State::Kind::REMOVED || kind == State::Kind::RENAMED) {
      EXPECT_FALSE(flag.replacement.empty()) << flag.name;
    }
  }
}

TEST(Registry, HasEveryFlagThatThePublishedListsHave) {
  for (const char* list : {flags_test::kReadmeTraining, flags_test::kFastGeneration,
                           flags_test::kDreamerGpu, flags_test::kDreamerTpu}) {
    for (const EnvironmentFlag& flag : read_xla_flags(list).flags) {
      EXPECT_NE(find_flag(flag.name), nullptr) << flag.name;
    }
  }
  for (const std::string& name : flags_test::nan_report()) {
    EXPECT_NE(find_flag(name), nullptr) << name;
  }
  EXPECT_EQ(read_xla_flags(flags_test::kReadmeTraining).flags.size(), 25U);
  EXPECT_EQ(read_xla_flags(flags_test::kDreamerGpu).flags.size(), 15U);
}

TEST(Registry, KnowsTheDefaultOfAVersion) {
  const Flag& flag = *find_flag("xla_tpu_enable_scheduler_memory_pressure_tracking");
  Platform platform = platform_of("v5p");
  const auto at = [&](const char* version) {
    platform.version = version;
    return std::string(flag_state(flag, platform).value);
  };
  EXPECT_EQ(at("0.0.30"), "AUTO");
  EXPECT_EQ(at("0.0.41"), "AUTO");
  EXPECT_EQ(at("0.0.42.1"), "ENABLED");
  EXPECT_EQ(at("0.0.51"), "ENABLED");
  EXPECT_EQ(at("0.0.12"), "AUTO") << "older than the table: its oldest row";
}

TEST(Registry, TellsWhatIsGoneFromWhatHasANewName) {
  const auto kind = [](const char* name, const char* target) {
    return flag_state(*find_flag(name), platform_of(target)).kind;
  };
  EXPECT_EQ(kind("xla_gpu_graph_level", "h100"), State::Kind::REMOVED);
  EXPECT_EQ(kind("xla_gpu_graph_level", "cpu"), State::Kind::REMOVED);
  EXPECT_EQ(kind("xla_gpu_enable_pipelined_all_gather", "h100"), State::Kind::RENAMED);
  EXPECT_EQ(kind("xla_gpu_enable_pipelined_all_gather", "cpu"), State::Kind::PRESENT);
  EXPECT_EQ(kind("xla_gpu_pipeline_all_gather", "h100"), State::Kind::PRESENT);
  EXPECT_EQ(kind("xla_gpu_pipeline_all_gather", "cpu"), State::Kind::ABSENT);
  EXPECT_EQ(kind("xla_enable_async_all_gather", "h100"), State::Kind::ABSENT);
}

TEST(Platform, IsReadFromAnAcceleratorType) {
  EXPECT_EQ(chip_of_accelerator("v5litepod-16"), "v5e");
  EXPECT_EQ(chip_of_accelerator("v6e-8"), "v6e");
  EXPECT_EQ(chip_of_accelerator("tpu7x-8"), "tpu7x");
  EXPECT_EQ(chip_of_accelerator("v99-8"), "");
}

TEST(Platform, ReadsThePluginsVersionFromItsWheelsFolder) {
  EXPECT_EQ(plugin_version("/c/libtpu-0.0.51/libtpu/libtpu.so"), "0.0.51");
  EXPECT_EQ(plugin_version("/c/jax-cuda13-pjrt-0.12.0.1/jax_plugins/xla_cuda13/xla_cuda_plugin.so"),
            "0.12.0.1");
  EXPECT_EQ(plugin_version("/c/xla-cpu-pjrt-0.0.1/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
            "0.0.1");
  EXPECT_EQ(plugin_version("/usr/lib/libtpu.so"), "");
  EXPECT_EQ(plugin_version(""), "");
}

TEST(Platform, OrdersVersionsByNumber) {
  EXPECT_LT(compare_versions("0.0.9", "0.0.30"), 0);
  EXPECT_LT(compare_versions("0.0.42", "0.0.42.1"), 0);
  EXPECT_GT(compare_versions("0.0.43.2", "0.0.42.10"), 0);
  EXPECT_EQ(compare_versions("0.0.51", "0.0.51.0"), 0);
}

TEST(Profiles, PassEveryRuleOnTheirTarget) {
  for (const Profile& profile : profiles()) {
    SCOPED_TRACE(profile.name);
    Request request{.platform = platform_of(profile.target)};
    request.given = given_flags(profile);
    request.deterministic = profile.name == "gpu-deterministic";
    const Effective effective = resolve(request);
    EXPECT_THAT(errors(effective), IsEmpty());
    EXPECT_THAT(ids(effective, Severity::WARNING), IsEmpty());
    EXPECT_EQ(effective.options().size(), profile.flags.size());
  }
}

/// Names of the flags that a profile sets or drops.
std::set<std::string> accounted(const Profile& profile) {
  std::set<std::string> out;
  for (const ProfileFlag& flag : profile.flags) {
    out.emplace(flag.name);
    std::istringstream in{std::string(flag.why)};
    for (std::string word; in >> word;) {
      out.insert(word.substr(0, word.find_first_of("=,")));
    }
  }
  for (const DroppedFlag& flag : profile.dropped) {
    out.emplace(flag.name.substr(0, flag.name.find('=')));
  }
  return out;
}

TEST(Profiles, AccountForEveryFlagOfTheListTheyAreMadeAfter) {
  const std::vector<std::pair<const char*, const char*>> pairs = {
      {"wan-train-v5p", flags_test::kReadmeTraining},
      {"wan-train-v6e", flags_test::kReadmeTraining},
      {"wan-train-tpu7x", flags_test::kReadmeTraining},
      {"wan-generate-tpu7x", flags_test::kFastGeneration},
      {"dreamerv3-gpu", flags_test::kDreamerGpu},
      {"dreamerv3-tpu", flags_test::kDreamerTpu}};
  for (const auto& [name, list] : pairs) {
    const std::set<std::string> have = accounted(find_profile(name));
    for (const EnvironmentFlag& flag : read_xla_flags(list).flags) {
      EXPECT_TRUE(have.contains(flag.name)) << flag.name << " in " << name;
    }
  }
}

TEST(Profiles, AnUnknownOneNamesThoseThereAre) {
  EXPECT_THAT([] { find_profile("wan"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("wan-train-v6e")));
}

TEST(FlagsDocs, AreWhatTheTablesHave) {
  std::ifstream in(std::string(KINEMA_SOURCE_DIR) + "/docs/reference/flags.md");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(markdown(), text.str())
      << "regenerate it: build/kinema flags --docs > docs/reference/flags.md";
}

}  // namespace
}  // namespace kinema::flags
