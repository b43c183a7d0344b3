#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/models/clip/text.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/folder.h"
#include "models/text_reference.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::clip {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// One text model of the reference set, run on the ids of its case.
class Subject {
 public:
  using Values = std::map<std::string, HostArray>;

  explicit Subject(const std::string& folder)
      : files_(io::ModelFolder::open(io::golden(folder))),
        config(weights::parse_clip_text_config(files_.config())) {}

  Values run(const HostArray& ids, const TextOptions& options, int64_t hidden_layer = -2) const {
    const std::string prefix = weights::clip_text_prefix(files_);
    const auto specs = text_parameters(config, prefix, options);
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : specs) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    const HostArray rows = weights::embedding_rows(weights::clip_text_embedding(files_),
                                                   ids.shape.dims, ids.as<int64_t>());
    std::vector<std::string> names{"hidden", "last_hidden_state", "pooled"};
    TextInputs inputs{.embeddings = graph.input(rows.shape),
                      .ids = graph.input(ids.shape),
                      .hidden_layer = hidden_layer};
    std::vector<Tensor> taps;
    inputs.tap = [&](const std::string& name, Tensor value) {
      names.push_back("tap." + name);
      taps.push_back(value);
    };
    const TextOutputs out = text_states(params, config, prefix, options, inputs);
    std::vector<Tensor> outputs{out.hidden, out.last, out.pooled};
    outputs.insert(outputs.end(), taps.begin(), taps.end());
    if (config.projection_dim > 0) {
      names.emplace_back("text_embeds");
      outputs.push_back(out.text_embeds);
    }
    const pjrt::Client client = pjrt::cpu_client();
    const auto program = runtime::Program::compile(client, graph, outputs);
    std::vector<pjrt::Buffer> buffers = weights::load_tensors(files_, specs, client);
    buffers.push_back(client.to_device(rows));
    buffers.push_back(client.to_device(ids));
    Values values;
    const auto results = program.run(std::span<const pjrt::Buffer>(buffers));
    for (size_t i = 0; i < results.size(); ++i) {
      values.emplace(names[i], results[i].to_host());
    }
    return values;
  }

 private:
  io::ModelFolder files_;

 public:
  TextConfig config;
};

struct Case {
  const char* name;
  const char* folder;
};

class Reference : public ::testing::TestWithParam<Case> {
 protected:
  io::SafetensorsFile file_ =
      io::SafetensorsFile::open(io::golden("io/" + std::string(GetParam().name) + ".safetensors"));
  HostArray ids_ = file_.at("ids").copy();
  Subject subject_{GetParam().folder};

  HostArray want(const std::string& name) const {
    return file_.at(name == "hidden" ? "penultimate" : name).copy();
  }
};
INSTANTIATE_TEST_SUITE_P(Cases, Reference,
                         ::testing::Values(Case{"flux_clip", "flux_dev/text_encoder"},
                                           Case{"sdxl_clip2", "sdxl/text_encoder_2"}));

// The reference's float64 and float32 runs differ by 3.4e-7.
constexpr double kLimit = 2e-6;

TEST_P(Reference, EveryValueIsTheReferencesInBothForms) {
  for (const bool scan : {false, true}) {
    const auto values = subject_.run(ids_, {.precision = Precision::HIGHEST, .scan_layers = scan});
    size_t taps = 0;
    for (const auto& [name, value] : values) {
      // The case has no pooled state of the model with a projection.
      if (file_.find(name == "hidden" ? "penultimate" : name) != nullptr) {
        EXPECT_LT(text_difference(value, want(name)), kLimit) << name << " scan " << scan;
      }
      taps += name.starts_with("tap.") ? 1 : 0;
    }
    EXPECT_EQ(taps, scan ? 2U : 2U + static_cast<size_t>(subject_.config.num_hidden_layers));
  }
}

TEST_P(Reference, AnyLayerIsCountedFromTheEnd) {
  const int64_t layers = subject_.config.num_hidden_layers;
  const auto difference = [&](int64_t layer, const std::string& name) {
    const auto values = subject_.run(ids_, {.precision = Precision::HIGHEST}, layer);
    return text_difference(values.at("hidden"), want(name));
  };
  EXPECT_LT(difference(-1, "tap.layer" + std::to_string(layers - 1)), kLimit);
  EXPECT_LT(difference(-1 - layers, "tap.embeddings"), kLimit);
}

TEST_P(Reference, MistakesAreSeen) {
  const auto difference = [&](const auto& change, const std::string& name) {
    Subject wrong(GetParam().folder);
    change(wrong.config);
    return text_difference(wrong.run(ids_, {.precision = Precision::HIGHEST}).at(name), want(name));
  };
  // The case's own limit: 1e-4 of the largest value.
  EXPECT_GT(difference(
                [](TextConfig& c) {
                  c.hidden_act =
                      c.hidden_act == Activation::GELU ? Activation::QUICK_GELU : Activation::GELU;
                },
                "last_hidden_state"),
            1e-3);
  EXPECT_GT(difference([](TextConfig& c) { c.layer_norm_eps = 1e-6; }, "last_hidden_state"), 1e-4);
  const std::string pooled = subject_.config.projection_dim > 0 ? "text_embeds" : "pooled";
  EXPECT_LT(difference([](TextConfig& c) { c.eos_token_id = 609; }, pooled), kLimit);
  EXPECT_GT(difference([](TextConfig& c) { c.eos_token_id = 608; }, pooled), 1e-2);
}

TEST_P(Reference, Bf16IsNear) {
  const auto values = subject_.run(ids_, {.dtype = DType::BF16});
  for (const char* name : {"hidden", "last_hidden_state"}) {
    const double off = text_difference(convert(values.at(name), DType::F32), want(name));
    // A bf16 number has a relative error of 2^-9, and a few of them are added.
    EXPECT_LT(off, 4e-2) << name;
    EXPECT_GT(off, 1e-4) << name;
  }
}

TextConfig tiny() {
  return {.vocab_size = 20,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 3,
          .num_attention_heads = 2,
          .max_position_embeddings = 7,
          .projection_dim = 5};
}

TEST(ClipText, ThePooledRowIsThatOfTheFirstLargestIdOrOfTheEndToken) {
  // [END 9, ...]: the largest is 9 at 2 and 4; 5 is at 1 first.
  const HostArray ids =
      HostArray::from<int64_t>(DType::S64, {1, 6}, std::vector<int64_t>{1, 5, 9, 5, 9, 0});
  const auto row = [&](int64_t eos) {
    Subject subject("flux_dev/text_encoder");
    subject.config.eos_token_id = eos;
    const auto values = subject.run(ids, {});
    const auto pooled = values.at("pooled").as<float>();
    const auto last = values.at("last_hidden_state").as<float>();
    for (size_t i = 0; i < 6; ++i) {
      if (std::ranges::equal(pooled, last.subspan(i * pooled.size(), pooled.size()))) {
        return static_cast<int>(i);
      }
    }
    return -1;
  };
  EXPECT_EQ(row(2), 2);
  EXPECT_EQ(row(9), 2);
  EXPECT_EQ(row(5), 1);
  EXPECT_EQ(row(7), 0) << "nowhere";
}

TEST(ClipText, PublishedSizesHaveTheirParameters) {
  const auto count = [](const TextConfig& config) {
    int64_t n = token_embedding(config, "text_model").shape.elements();
    for (const nn::ParamSpec& spec : text_parameters(config, "text_model", {})) {
      n += spec.shape.elements();
    }
    return n;
  };
  EXPECT_EQ(count({}), 123060480);
  EXPECT_EQ(count({.hidden_size = 1280,
                   .intermediate_size = 5120,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 20,
                   .hidden_act = Activation::GELU,
                   .projection_dim = 1280}),
            694659840);
}

TEST(ClipText, BothFormsNameTheSameTensors) {
  std::vector<std::string> scanned;
  std::vector<std::string> unrolled;
  for (const nn::ParamSpec& spec : text_parameters(tiny(), "", {})) {
    for (int64_t i = 0; i < spec.count(); ++i) {
      scanned.push_back(spec.key(i));
    }
  }
  for (const nn::ParamSpec& spec : text_parameters(tiny(), "", {.scan_layers = false})) {
    unrolled.push_back(spec.name);
  }
  EXPECT_THAT(scanned, ::testing::UnorderedElementsAreArray(unrolled));
  EXPECT_THAT(unrolled, ::testing::Contains("text_projection.weight"));
  EXPECT_THAT(unrolled, ::testing::Contains("encoder.layers.2.mlp.fc2.bias"));
}

TEST(ClipText, InvalidSizesAreRefused) {
  const auto with = [](const auto& change) {
    TextConfig config = tiny();
    change(config);
    return [config] { text_parameters(config, "", {}); };
  };
  EXPECT_THAT(with([](TextConfig& c) { c.num_hidden_layers = int64_t{1} << 60; }),
              ThrowsMessage<Error>(HasSubstr("`num_hidden_layers`")));
  EXPECT_THAT(with([](TextConfig& c) { c.num_attention_heads = 3; }),
              ThrowsMessage<Error>(HasSubstr("multiple of `num_attention_heads`")));
  EXPECT_THAT(with([](TextConfig& c) { c.projection_dim = -1; }),
              ThrowsMessage<Error>(HasSubstr("`projection_dim`")));

  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : text_parameters(tiny(), "", {})) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  const auto states = [&](Dims rows, Dims ids, int64_t layer) {
    text_states(params, tiny(), "", {},
                {.embeddings = graph.input({DType::F32, std::move(rows)}),
                 .ids = graph.input({DType::S64, std::move(ids)}),
                 .hidden_layer = layer});
  };
  EXPECT_NO_THROW(states({1, 7, 8}, {1, 7}, -4));
  EXPECT_THAT(
      [&] {
        states({1, 8, 8}, {1, 8}, -1);
      },
      ThrowsMessage<Error>(HasSubstr("with t of at most 7")));
  EXPECT_THAT(
      [&] {
        states({1, 7, 8}, {1, 6}, -1);
      },
      ThrowsMessage<Error>(HasSubstr("ids is s64[1,6] but must be [1, 7]")));
  EXPECT_THAT(
      [&] {
        states({1, 7, 8}, {1, 7}, -5);
      },
      ThrowsMessage<Error>(HasSubstr("layer -5 were requested, of 3 layers")));
  EXPECT_THAT(
      [&] {
        states({1, 7, 8}, {1, 7}, 0);
      },
      ThrowsMessage<Error>(HasSubstr("expected -4 to -1")));
}

}  // namespace
}  // namespace kinema::clip
