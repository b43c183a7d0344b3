#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/dreamer/agent.h"

namespace kinema::dreamer {
namespace {

struct Size {
  int64_t deter, hidden, classes, depth, units;
};

AgentConfig sized(const Size& size, Spaces observations, Space action) {
  AgentConfig c;
  c.observations = std::move(observations);
  c.actions = {{"action", std::move(action)}};
  c.rssm.deter = size.deter;
  c.rssm.hidden = size.hidden;
  c.rssm.classes = size.classes;
  c.encoder.depth = c.decoder.depth = size.depth;
  c.encoder.units = c.decoder.units = size.units;
  c.reward.units = c.continuation.units = c.policy.units = c.value.units = size.units;
  return c;
}

int64_t elements(const std::vector<nn::ParamSpec>& specs) {
  int64_t n = 0;
  for (const nn::ParamSpec& spec : specs) {
    n += spec.shape.elements();
  }
  return n;
}

Space image(int64_t side, int64_t channels) {
  return {.dtype = DType::U8, .shape = {side, side, channels}};
}

Space choice(int64_t classes) { return {.dtype = DType::S32, .classes = classes}; }

// Counts of the original, https://github.com/danijar/dreamerv3 at e3f02248, whose size blocks these
// are.
TEST(DreamerParameters, AreAsManyAsTheOriginals) {
  struct Expected {
    const char* name;
    Size size;
    int64_t gray, color, vector;
  };
  for (const Expected& e : {
           Expected{"size1m", {512, 64, 4, 4, 64}, 769'762, 687'875, 640'867},
           Expected{"size12m", {2048, 256, 16, 16, 256}, 11'808'850, 10'498'259, 9'738'019},
           Expected{"size50m", {4096, 512, 32, 32, 512}, 46'900'882, 41'658'259, 38'612'003},
           Expected{"size200m", {8192, 1024, 64, 64, 1024}, 186'936'082, 165'965'075, 153'769'507},
           Expected{"size400m", {12288, 1536, 96, 96, 1536}, 420'106'130, 372'920'979, 345'473'059},
       }) {
    SCOPED_TRACE(e.name);
    EXPECT_EQ(elements(parameters(sized(e.size, {{"image", image(96, 1)}}, choice(18)))), e.gray);
    EXPECT_EQ(elements(parameters(sized(e.size, {{"image", image(64, 3)}}, choice(17)))), e.color);
    EXPECT_EQ(elements(parameters(sized(e.size, {{"state", {.shape = {24}}}}, {.shape = {6}}))),
              e.vector);
  }
}

TEST(DreamerParameters, OfTheSlowCriticAreTheCriticsUnderAnotherName) {
  const AgentConfig c = sized({64, 8, 4, 4, 8}, {{"state", {.shape = {3}}}}, choice(2));
  std::vector<nn::ParamSpec> critic;
  for (const nn::ParamSpec& spec : parameters(c)) {
    if (spec.name.starts_with("val/")) {
      critic.push_back(spec);
    }
  }
  const std::vector<nn::ParamSpec> slow = slow_parameters(c);
  ASSERT_EQ(slow.size(), critic.size());
  for (size_t i = 0; i < slow.size(); ++i) {
    EXPECT_EQ(slow[i].name, "slow" + critic[i].name);
    EXPECT_EQ(slow[i].shape, critic[i].shape);
    EXPECT_FALSE(slow[i].trained);
  }
}

TEST(DreamerParameters, OfTheDefaultValueAndRewardHeadsBeginAtZero) {
  const AgentConfig c = sized({64, 8, 4, 4, 8}, {{"state", {.shape = {3}}}}, choice(2));
  std::set<std::string> zeros;
  for (const nn::ParamSpec& spec : parameters(c)) {
    if (spec.name.ends_with("/kernel") && spec.init.kind == nn::Init::Kind::ZEROS) {
      zeros.insert(spec.name);
    }
  }
  EXPECT_EQ(zeros, (std::set<std::string>{"rew/head/logits/kernel", "val/head/logits/kernel"}));
}

TEST(DreamerConfig, SaysWhatDoesNotFit) {
  const auto message = [](const AgentConfig& c) {
    try {
      validate(c);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  AgentConfig c = sized({64, 8, 4, 4, 8}, {{"image", image(64, 3)}}, choice(2));
  EXPECT_EQ(message(c), "");
  c.rssm.blocks = 7;
  EXPECT_NE(message(c).find("deter is 64"), std::string::npos);
  c.rssm.blocks = 8;
  c.observations[0].second.shape = {60, 64, 3};
  EXPECT_NE(message(c).find("multiples of 16"), std::string::npos);
  c.observations[0].second = {.shape = {64, 64, 3}};
  EXPECT_NE(message(c).find("must be u8"), std::string::npos);
}

}  // namespace
}  // namespace kinema::dreamer
