#include "kinema/agents/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kinema/agents/compiler_flags.h"
#include "kinema/core/error.h"
#include "kinema/models/dreamer/agent.h"
#include "kinema/models/dreamer/config_file.h"

namespace kinema::agents {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const fs::path kFile = fs::path(KINEMA_SOURCE_DIR) / "configs/dreamer.yml";

Settings with(const std::vector<std::string>& words) { return Settings::read(kFile, words); }

TEST(AgentSettings, DefaultsAreTheOriginals) {
  const Settings s = with({});
  EXPECT_EQ(s.number("agent.opt.lr"), 4e-5);
  EXPECT_EQ(s.number("agent.opt.eps"), 1e-20);
  EXPECT_EQ(s.whole("run.steps"), 10'000'000'000);
  EXPECT_EQ(s.whole("replay.size"), 5'000'000);
  EXPECT_EQ(s.whole("agent.dyn.rssm.deter"), 8192);
  EXPECT_THAT(s.wholes("agent.enc.simple.mults"), ElementsAre(2, 3, 4, 4));
  EXPECT_EQ(s.text("jax.compute_dtype"), "bfloat16");
  EXPECT_THAT(s.notices(), IsEmpty());
}

TEST(AgentSettings, WordsOverridePresetsOverrideDefaults) {
  const Settings s = with({"run.train_ratio=7", "preset=atari100k,size1m", "agent.opt.lr=1e-4"});
  EXPECT_EQ(s.text("task"), "atari100k_pong");
  EXPECT_EQ(s.whole("run.envs"), 1);
  EXPECT_EQ(s.number("run.train_ratio"), 7.0);
  EXPECT_EQ(s.number("agent.opt.lr"), 1e-4);
  EXPECT_EQ(s.whole("agent.dyn.rssm.deter"), 512);
  EXPECT_EQ(s.whole("agent.policy.units"), 64);
  EXPECT_EQ(s.whole("agent.dec.simple.depth"), 4);
  // Presets apply in their order.
  EXPECT_EQ(with({"preset=size12m,size1m"}).whole("agent.dyn.rssm.hidden"), 64);
  EXPECT_EQ(with({"preset=size1m,size12m"}).whole("agent.dyn.rssm.hidden"), 256);
}

TEST(AgentSettings, ATaskHasItsPresetUnlessOneIsGiven) {
  EXPECT_EQ(with({"task=native_catch"}).whole("agent.imag_length"), 6);
  EXPECT_EQ(with({"task=native_catch", "preset=size1m"}).whole("agent.imag_length"), 15);
  EXPECT_EQ(with({"task=native_pendulum"}).whole("agent.imag_length"), 15);
}

TEST(AgentSettings, PatternsAndLastPartsStandForKeys) {
  const Settings s = with({"*.units=12", R"(.*\.rssm.deter=16)", "envs=3", "hardware=gpu"});
  EXPECT_EQ(s.whole("agent.value.units"), 12);
  EXPECT_EQ(s.whole("agent.enc.simple.units"), 12);
  EXPECT_EQ(s.whole("agent.dyn.rssm.deter"), 16);
  EXPECT_EQ(s.whole("run.envs"), 3);
  EXPECT_EQ(s.text("jax.platform"), "gpu");
  EXPECT_THAT([] { with({"units=4"}); }, ThrowsMessage<Error>(HasSubstr("give the whole key")));
}

TEST(AgentSettings, UnknownKeysAreErrorsWithTheNearest) {
  EXPECT_THAT([] { with({"agent.opt.lrr=1"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no key `agent.opt.lrr`"),
                                         HasSubstr("nearest one is `agent.opt.lr`"))));
  EXPECT_THAT([] { with({"train_ration=1"}); },
              ThrowsMessage<Error>(HasSubstr("nearest one is `run.train_ratio`")));
  EXPECT_THAT([] { with({"*.unitz=1"}); }, ThrowsMessage<Error>(HasSubstr("no key")));
  EXPECT_THAT([] { with({"preset=size2m"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no preset `size2m`"), HasSubstr("size12m"))));
  EXPECT_THAT([] { with({"task"}); }, ThrowsMessage<Error>(HasSubstr("not key=value")));
}

TEST(AgentSettings, ValuesHaveTheTypeOfTheirDefault) {
  EXPECT_EQ(with({"run.envs=1e1"}).whole("run.envs"), 10);
  EXPECT_EQ(with({"agent.opt.wd=1"}).number("agent.opt.wd"), 1.0);
  EXPECT_EQ(with({"run_name=7"}).text("run_name"), "7");
  EXPECT_THAT(with({"agent.enc.simple.mults=4"}).wholes("agent.enc.simple.mults"), ElementsAre(4));
  for (const char* wrong : {"run.envs=1.5", "run.envs=many", "random_agent=1", "agent.opt.lr=fast",
                            "agent.enc.simple.mults=[1, x]", "task=[a]"}) {
    EXPECT_THAT([&] { with({wrong}); }, ThrowsMessage<Error>(HasSubstr("must be"))) << wrong;
  }
}

TEST(AgentSettings, TheirFileReadsBackAsTheSame) {
  const Settings s = with(
      {"preset=debug", "replay.prio.initial=3", "run_name=it's \"q\" {x}", "agent.opt.eps=1e-20"});
  const fs::path file = fs::path(::testing::TempDir()) / "settings.yaml";
  std::ofstream(file) << s.yaml();
  const Settings read = Settings::read(file);
  EXPECT_EQ(read.yaml(), s.yaml());
  EXPECT_EQ(read.text("run_name"), "it's \"q\" {x}");
  EXPECT_EQ(read.number("run.save_every"), 15.0);
}

TEST(AgentSettings, KeysWithoutEffectAreNamed) {
  EXPECT_THAT(with({"run.debug=false"}).notices(), ElementsAre(HasSubstr("`run.debug` has no")));
  EXPECT_THAT([] { (void)with({"replay.fracs.priority=0.5"}).notices(); },
              ThrowsMessage<Error>(HasSubstr("no priorities")));
}

// Section "Sizes" of the documents of the original: trained parameters for 64 x 64 x 3 pixels with
// 17 actions, and for a vector of 24 numbers with 6 continuous actions.
TEST(AgentSettings, SizesHaveTheOriginalsNumbersOfParameters) {
  const auto count = [](const std::string& size, const char* spaces) {
    io::Json json = io::Json::parse(spaces, "spaces");
    json.set("agent", with({"preset=" + size}).tree("agent"));
    int64_t all = 0;
    for (const nn::ParamSpec& spec : dreamer::parameters(dreamer::parse_config(json))) {
      all += spec.shape.elements();
    }
    return all;
  };
  const char* image = R"({"obs_space": {"image": {"dtype": "uint8", "shape": [64, 64, 3]}},
    "act_space": {"action": {"dtype": "int32", "shape": [], "classes": 17}}})";
  const char* vector = R"({"obs_space": {"state": {"dtype": "float32", "shape": [24]}},
    "act_space": {"action": {"dtype": "float32", "shape": [6]}}})";
  EXPECT_EQ(count("size1m", image), 687'875);
  EXPECT_EQ(count("size12m", image), 10'498'259);
  EXPECT_EQ(count("size25m", image), 23'495'475);
  EXPECT_EQ(count("size50m", image), 41'658'259);
  EXPECT_EQ(count("size100m", image), 93'480'531);
  EXPECT_EQ(count("size200m", image), 165'965'075);
  EXPECT_EQ(count("size400m", image), 372'920'979);
  EXPECT_EQ(count("size1m", vector), 640'867);
  EXPECT_EQ(count("size400m", vector), 345'473'059);
}

TEST(AgentFlags, ProfilesApplyOnTheirPlatforms) {
  const auto flags = [](const std::vector<std::string>& words, flags::Backend backend) {
    return compiler_flags(with(words), {.backend = backend, .chip = "", .version = ""});
  };
  const CompilerFlags gpu = flags({}, flags::Backend::GPU);
  EXPECT_EQ(gpu.options.at("xla_gpu_enable_triton_gemm"), pjrt::FlagValue(false));
  EXPECT_THAT(gpu.line, HasSubstr("dreamerv3-gpu; jax.gpuflags=false"));
  const CompilerFlags tpu = flags({}, flags::Backend::TPU);
  EXPECT_TRUE(tpu.options.contains("xla_tpu_enable_ag_backward_pipelining"));
  EXPECT_THAT(tpu.line, HasSubstr("dreamerv3-tpu; jax.tpuflags=false"));
  for (const auto backend : {flags::Backend::GPU, flags::Backend::TPU, flags::Backend::CPU}) {
    const CompilerFlags none = flags({"jax.gpuflags=false", "jax.tpuflags=false"}, backend);
    EXPECT_THAT(none.options, IsEmpty());
    EXPECT_EQ(none.line, "");
  }
  EXPECT_EQ(
      flags({"jax.debug=true"}, flags::Backend::CPU).options.at("xla_backend_optimization_level"),
      pjrt::FlagValue(int64_t{0}));
  EXPECT_THAT(
      [&] {
        const std::vector<std::string> words{"xla_gpu_graph_level=0"};
        (void)compiler_flags(with({}), {.backend = flags::Backend::GPU, .chip = "", .version = ""},
                             words);
      },
      ThrowsMessage<Error>(HasSubstr("[flags]")));
}

}  // namespace
}  // namespace kinema::agents
