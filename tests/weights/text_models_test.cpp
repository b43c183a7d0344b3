#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/networks/check_path.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/t5.h"

// Configurations and tensors of text encoders.
namespace kinema::weights {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kClip = "flux_dev/text_encoder";
constexpr const char* kClip2 = "sdxl/text_encoder_2";
constexpr const char* kT5 = "flux_dev/text_encoder_2";

io::Json config_of(const std::string& folder) {
  return io::Json::read(io::golden(folder) / "config.json");
}

io::Json with(const std::string& folder, const char* key, io::Json value) {
  io::Json config = config_of(folder);
  config.set(key, std::move(value));
  return io::Json::parse(config.dump(), "config.json");
}

io::Json without(const std::string& folder, const std::string& key) {
  io::Json out = io::Json::object();
  const io::Json config = config_of(folder);
  for (const auto& [name, value] : config.members()) {
    if (name != key) {
      out.set(name, value);
    }
  }
  return io::Json::parse(out.dump(), "config.json");
}

TEST(ClipTextConfig, IsReadOfBothEncoders) {
  const clip::TextConfig first = parse_clip_text_config(config_of(kClip));
  EXPECT_EQ(first.hidden_act, clip::Activation::QUICK_GELU);
  EXPECT_EQ(first.eos_token_id, 2);
  EXPECT_EQ(first.projection_dim, 0) << "the key is there, the projection is not";
  const clip::TextConfig second = parse_clip_text_config(config_of(kClip2));
  EXPECT_EQ(second.hidden_act, clip::Activation::GELU);
  EXPECT_EQ(second.projection_dim, 12);
  EXPECT_EQ(second.num_hidden_layers, 3);
  EXPECT_TRUE(is_clip_text(config_of(kClip)));
  EXPECT_FALSE(is_clip_vision(config_of(kClip)));
  EXPECT_FALSE(is_clip_text(config_of(kT5)));
}

TEST(ClipTextConfig, WhatIsAbsentHasTransformersDefault) {
  EXPECT_EQ(parse_clip_text_config(without(kClip, "eos_token_id")).eos_token_id, 49407);
  EXPECT_EQ(parse_clip_text_config(without(kClip2, "hidden_act")).hidden_act,
            clip::Activation::QUICK_GELU);
  EXPECT_EQ(
      parse_clip_text_config(without(kClip, "max_position_embeddings")).max_position_embeddings,
      77);
}

TEST(ClipTextConfig, WhatCannotBeIsRefusedByFileAndKey) {
  const auto expect_refused = [](const io::Json& config, const char* why) {
    EXPECT_THAT([&] { parse_clip_text_config(config); },
                ThrowsMessage<Error>(AllOf(HasSubstr("config.json"), HasSubstr(why))));
  };
  expect_refused(with(kClip, "architectures", io::Json::array({"BertModel"})), "`BertModel`");
  expect_refused(without(kClip, "hidden_size"), "hidden_size");
  expect_refused(with(kClip, "num_hidden_layers", int64_t{1} << 60), "`num_hidden_layers`");
  expect_refused(with(kClip, "num_attention_heads", 3), "multiple of");
  expect_refused(with(kClip, "hidden_act", "relu"), "is `relu`");
  expect_refused(with(kClip, "eos_token_id", "2"), "eos_token_id");
  expect_refused(with(kClip2, "projection_dim", 0), "has a projection");
  expect_refused(with(kClip, "layer_norm_eps", 0.0), "`layer_norm_eps`");
}

TEST(T5Config, TellsT5FromUmt5) {
  EXPECT_TRUE(parse_t5_config(config_of(kT5)).shared_relative_bias);
  EXPECT_FALSE(parse_t5_config(config_of("wan21_t2v/text_encoder")).shared_relative_bias);
  const io::Json nameless = without(kT5, "architectures");
  EXPECT_TRUE(is_t5(nameless));
  EXPECT_TRUE(parse_t5_config(nameless).shared_relative_bias);
  EXPECT_FALSE(is_t5(config_of(kClip)));
  EXPECT_EQ(t5_class(parse_t5_config(config_of(kT5))), "T5EncoderModel");
}

TEST(T5Config, T5BeforeItsGatesIsRefused) {
  EXPECT_THAT([] { parse_t5_config(with(kT5, "feed_forward_proj", "relu")); },
              ThrowsMessage<Error>(HasSubstr("`gated-gelu` only")));
  EXPECT_THAT([] { parse_t5_config(without(kT5, "feed_forward_proj")); },
              ThrowsMessage<Error>(HasSubstr("means relu")));
}

/// A copy of a model's folder with renamed tensors; an empty name omits one.
class Renamed {
 public:
  Renamed(const std::string& folder, const std::function<std::string(const std::string&)>& name) {
    const io::ModelFolder files = io::ModelFolder::open(io::golden(folder));
    std::vector<io::TensorEntry> entries;
    for (const io::TensorView* tensor : files.tensors()) {
      if (const std::string to = name(tensor->name); !to.empty()) {
        entries.push_back(io::TensorEntry::of(to, *tensor));
      }
    }
    io::write_model_folder(scratch_.path(), files.config(), entries, {.stem = "model"});
  }
  io::ModelFolder open() const { return io::ModelFolder::open(scratch_.path()); }

 private:
  io::Scratch scratch_;
};

TEST(ClipText, KeysMayLackThePrefixAndPositionIdsAreIgnored) {
  for (const char* folder : {kClip, kClip2}) {
    const clip::TextConfig config = parse_clip_text_config(config_of(folder));
    const io::ModelFolder published = io::ModelFolder::open(io::golden(folder));
    EXPECT_EQ(clip_text_prefix(published), "text_model");
    EXPECT_NO_THROW(check_clip_text_tensors(published, config));
    const Renamed newer(folder, [](const std::string& key) {
      return key.starts_with("text_model.") ? key.substr(11) : key;
    });
    const io::ModelFolder files = newer.open();
    EXPECT_EQ(clip_text_prefix(files), "");
    EXPECT_NO_THROW(check_clip_text_tensors(files, config));
    EXPECT_EQ(clip_text_embedding(files).copy().bytes, clip_text_embedding(published).copy().bytes);
  }
}

TEST(ClipText, TensorsThatDoNotFitAreRefused) {
  const auto expect_refused = [](const std::string& folder, const std::string& from,
                                 const std::string& to, const char* why) {
    const Renamed changed(folder, [&](const std::string& key) { return key == from ? to : key; });
    const clip::TextConfig config = parse_clip_text_config(config_of(folder));
    EXPECT_THAT([&] { check_clip_text_tensors(changed.open(), config); },
                ThrowsMessage<Error>(HasSubstr(why)));
  };
  expect_refused(kClip2, "text_projection.weight", "", "text_projection.weight");
  expect_refused(kClip, "text_model.final_layer_norm.bias", "", "final_layer_norm.bias");
  expect_refused(kClip, "text_model.final_layer_norm.bias", "text_model.other", "final_layer_norm");
  expect_refused(kClip, "text_model.embeddings.token_embedding.weight", "", "no CLIP text model");
}

TEST(CheckPath, DescribesATextEncoder) {
  const auto said = [](const char* folder) { return networks::check_path(io::golden(folder)); };
  EXPECT_EQ(said(kClip), "CLIPTextModel: 2 layers, width 16, 610 tokens");
  EXPECT_EQ(said(kClip2), "CLIPTextModelWithProjection: 3 layers, width 20, 610 tokens");
  EXPECT_EQ(said(kT5), "T5EncoderModel: 2 layers, width 24, 256 tokens");
}

TEST(T5, TheEmbeddingMayHaveEitherName) {
  const t5::EncoderConfig config = parse_t5_config(config_of(kT5));
  const Renamed other(kT5, [](const std::string& key) {
    return key == "shared.weight" ? "encoder.embed_tokens.weight" : key;
  });
  const io::ModelFolder files = other.open();
  EXPECT_NO_THROW(check_t5_tensors(files, config));
  EXPECT_EQ(t5_embedding(files).name, "encoder.embed_tokens.weight");
  EXPECT_NO_THROW(check_t5_tensors(io::ModelFolder::open(io::golden(kT5)), config));
}

TEST(Embedding, RowsAreThoseOfTheIds) {
  const io::ModelFolder files = io::ModelFolder::open(io::golden(kT5));
  const io::TensorView& table = t5_embedding(files);
  const std::vector<int64_t> ids{3, 0, 255, 3};
  const HostArray rows = embedding_rows(table, {2, 2}, ids);
  EXPECT_EQ(rows.shape, (Shape{DType::F32, {2, 2, 24}}));
  const HostArray all = table.copy();
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t k = 0; k < 24; ++k) {
      EXPECT_EQ(rows.as<float>()[i * 24 + k],
                all.as<float>()[static_cast<size_t>(ids[i]) * 24 + k]);
    }
  }
  for (const int64_t id : {int64_t{-1}, int64_t{256}}) {
    EXPECT_THAT([&] { embedding_rows(table, {1}, std::span(&id, 1)); },
                ThrowsMessage<Error>(AllOf(HasSubstr("shared.weight"), HasSubstr("256 rows"))));
  }
}

}  // namespace
}  // namespace kinema::weights
