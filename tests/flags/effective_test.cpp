#include "kinema/flags/effective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "flags/lists.h"
#include "kinema/flags/profile.h"

namespace kinema::flags {
namespace {

using flags_test::errors;
using flags_test::finding;
using flags_test::ids;
using flags_test::in_xla_flags;
using flags_test::on_tpu;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kVmem = "xla_tpu_scoped_vmem_limit_kib";

TEST(Effective, TheLaterLayerWinsAndOriginsAreKept) {
  Request request = on_tpu("v6e", "--xla_tpu_scoped_vmem_limit_kib=1");
  EXPECT_EQ(resolve(on_tpu("v6e", "")).settings.at(kVmem).top().origin, "default");
  EXPECT_EQ(resolve(request).settings.at(kVmem).top().origin, "LIBTPU_INIT_ARGS");
  request.given = given_flags(find_profile("wan-train-v6e"));
  EXPECT_EQ(resolve(request).settings.at(kVmem).top().origin, "profile wan-train-v6e");
  request.given.push_back({kVmem, "2", "wan.yml:3"});
  request.given.push_back({kVmem, "3", "command line"});
  const Effective effective = resolve(request);
  const Setting& setting = effective.settings.at(kVmem);
  ASSERT_EQ(setting.layers.size(), 5U);
  EXPECT_EQ(setting.top().value, "3");
  EXPECT_EQ(setting.layers[3].origin, "wan.yml:3");
}

TEST(Effective, OnlyFlagsThatKinemaSetsReachTheCompiler) {
  Request request = on_tpu("v6e", "--xla_enable_async_all_gather=true");
  request.given = {{kVmem, "65536", "wan.yml:3"},
                   {"xla_enable_async_all_reduce", "true", "wan.yml:3"},
                   {"xla_tpu_megacore_fusion_allow_ags", "true", "wan.yml:3"}};
  EXPECT_THAT(resolve(request).options(),
              ElementsAre(Pair("xla_enable_async_all_reduce", Value("ENABLED")),
                          Pair("xla_tpu_megacore_fusion_allow_ags", Value(true)),
                          Pair(kVmem, Value(int64_t{65536}))));
}

TEST(Effective, WordsOfAnEnumerationAreSpelledAsOptionsWantThem) {
  Request request = in_xla_flags("h100", "");
  request.given = {{"xla_gpu_detect_nan", "fail", "wan.yml:3"},
                   {"xla_gpu_pipeline_all_gather", "on", "wan.yml:3"},
                   {"xla_gpu_enable_command_buffer", "fusion,cublas", "wan.yml:3"}};
  EXPECT_THAT(
      resolve(request).options(),
      ElementsAre(Pair("xla_gpu_detect_nan", Value("DETECTION_MODE_FAIL")),
                  Pair("xla_gpu_enable_command_buffer", Value("FUSION,CUBLAS")),
                  Pair("xla_gpu_pipeline_all_gather", Value("COLLECTIVE_PIPELINING_MODE_ON"))));
}

struct Spelling {
  const char* list;
  const char* value;  // of xla_tpu_enable_async_all_to_all; empty: an error
};

class LibtpuSwitch : public ::testing::TestWithParam<Spelling> {};

// Tried with libtpu 0.0.51, which accepted it or ended its process.
INSTANTIATE_TEST_SUITE_P(Spellings, LibtpuSwitch,
                         ::testing::Values(Spelling{"--xla_tpu_enable_async_all_to_all", "true"},
                                           Spelling{"-xla_tpu_enable_async_all_to_all=yes", "true"},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=T", "true"},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=1", "true"},
                                           Spelling{"--noxla_tpu_enable_async_all_to_all", "false"},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=n", "false"},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=on", ""},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=2", ""},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=ENABLED",
                                                    ""},
                                           Spelling{"--xla_tpu_enable_async_all_to_all=", ""}));

TEST_P(LibtpuSwitch, IsReadAsLibtpuReadsIt) {
  const Effective effective = resolve(on_tpu("v6e", GetParam().list));
  if (*GetParam().value == '\0') {
    EXPECT_THAT(errors(effective), ElementsAre("bad-value"));
  } else {
    EXPECT_THAT(errors(effective), IsEmpty());
    EXPECT_EQ(effective.value("xla_tpu_enable_async_all_to_all"), GetParam().value);
  }
}

class XlaSwitch : public ::testing::TestWithParam<Spelling> {};

// Tried with the CPU plugin 0.0.1.
INSTANTIATE_TEST_SUITE_P(Spellings, XlaSwitch,
                         ::testing::Values(Spelling{"--xla_cpu_enable_fast_math", "true"},
                                           Spelling{"--xla_cpu_enable_fast_math=TRUE", "true"},
                                           Spelling{"--xla_cpu_enable_fast_math=0", "false"},
                                           Spelling{"--xla_cpu_enable_fast_math=yes", ""},
                                           Spelling{"--xla_cpu_enable_fast_math=", ""},
                                           Spelling{"--xla_cpu_enable_fast_math=2", ""}));

TEST_P(XlaSwitch, IsReadAsXlaReadsIt) {
  const Effective effective = resolve(in_xla_flags("cpu", GetParam().list));
  if (*GetParam().value == '\0') {
    EXPECT_THAT(errors(effective), ElementsAre("bad-value"));
  } else {
    EXPECT_THAT(errors(effective), IsEmpty());
    EXPECT_EQ(effective.value("xla_cpu_enable_fast_math"), GetParam().value);
  }
}

TEST(LibtpuInitArgs, AValueMayBeTheNextWord) {
  EXPECT_EQ(resolve(on_tpu("v6e", "--xla_tpu_scoped_vmem_limit_kib 65536")).value(kVmem), "65536");
}

TEST(LibtpuInitArgs, TristatesTakeWordsOnly) {
  for (const char* value : {"true", "ENABLED", "auto", "Disabled"}) {
    EXPECT_THAT(
        errors(resolve(on_tpu("v6e", std::string("--xla_enable_async_all_gather=") + value))),
        IsEmpty())
        << value;
  }
  for (const char* value : {"1", "yes", ""}) {
    EXPECT_THAT(
        errors(resolve(on_tpu("v6e", std::string("--xla_enable_async_all_gather=") + value))),
        ElementsAre("bad-value"))
        << value;
  }
}

TEST(LibtpuInitArgs, WordsWithoutDashesAreReported) {
  const Effective effective =
      resolve(on_tpu("v6e", "xla_tpu_scoped_vmem_limit_kib=65536 --xla_tpu_dvfs_p_state=7"));
  EXPECT_THAT(errors(effective), ElementsAre("no-dashes"));
  EXPECT_EQ(effective.value(kVmem), "-1") << "libtpu leaves it out";
  EXPECT_THAT(finding(effective, "no-dashes").remedy, HasSubstr("--xla_tpu_scoped"));
}

TEST(LibtpuInitArgs, DoubledQuotesLoseEveryFlag) {
  const Effective effective = resolve(on_tpu("v6e", "\"--xla_tpu_scoped_vmem_limit_kib=65536\""));
  EXPECT_THAT(errors(effective), ElementsAre("quoted-flags"));
}

TEST(LibtpuInitArgs, BackslashesOfContinuedLinesAreHarmless) {
  const Effective effective =
      resolve(on_tpu("v6e", "--xla_tpu_scoped_vmem_limit_kib=65536 \\\n--xla_tpu_dvfs_p_state=-1"));
  EXPECT_THAT(errors(effective), IsEmpty());
  EXPECT_EQ(effective.value(kVmem), "65536");
}

TEST(LibtpuInitArgs, TheLastOfTwoCountsAndIsReported) {
  const Effective effective =
      resolve(on_tpu("v6e", "--xla_tpu_scoped_vmem_limit_kib=1 --xla_tpu_scoped_vmem_limit_kib=2"));
  EXPECT_EQ(effective.value(kVmem), "2");
  EXPECT_THAT(ids(effective, Severity::WARNING), ElementsAre("duplicate-flag"));
}

TEST(LibtpuInitArgs, AnUnknownNameIsAnErrorWithTheNearest) {
  const Effective effective = resolve(on_tpu("v6e", "--xla_tpu_scoped_vmem_limit=65536"));
  EXPECT_THAT(errors(effective), ElementsAre("unknown-flag"));
  EXPECT_THAT(finding(effective, "unknown-flag").remedy, HasSubstr(kVmem));
  const Effective far = resolve(on_tpu("v6e", "--what_is_this=1"));
  EXPECT_THAT(finding(far, "unknown-flag").remedy, Not(HasSubstr("nearest")));
  EXPECT_THAT(errors(resolve(on_tpu("v6e", "--undefok=xla_a,xla_b --xla_a=1"))), IsEmpty());
}

TEST(LibtpuInitArgs, FlagsOfXlaAreUnknownThere) {
  EXPECT_THAT(errors(resolve(on_tpu("v6e", "--xla_disable_hlo_passes=rematerialization"))),
              ElementsAre("wrong-variable"));
}

TEST(LibtpuInitArgs, AreNotReadForAnotherPlugin) {
  Request request = in_xla_flags("h100", "");
  request.libtpu_init_args = "--nonsense";
  EXPECT_THAT(errors(resolve(request)), IsEmpty());
  EXPECT_THAT(ids(resolve(request), Severity::NOTE), ElementsAre("unread-variable"));
}

TEST(XlaFlags, UnknownNamesAndValuesAreErrorsOnEveryPlatform) {
  for (const char* target : {"cpu", "h100", "v6e"}) {
    EXPECT_THAT(errors(resolve(in_xla_flags(target, "--nope=1"))), ElementsAre("unknown-flag"));
    EXPECT_THAT(errors(resolve(in_xla_flags(target, "--xla_gpu_autotune_level=high"))),
                ElementsAre("bad-value"));
    EXPECT_THAT(errors(resolve(in_xla_flags(target, "--xla_tpu_enable_async_all_to_all=true"))),
                ElementsAre("wrong-variable"));
    EXPECT_THAT(errors(resolve(in_xla_flags(target, "--xla_tpu_never_heard_of=true"))),
                ElementsAre("wrong-variable"));
  }
  EXPECT_THAT(errors(resolve(in_xla_flags("cpu", "--xla_tpu_detect_nan=true"))), IsEmpty())
      << "the one flag of TPU that XLA has too";
}

TEST(XlaFlags, TextWithoutDashesIsAFilesName) {
  EXPECT_THAT(errors(resolve(in_xla_flags("cpu", "xla_cpu_enable_fast_math=true"))),
              ElementsAre("no-dashes"));
  EXPECT_THAT(errors(resolve(in_xla_flags("cpu", "'--xla_cpu_enable_fast_math=true'"))),
              ElementsAre("quoted-flags"));
  EXPECT_THAT(errors(resolve(in_xla_flags("cpu", "/not/there"))), ElementsAre("flags-file"));
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / "kinema_flags_file";
  std::ofstream(file) << "--xla_cpu_enable_fast_math=true\n--nope=1\n";
  const Effective effective = resolve(in_xla_flags("cpu", file.string()));
  EXPECT_EQ(effective.value("xla_cpu_enable_fast_math"), "true");
  EXPECT_THAT(errors(effective), ElementsAre("unknown-flag"));
  std::filesystem::remove(file);
}

TEST(XlaFlags, OneDashIsUnknownThere) {
  EXPECT_THAT(errors(resolve(in_xla_flags("cpu", "-xla_cpu_enable_fast_math=true"))),
              ElementsAre("unknown-flag"));
}

TEST(XlaFlags, ValuesMayStandInQuotes) {
  const Effective effective =
      resolve(in_xla_flags("cpu", R"(--xla_disable_hlo_passes="a b" --xla_dump_to='x')"));
  EXPECT_THAT(errors(effective), IsEmpty());
  EXPECT_EQ(effective.value("xla_disable_hlo_passes"), "a b");
  EXPECT_EQ(effective.value("xla_dump_to"), "x");
}

TEST(XlaFlags, EmptyTextIsNoFlags) {
  for (const char* text : {"", " ", "\n\t"}) {
    EXPECT_THAT(resolve(in_xla_flags("cpu", text)).findings, IsEmpty());
  }
}

TEST(Options, AreCheckedAsTheEnvironmentIs) {
  const auto with = [](const char* target, const char* name, const char* value) {
    Request request = in_xla_flags(target, "");
    request.given = {{name, value, "wan.yml:3"}};
    return errors(resolve(request));
  };
  EXPECT_THAT(with("v6e", "xla_enable_async_all_gather", "maybe"), ElementsAre("bad-value"));
  EXPECT_THAT(with("v6e", "xla_nope", "1"), ElementsAre("unknown-flag"));
  EXPECT_THAT(with("h100", kVmem, "1"), ElementsAre("wrong-backend"));
  EXPECT_THAT(with("h100", "xla_gpu_graph_level", "0"), ElementsAre("removed-flag"));
  EXPECT_THAT(with("h100", "xla_gpu_enable_pipelined_all_reduce", "true"),
              ElementsAre("removed-flag"));
  EXPECT_THAT(with("cpu", "xla_gpu_enable_pipelined_all_reduce", "true"), IsEmpty());
  EXPECT_THAT(with("v6e", "xla_jf_dump_llo_html", "true"), ElementsAre("wrong-variable"));
}

/// A fake plugin that knows only the given names and accepts any value.
Probe plugin_with(std::vector<std::string> names, int* asked) {
  return [names = std::move(names), asked](const ProbeRequest& request) -> ProbeAnswer {
    ++*asked;
    const std::string list = request.libtpu_init_args + request.xla_flags;
    std::string name = list.substr(0, list.find('='));
    name.erase(0, name.find_first_not_of('-'));
    if (!request.options.empty()) {
      name = request.options.begin()->first;
    }
    return std::ranges::count(names, name) > 0
               ? ProbeAnswer{}
               : parse_probe_answer("No such compile option: '" + name + "'");
  };
}

TEST(Probe, IsAskedAboutNamesThatTheTableLacks) {
  int asked = 0;
  Request request = on_tpu("v6e", "--xla_new=1 --xla_enable_async_all_gather=true");
  request.probe = plugin_with({"xla_new"}, &asked);
  EXPECT_THAT(errors(resolve(request)), IsEmpty());
  EXPECT_EQ(asked, 1) << "the other flag is in the table";
  EXPECT_THAT(ids(resolve(request), Severity::NOTE), Contains("not-in-table"));
  request.libtpu_init_args = "--xla_newer=1";
  EXPECT_THAT(errors(resolve(request)), ElementsAre("unknown-flag"));
}

TEST(Probe, IsAskedAboutEveryGivenFlagOfAVersionThatTheTableLacks) {
  int asked = 0;
  Request request = on_tpu("v6e", "--xla_enable_async_all_gather=true", "0.0.99");
  request.given = {{"xla_gpu_graph_level", "0", "wan.yml:3"}};
  request.probe = plugin_with({"xla_gpu_graph_level"}, &asked);
  EXPECT_THAT(errors(resolve(request)), ElementsAre("unknown-flag"));
  EXPECT_EQ(asked, 2);
}

TEST(Probe, ReadsACompilersMessages) {
  using Kind = ProbeAnswer::Kind;
  EXPECT_EQ(parse_probe_answer("").kind, Kind::OK);
  EXPECT_EQ(parse_probe_answer("invalid argument: No such compile option: 'x'").kind,
            Kind::UNKNOWN);
  EXPECT_EQ(parse_probe_answer("Unknown flags in XLA_FLAGS: --x=1").kind, Kind::UNKNOWN);
  EXPECT_EQ(parse_probe_answer("ERROR: Unknown command line flag 'x'").kind, Kind::UNKNOWN);
  EXPECT_EQ(parse_probe_answer("Failed to parse 'abc' into flag x").kind, Kind::BAD_VALUE);
  EXPECT_EQ(parse_probe_answer("While setting option x, 'f' is not a valid bool value.").kind,
            Kind::BAD_VALUE);
  EXPECT_EQ(parse_probe_answer("failed precondition: Continuation fusion").kind, Kind::REFUSED);
}

TEST(Effective, IsWrittenWithOrigins) {
  const Effective effective = resolve(on_tpu("v6e", "--xla_tpu_scoped_vmem_limit_kib=65536"));
  const io::Json json = to_json(effective);
  EXPECT_EQ(json.at("flags").at(kVmem).at("origin").as_string(), "LIBTPU_INIT_ARGS");
  EXPECT_EQ(json.at("platform").as_string(), "libtpu 0.0.52 on v6e");
  EXPECT_THAT(to_text(effective, false), HasSubstr("xla_tpu_scoped_vmem_limit_kib=65536"));
  EXPECT_THAT(to_text(effective, true), HasSubstr("default of libtpu 0.0.52"));
}

}  // namespace
}  // namespace kinema::flags
