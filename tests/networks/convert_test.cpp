#include "kinema/networks/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/gguf.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/check_path.h"
#include "kinema/networks/open.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"
#include "weights/smallest.h"

namespace kinema::networks {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

wan::TransformerConfig one_head() { return weights::smallest_config(true, true); }

using Values = std::map<std::string, HostArray>;

Values random_values(const wan::TransformerConfig& config) {
  Values out;
  uint64_t seed = 0;
  for (const nn::ParamSpec& spec : wan::parameters(config, {.scan_layers = false})) {
    out.emplace(spec.name, normal(spec.shape.dims, ++seed));
  }
  return out;
}

void save(const fs::path& folder, const wan::TransformerConfig& config, const Values& values) {
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : values) {
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_model_folder(folder, wan::config_json(config), entries);
}

void expect_values(const fs::path& path, const Values& expected) {
  const model_files::Checkpoint found = model_files::Checkpoint::open(path);
  ASSERT_EQ(found.tensors().size(), expected.size());
  for (const auto& [key, array] : expected) {
    EXPECT_EQ(found.at(key).copy().bytes, array.bytes) << key;
  }
}

class Convert : public testing::Test {
 protected:
  Convert() { save(at("diffusers"), one_head(), values_); }
  fs::path at(const char* name) const { return scratch_.path() / name; }

  io::Scratch scratch_;
  const Values values_ = random_values(one_head());
};

TEST_F(Convert, EveryFormatGivesTheSameTransformerBack) {
  convert_transformer(at("diffusers"), at("original"), {.to = Format::ORIGINAL});
  convert_transformer(at("original"), at("comfy.safetensors"), {.to = Format::COMFYUI});
  convert_transformer(at("comfy.safetensors"), at("one.safetensors"), {.to = Format::ORIGINAL});
  convert_transformer(at("one.safetensors"), at("back"), {.to = Format::DIFFUSERS});
  for (const char* each : {"original", "comfy.safetensors", "one.safetensors", "back"}) {
    SCOPED_TRACE(each);
    expect_values(at(each), values_);
    EXPECT_EQ(wan_config(at(each)), one_head());
    EXPECT_NO_THROW(check_path(at(each)));
  }
}

/// Small versions of the released models.
struct Form {
  const char* name;
  bool image_tokens, position;  // Wan 2.1 image-to-video; first and last frame to video
  int64_t in_channels, out_channels;
  const char* model_type;  // in the release
};

class ConvertForm : public testing::TestWithParam<Form> {};

TEST_P(ConvertForm, RoundTripsThroughEveryFormatBitForBit) {
  const Form& form = GetParam();
  wan::TransformerConfig config = weights::smallest_config(form.image_tokens, form.position);
  config.in_channels = form.in_channels;
  config.out_channels = form.out_channels;
  const Values values = random_values(config);
  const io::Scratch scratch;
  save(scratch / "diffusers", config, values);
  convert_transformer(scratch / "diffusers", scratch / "comfy.safetensors",
                      {.to = Format::COMFYUI});
  convert_transformer(scratch / "comfy.safetensors", scratch / "original",
                      {.to = Format::ORIGINAL});
  convert_transformer(scratch / "original", scratch / "one.safetensors", {.to = Format::ORIGINAL});
  convert_transformer(scratch / "one.safetensors", scratch / "back", {.to = Format::DIFFUSERS});
  expect_values(scratch / "back", values);
  EXPECT_EQ(wan_config(scratch / "back"), config);
  EXPECT_EQ(io::ModelFolder::open(scratch / "original").config().at("model_type").as_string(),
            form.model_type);
  // The weights' file too: names, order, padding.
  const auto bytes = [&](const char* folder) {
    std::ifstream in(scratch / folder / "diffusion_pytorch_model.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  convert_transformer(scratch / "diffusers", scratch / "again", {.to = Format::DIFFUSERS});
  convert_transformer(scratch / "back", scratch / "back_again", {.to = Format::DIFFUSERS});
  EXPECT_EQ(bytes("back").size(), bytes("again").size());
  EXPECT_EQ(bytes("back_again"), bytes("back"));
}

INSTANTIATE_TEST_SUITE_P(
    Released, ConvertForm,
    testing::Values(Form{"TextToVideo", false, false, 16, 16, "t2v"},
                    Form{"ImageToVideo21", true, false, 36, 16, "i2v"},
                    Form{"FirstAndLastFrame21", true, true, 36, 16, "flf2v"},
                    Form{"ImageToVideo22", false, false, 36, 16, "i2v"},
                    Form{"TextAndImageToVideo22", false, false, 48, 48, "ti2v"}),
    [](const testing::TestParamInfo<Form>& info) { return std::string(info.param.name); });

TEST_F(Convert, NamesAreThoseOfTheOtherProgram) {
  convert_transformer(at("diffusers"), at("original"), {.to = Format::ORIGINAL});
  convert_transformer(at("diffusers"), at("comfy.safetensors"), {.to = Format::COMFYUI});
  const io::ModelFolder original = io::ModelFolder::open(at("original"));
  EXPECT_NE(original.find("blocks.1.cross_attn.norm_k_img.weight"), nullptr);
  EXPECT_EQ(original.config().at("_class_name").as_string(), "WanModel");
  EXPECT_EQ(original.config().at("model_type").as_string(), "flf2v");
  EXPECT_EQ(original.config().at("in_dim").as_int(), 6);
  const auto comfy = io::SafetensorsFile::open(at("comfy.safetensors"));
  EXPECT_NE(comfy.find("model.diffusion_model.blocks.0.self_attn.o.bias"), nullptr);
}

TEST_F(Convert, RoundsToTheDtypeAskedFor) {
  convert_transformer(at("diffusers"), at("half"), {.dtype = DType::BF16});
  const model_files::Checkpoint found = model_files::Checkpoint::open(at("half"));
  for (const auto& [key, array] : values_) {
    EXPECT_EQ(found.at(key).copy().bytes, convert(array, DType::BF16).bytes) << key;
  }
}

TEST_F(Convert, LargeTransformersAreCutIntoShards) {
  convert_transformer(at("diffusers"), at("shards"), {.max_shard_bytes = 200'000});
  EXPECT_TRUE(fs::exists(at("shards") / "diffusion_pytorch_model.safetensors.index.json"));
  expect_values(at("shards"), values_);
}

TEST_F(Convert, ReportsProgress) {
  std::vector<int64_t> done;
  convert_transformer(at("diffusers"), at("copy"), {.progress = [&](int64_t at, int64_t total) {
                        EXPECT_EQ(total, static_cast<int64_t>(values_.size()));
                        done.push_back(at);
                      }});
  EXPECT_EQ(done.size(), values_.size());
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

TEST_F(Convert, RefusesOutputThatCannotBeReadBack) {
  wan::TransformerConfig narrow = one_head();
  narrow.attention_head_dim = 32;
  narrow.num_attention_heads = 4;
  save(at("narrow"), narrow, random_values(narrow));
  EXPECT_THAT(
      [&] { convert_transformer(at("narrow"), at("out"), {.to = Format::ORIGINAL}); },
      ThrowsMessage<Error>(AllOf(HasSubstr("has heads of 32"), HasSubstr("--to diffusers"))));
  EXPECT_THAT([&] { convert_transformer(at("diffusers"), at("x.safetensors"), {}); },
              ThrowsMessage<Error>(HasSubstr("needs a folder")));
  EXPECT_THAT([&] { convert_transformer(at("diffusers"), at("x"), {.to = Format::COMFYUI}); },
              ThrowsMessage<Error>(HasSubstr("must end with .safetensors")));
  EXPECT_THAT([&] { convert_transformer(at("diffusers"), at("narrow"), {}); },
              ThrowsMessage<Error>(HasSubstr("exists already")));
  EXPECT_THAT([&] { convert_transformer(at("diffusers"), at("x"), {.to = Format::FP8}); },
              ThrowsMessage<Error>(HasSubstr("must end with .safetensors")));
  EXPECT_THAT([&] { convert_transformer(at("diffusers"), at("x"), {.to = Format::GGUF}); },
              ThrowsMessage<Error>(HasSubstr("--to gguf writes files that end with .gguf")));
  EXPECT_THAT([&] { convert_transformer(at("diffusers"), at("x.gguf"), {}); },
              ThrowsMessage<Error>(HasSubstr("--to gguf writes files that end with .gguf")));
  EXPECT_THAT([] { format_from_string("onnx"); },
              ThrowsMessage<Error>(HasSubstr("diffusers, original, comfyui, fp8, int8 or gguf")));
}

/// The largest difference from the originals, relative to the largest value of each row (int8,
/// Q8_0) or to each value (fp8).
double distance(const model_files::Checkpoint& found, const std::string& key,
                const HostArray& original, Format format) {
  const HostArray copy = found.at(key).copy();
  const HostArray other = convert(copy, DType::F32);
  const auto x = original.as<float>();
  const auto y = other.as<float>();
  const size_t row = static_cast<size_t>(original.shape.dims.back());
  double worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    double size = std::abs(x[i]);
    for (size_t j = i / row * row; format != Format::FP8 && j < i / row * row + row; ++j) {
      size = std::max<double>(size, std::abs(x[j]));
    }
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) - y[i]) / size);
  }
  return worst;
}

TEST_F(Convert, QuantizedFormatsStoreTheBlocksWeightsAsCodes) {
  struct Example {
    Format format;
    const char* name;
    double limit;
  };
  // Half a step. int8: the largest value is 127.5 steps (one more where it saturates); Q8_0: 127
  // steps, and its scale has 11 bits; e4m3: steps of at least an eighth of a value, and below 2^-6
  // of the largest 448th, which random values reach, a 2^-9th of the scale.
  convert_transformer(at("diffusers"), at("floats.safetensors"), {.to = Format::COMFYUI});
  for (const Example& each : {Example{Format::FP8, "a.safetensors", 0.0},
                              Example{Format::INT8, "b.safetensors", 1.01 / 255},
                              Example{Format::GGUF, "c.gguf", 1.1 / 254}}) {
    SCOPED_TRACE(each.name);
    convert_transformer(at("diffusers"), at(each.name), {.to = each.format});
    EXPECT_NO_THROW(check_path(at(each.name)));
    EXPECT_EQ(wan_config(at(each.name)), one_head());
    // Two thirds of this model are blocks' weights, and codes take a quarter of floats.
    EXPECT_LT(fs::file_size(at(each.name)), 0.6 * fs::file_size(at("floats.safetensors")));
    const model_files::Checkpoint found = model_files::Checkpoint::open(at(each.name));
    ASSERT_EQ(found.tensors().size(), values_.size());
    size_t codes = 0;
    for (const auto& [key, array] : values_) {
      SCOPED_TRACE(key);
      if (found.at(key).decode) {
        ++codes;
        EXPECT_TRUE(key.starts_with("blocks.") && array.shape.rank() == 2);
        if (each.format != Format::FP8) {
          EXPECT_LT(distance(found, key, array, each.format), each.limit);
        }
      } else {
        EXPECT_EQ(found.at(key).copy().bytes, array.bytes);
      }
    }
    // Ten in attention, including the image's keys and values, two in the feed-forward layer, one
    // of them with rows of 7, which are not divisible by blocks of 32; two layers.
    EXPECT_EQ(codes, each.format == Format::GGUF ? 22U : 24U);
    // Back to floats.
    const fs::path back = at((std::string(each.name) + ".back").c_str());
    convert_transformer(at(each.name), back, {.dtype = DType::BF16});
    EXPECT_NO_THROW(check_path(back));
  }
  const io::SafetensorsFile fp8 = io::SafetensorsFile::open(at("a.safetensors"));
  EXPECT_EQ(fp8.at("model.diffusion_model.scaled_fp8").shape, (Shape{DType::F8E4M3FN, {0}}));
  EXPECT_EQ(fp8.at("model.diffusion_model.blocks.0.self_attn.q.weight").shape,
            (Shape{DType::F8E4M3FN, {128, 128}}));
  EXPECT_EQ(fp8.at("model.diffusion_model.blocks.0.self_attn.q.scale_weight").shape.rank(), 0);
}

/// Weights converted to codes are those that the family stores as codes at run time.
TEST(ConvertFamilies, NarrowFormatsHoldAsCodesWhatIsStoredNarrow) {
  for (const char* folder : {"sdxl/unet", "flux_dev/transformer"}) {
    SCOPED_TRACE(folder);
    std::set<std::string> expected;
    for (const nn::ParamSpec& spec :
         open(io::golden(folder))
             ->parameters({.scan_layers = false, .weights_storage = DType::F8E4M3FN})) {
      if (spec.shape.dtype == DType::F8E4M3FN) {
        expected.insert(spec.name);
      }
    }
    EXPECT_FALSE(expected.empty());
    for (const Format format : {Format::FP8, Format::INT8}) {
      const io::Scratch scratch;
      // Their sizes are not those that the original names imply.
      fs::create_directory(scratch / "x");
      fs::copy_file(io::golden(std::string(folder) + "/config.json"), scratch / "x/config.json");
      const fs::path file = scratch / "x/narrow.safetensors";
      convert_transformer(io::golden(folder), file, {.to = format});
      const model_files::Checkpoint found = model_files::Checkpoint::open(file);
      std::set<std::string> codes;
      for (const auto& [key, view] : found.tensors()) {
        if (found.codes(*view) != nullptr) {
          codes.insert(key);
        }
      }
      EXPECT_EQ(codes, expected);
    }
  }
}

// Files in original names would be read as another network: they do not tell these sizes.
TEST(ConvertFamilies, AnAmbiguousFileNeedsItsConfig) {
  const io::Scratch scratch;
  io::Json two_heads = io::Json::read(io::golden("sdxl/unet/config.json"));
  two_heads.set("block_out_channels", io::Json::array({64, 64, 64}));
  two_heads.set("norm_num_groups", 32);
  two_heads.set("addition_time_embed_dim", 256);
  two_heads.set("projection_class_embeddings_input_dim", 6 * 256 + 20);
  two_heads.set("attention_head_dim", io::Json::array({1, 2, 1}));  // heads per block
  std::vector<io::TensorEntry> zeros;
  for (const nn::ParamSpec& spec : from_config(two_heads)->parameters({.scan_layers = false})) {
    zeros.push_back(io::TensorEntry::lazy(spec.name, spec.shape,
                                          [shape = spec.shape] { return HostArray(shape); }));
  }
  io::write_model_folder(scratch / "two_heads", two_heads, zeros);
  const std::vector<std::pair<fs::path, std::string>> reasons{
      {io::golden("sdxl/unet"), "which is not a multiple of the head width, 64"},
      {io::golden("flux_dev/transformer"), "the head width is 12"},
      {scratch / "two_heads", "`attention_head_dim` is [1, 2, 1], and would be read as [1, 1, 1]"}};
  const fs::path target = scratch / "x.safetensors";
  for (const auto& each : reasons) {
    const auto& folder = each.first;
    const auto& reason = each.second;
    SCOPED_TRACE(folder);
    for (const Format format : {Format::COMFYUI, Format::ORIGINAL, Format::FP8}) {
      EXPECT_THAT([&] { convert_transformer(folder, target, {.to = format}); },
                  ThrowsMessage<Error>(
                      AllOf(HasSubstr("x.safetensors would not be read as the same network"),
                            HasSubstr(reason), HasSubstr("--to diffusers"))));
      EXPECT_FALSE(fs::exists(target));
    }
    fs::copy_file(folder / "config.json", scratch / "config.json");
    convert_transformer(folder, target, {.to = Format::COMFYUI});
    EXPECT_EQ(open(target)->config().dump(), open(folder)->config().dump());
    fs::remove(target);
    fs::remove(scratch / "config.json");
  }
}

TEST_F(Convert, NonFiniteWeightsAreRefusedAsFloatsAndAsCodes) {
  Values values = values_;
  values.at("blocks.1.attn1.to_q.weight").as<float>()[3] = NAN;
  save(at("nan"), one_head(), values);
  for (const Format to : {Format::FP8, Format::INT8, Format::GGUF}) {
    const bool gguf = to == Format::GGUF;
    const fs::path target = at(gguf ? "codes.gguf" : "codes.safetensors");
    EXPECT_THAT([&] { convert_transformer(at("nan"), target, {.to = to}); },
                ThrowsMessage<Error>(HasSubstr(gguf ? "`blocks.1.self_attn.q.weight`"
                                                    : "`blocks.1.attn1.to_q.weight`")));
    EXPECT_FALSE(fs::exists(target));
  }

  convert_transformer(at("diffusers"), at("codes.gguf"), {.to = Format::GGUF});
  const io::GgufFile file = io::GgufFile::open(at("codes.gguf"));
  const auto damaged = std::ranges::find_if(
      file.tensors(), [](const io::TensorView& tensor) { return tensor.decode != nullptr; });
  ASSERT_NE(damaged, file.tensors().end());
  std::ifstream in(at("codes.gguf"), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string block(reinterpret_cast<const char*>(damaged->bytes.data()), 34);
  const size_t place = text.find(block);
  ASSERT_NE(place, std::string::npos);
  text.replace(place, 2, {'\0', '\x7c'});  // infinity
  std::ofstream(at("damaged.gguf"), std::ios::binary) << text;
  EXPECT_THAT([&] { check_path(at("damaged.gguf")); },
              ThrowsMessage<Error>(HasSubstr("`" + damaged->name + "`: a scale of block 0")));
}

// diffusers and ComfyUI decode narrow types only in linear layers.
TEST_F(Convert, OnlyMatricesOfAGgufFileAreQuantized) {
  convert_transformer(at("diffusers"), at("n.gguf"), {.to = Format::GGUF, .dtype = DType::BF16});
  const io::GgufFile file = io::GgufFile::open(at("n.gguf"));
  ASSERT_EQ(file.tensors().size(), values_.size());
  for (const io::TensorView& tensor : file.tensors()) {
    EXPECT_EQ(tensor.shape.dtype, tensor.shape.rank() == 2 ? DType::BF16 : DType::F32)
        << tensor.name;
  }
  Values large = values_;
  large.at("blocks.0.attn1.to_q.weight").as<float>()[5] = 1e6F;
  save(at("large"), one_head(), large);
  EXPECT_THAT(
      [&] {
        convert_transformer(at("large"), at("l.gguf"), {.to = Format::GGUF, .dtype = DType::F16});
      },
      ThrowsMessage<Error>(HasSubstr("infinite in float16")));
}

TEST_F(Convert, AFailureLeavesNoFiles) {
  Values values = values_;
  values.at("proj_out.weight").as<float>()[3] = 1e30F;
  save(at("large"), one_head(), values);
  EXPECT_THAT([&] { convert_transformer(at("large"), at("half"), {.dtype = DType::F16}); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("`proj_out.weight`"), HasSubstr("infinite in float16"))));
  EXPECT_FALSE(fs::exists(at("half")));

  values.erase("proj_out.bias");
  save(at("part"), one_head(), values);
  EXPECT_THAT([&] { convert_transformer(at("part"), at("other"), {}); },
              ThrowsMessage<Error>(HasSubstr("proj_out.bias")));
  EXPECT_FALSE(fs::exists(at("other")));
}

}  // namespace
}  // namespace kinema::networks
