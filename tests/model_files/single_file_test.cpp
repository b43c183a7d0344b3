#include "kinema/model_files/single_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/gguf.h"
#include "kinema/io/model_folder.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/networks/check_path.h"
#include "kinema/networks/convert.h"
#include "kinema/networks/open.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/kl_config.h"

namespace kinema::model_files {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

using Arrays = std::map<std::string, HostArray>;

fs::path write(const fs::path& path, const Arrays& arrays) {
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : arrays) {
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(path, entries);
  return path;
}

Arrays read(const fs::path& path) {
  Arrays out;
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  for (const io::TensorView& view : file.tensors()) {
    out.emplace(view.name, view.copy());
  }
  return out;
}

/// The checkpoint contains every tensor of the folder, rounded to `dtype`, and nothing else.
void expect_same(const Checkpoint& checkpoint, const std::string& folder, DType dtype) {
  const io::ModelFolder files = io::ModelFolder::open(io::golden(folder));
  size_t count = 0;
  for (const io::TensorView* view : files.tensors()) {
    if (view->name.ends_with("position_ids")) {
      continue;
    }
    ++count;
    const io::TensorView* found = checkpoint.find(view->name);
    if (found == nullptr) {
      ADD_FAILURE() << view->name << " is not there";
      continue;
    }
    EXPECT_EQ(found->shape.dims, view->shape.dims) << view->name;
    EXPECT_EQ(checkpoint.float_type(*found), dtype) << view->name;
    EXPECT_EQ(convert(found->copy(), DType::F32).bytes,
              convert(convert(view->copy(), dtype), DType::F32).bytes)
        << view->name;
  }
  size_t ignored = 0;
  for (const Checkpoint::Entry& entry : checkpoint.tensors()) {
    ignored += entry.key == "logit_scale" || entry.key.ends_with("position_ids") ? 1 : 0;
  }
  EXPECT_EQ(checkpoint.tensors().size() - ignored, count);
}

TEST(SingleFile, OfFluxHasTheTensorsOfItsFolder) {
  const Checkpoint checkpoint = Checkpoint::open(io::golden("single/flux_schnell.safetensors"));
  EXPECT_EQ(checkpoint.naming(), Naming::ORIGINAL);
  expect_same(checkpoint, "flux_schnell/transformer", DType::BF16);
  EXPECT_EQ(models_in(io::golden("single/flux_schnell.safetensors")), "original names of Flux");
  EXPECT_EQ(checkpoint.name_in_file("transformer_blocks.0.attn.to_k.bias"),
            "double_blocks.0.img_attn.qkv.bias");
}

TEST(SingleFile, OfAnAutoencoderHasTheTensorsOfItsFolder) {
  const fs::path file = io::golden("single/flux_ae.safetensors");
  expect_same(Checkpoint::open(file, kVae), "flux_dev/vae", DType::F32);
  expect_same(Checkpoint::open(file), "flux_dev/vae", DType::F32);
  EXPECT_THAT(parts_in(file), ElementsAre(kVae));
}

TEST(SingleFile, OfStableDiffusionXlHasTheTensorsOfAllItsFolders) {
  const fs::path file = io::golden("single/sdxl.safetensors");
  expect_same(Checkpoint::open(file), "sdxl/unet", DType::F16);
  expect_same(Checkpoint::open(file, kVae), "sdxl/vae", DType::F16);
  expect_same(Checkpoint::open(file, kTextEncoder), "sdxl/text_encoder", DType::F16);
  expect_same(Checkpoint::open(file, kTextEncoder2), "sdxl/text_encoder_2", DType::F16);
  EXPECT_THAT(parts_in(file), ElementsAre(kVae, kTextEncoder, kTextEncoder2));
  EXPECT_EQ(models_in(file),
            "original names of Stable Diffusion XL, vae, text_encoder, text_encoder_2");
}

TEST(SingleFile, OfPlaygroundHasTheStatisticsOfItsLatents) {
  const io::Scratch scratch;
  const io::SafetensorsFile file = io::SafetensorsFile::open(io::golden("single/sdxl.safetensors"));
  std::vector<io::TensorEntry> entries;
  for (const io::TensorView& tensor : file.tensors()) {
    entries.push_back(io::TensorEntry::of(tensor.name, tensor));
  }
  const auto numbers = [](std::vector<float> values) {
    HostArray out(Shape{DType::F32, {static_cast<int64_t>(values.size())}});
    std::ranges::copy(values, out.as<float>().begin());
    return out;
  };
  const HostArray mean = numbers({-1.5F, 0.5F, 0.25F, 0.0F});
  const HostArray deviation = numbers({8.5F, 7.0F, 6.0F, 5.0F});
  entries.push_back(io::TensorEntry::of("edm_mean", mean));
  entries.push_back(io::TensorEntry::of("edm_std", deviation));
  const fs::path made = scratch / "playground.safetensors";
  io::write_safetensors(made, entries);
  const std::optional<LatentStatistics> found = latent_statistics(made);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->mean, ElementsAre(-1.5, 0.5, 0.25, 0.0));
  EXPECT_THAT(found->deviation, ElementsAre(8.5, 7.0, 6.0, 5.0));
  EXPECT_FALSE(latent_statistics(io::golden("single/sdxl.safetensors")));
  EXPECT_FALSE(latent_statistics(io::golden("sdxl/vae")));
  EXPECT_EQ(objective_marks(made).edm, EdmMarks{});
  expect_same(Checkpoint::open(made), "sdxl/unet", DType::F16);

  entries.pop_back();
  const HostArray three = numbers({1.0F, 1.0F, 1.0F});
  entries.push_back(io::TensorEntry::of("edm_std", three));
  const fs::path wrong = scratch / "wrong.safetensors";
  io::write_safetensors(wrong, entries);
  EXPECT_THAT([&] { latent_statistics(wrong); }, ThrowsMessage<Error>(HasSubstr("edm_std")));
}

// Rows of a tensor are views of the file.
TEST(SingleFile, CopiesNoRows) {
  const Checkpoint checkpoint = Checkpoint::open(io::golden("single/flux_schnell.safetensors"));
  const io::TensorView& q = checkpoint.at("transformer_blocks.0.attn.to_q.weight");
  const io::TensorView& k = checkpoint.at("transformer_blocks.0.attn.to_k.weight");
  EXPECT_FALSE(q.decode || k.decode);
  EXPECT_EQ(q.bytes.data() + q.bytes.size(), k.bytes.data());
}

TEST(SingleFile, IsReadWithAPrefixToo) {
  const io::Scratch scratch;
  Arrays arrays;
  for (auto& [name, array] : read(io::golden("single/flux_schnell.safetensors"))) {
    arrays.emplace("model.diffusion_model." + name, std::move(array));
  }
  arrays.emplace("vae.decoder.conv_in.weight", HostArray(Shape{DType::F32, {1}}));
  expect_same(Checkpoint::open(write(scratch / "flux.safetensors", arrays)),
              "flux_schnell/transformer", DType::BF16);
}

TEST(SingleFile, RowsOfCodesKeepTheirScales) {
  const io::Scratch scratch;
  const std::string name = "double_blocks.0.img_attn.qkv.weight";
  for (const bool one : {true, false}) {
    Arrays arrays = read(io::golden("single/flux_schnell.safetensors"));
    const HostArray before = convert(arrays.at(name), DType::F32);
    const int64_t rows = before.shape.dims[0];
    HostArray scales(Shape{DType::F32, one ? Dims{} : Dims{rows, 1}});
    for (size_t i = 0; i < scales.as<float>().size(); ++i) {
      scales.as<float>()[i] = 0.5F + static_cast<float>(i);
    }
    // Another layer's weights may be stored unscaled: only codes need scales.
    arrays.insert_or_assign(name, convert(before, DType::F8E4M3FN));
    arrays.emplace("double_blocks.0.img_attn.qkv.scale_weight", scales);
    const Checkpoint checkpoint = Checkpoint::open(write(scratch / "fp8.safetensors", arrays));

    const HostArray codes = convert(arrays.at(name), DType::F32);
    const auto width = static_cast<size_t>(before.shape.dims[1]);
    const auto third = static_cast<size_t>(rows / 3);
    size_t part = 0;
    for (const char* key : {"to_q", "to_k", "to_v"}) {
      const io::TensorView& view =
          checkpoint.at(std::string("transformer_blocks.0.attn.") + key + ".weight");
      const Checkpoint::Codes* stored = checkpoint.codes(view);
      ASSERT_NE(stored, nullptr) << key;
      EXPECT_EQ(stored->shape, (Shape{DType::F8E4M3FN, {rows / 3, before.shape.dims[1]}}));
      EXPECT_EQ(stored->scales.as<float>().size(), one ? 1 : third);
      const HostArray values = view.copy();
      for (size_t i = 0; i < third; ++i) {
        const float scale = one ? 0.5F : 0.5F + static_cast<float>(part * third + i);
        for (size_t j = 0; j < width; ++j) {
          ASSERT_EQ(values.as<float>()[i * width + j],
                    scale * codes.as<float>()[(part * third + i) * width + j]);
        }
      }
      ++part;
    }
  }
}

// GGUF codes are decoded completely, and rows are taken from the floats.
TEST(SingleFile, RowsOfGgufAreThoseOfItsFloats) {
  const io::Scratch scratch;
  std::vector<float> values(96 * 32);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 251) - 125.0F;
  }
  const std::vector<io::GgufEntry> entries{
      {"double_blocks.0.img_attn.qkv.weight", {96, 32}, io::GgmlType::Q8_0, [&] { return values; }},
      {"single_blocks.0.modulation.lin.weight", {96, 32}, io::GgmlType::F32, [&] {
         return values;
       }}};
  io::write_gguf(scratch / "flux.gguf", entries, {{"general.architecture", "flux"}});
  const Checkpoint checkpoint = Checkpoint::open(scratch / "flux.gguf");
  EXPECT_EQ(find_family(checkpoint)->name, "Flux");
  const io::GgufFile file = io::GgufFile::open(scratch / "flux.gguf");
  const auto whole = std::ranges::find(file.tensors(), "double_blocks.0.img_attn.qkv.weight",
                                       &io::TensorView::name);
  const HostArray all = whole->copy();
  size_t part = 0;
  for (const char* key : {"to_q", "to_k", "to_v"}) {
    const io::TensorView& view =
        checkpoint.at(std::string("transformer_blocks.0.attn.") + key + ".weight");
    EXPECT_EQ(view.shape, (Shape{DType::F32, {32, 32}}));
    const HostArray rows = view.copy();
    EXPECT_TRUE(std::ranges::equal(rows.as<float>(), all.as<float>().subspan(1024 * part, 1024)))
        << key;
    ++part;
  }
}

TEST(SingleFile, ReadsOldNamesOfTheAutoencodersAttention) {
  const io::Scratch scratch;
  Arrays arrays;
  const io::ModelFolder folder = io::ModelFolder::open(io::golden("sdxl/vae"));
  const std::map<std::string, std::string> old{
      {".attentions.0.to_q.", ".attentions.0.query."},
      {".attentions.0.to_k.", ".attentions.0.key."},
      {".attentions.0.to_v.", ".attentions.0.value."},
      {".attentions.0.to_out.0.", ".attentions.0.proj_attn."}};
  for (const io::TensorView* view : folder.tensors()) {
    std::string name = view->name;
    for (const auto& [now, before] : old) {
      if (const size_t at = name.find(now); at != std::string::npos) {
        name.replace(at, now.size(), before);
      }
    }
    arrays.emplace(name, view->copy());
  }
  fs::copy_file(io::golden("sdxl/vae/config.json"), scratch / "config.json");
  write(scratch / "diffusion_pytorch_model.safetensors", arrays);
  expect_same(Checkpoint::open(scratch.path(), kVae), "sdxl/vae", DType::F32);
}

TEST(SingleFile, SaysWhatItIsNot) {
  EXPECT_THAT([] { Checkpoint::open(io::golden("single/flux_schnell.safetensors"), kVae); },
              ThrowsMessage<Error>(HasSubstr("flux_schnell.safetensors holds no autoencoder")));
  EXPECT_THAT([] { Checkpoint::open(io::golden("single/flux_ae.safetensors"), kTextEncoder2); },
              ThrowsMessage<Error>(HasSubstr("holds no second text encoder")));
  EXPECT_THAT(parts_in(io::golden("flux_dev/vae")), IsEmpty());
}

// ---- Files that do not fit together --------------------------------------------------------

class Hostile : public testing::Test {
 protected:
  void refuses(const std::string& name, Shape shape, const std::string& expected) {
    Arrays arrays = read(io::golden("single/flux_schnell.safetensors"));
    arrays.insert_or_assign(name, HostArray(std::move(shape)));
    refuses(arrays, expected);
  }
  void refuses(const Arrays& arrays, const std::string& expected) {
    const fs::path path = write(scratch_ / "flux.safetensors", arrays);
    EXPECT_THAT([&] { Checkpoint::open(path); },
                ThrowsMessage<Error>(AllOf(HasSubstr("[weights] "), HasSubstr("flux.safetensors"),
                                           HasSubstr(expected))));
  }

  io::Scratch scratch_;
};

TEST_F(Hostile, RowsThatDoNotDivide) {
  refuses("double_blocks.0.img_attn.qkv.weight", {DType::F32, {71, 24}}, "3 parts");
  refuses("double_blocks.0.img_attn.qkv.bias", {DType::F32, {}}, "expected rows");
}

TEST_F(Hostile, LinearsThatAreTooSmall) {
  refuses("single_blocks.0.linear1.weight", {DType::F32, {72, 24}}, "24 rows and more");
  refuses("single_blocks.0.linear1.weight", {DType::F32, {168}}, "expected a matrix");
  refuses("single_blocks.0.linear1.weight", {DType::F32, {168, 0}}, "0 rows and more");
  refuses("single_blocks.0.linear1.bias", {DType::F32, {3}}, "24 rows and more");
}

TEST_F(Hostile, HalvesThatAreNone) {
  refuses("final_layer.adaLN_modulation.1.weight", {DType::F32, {47, 24}}, "two halves");
  refuses("final_layer.adaLN_modulation.1.bias", {DType::F32, {}}, "two halves");
}

TEST_F(Hostile, BiasesWithoutTheirWeight) {
  Arrays arrays = read(io::golden("single/flux_schnell.safetensors"));
  arrays.erase("single_blocks.0.linear1.weight");
  refuses(arrays, "`single_blocks.0.linear1.bias` is there without");
}

TEST_F(Hostile, NamesOfBothKindsForOneTensor) {
  Arrays arrays = read(io::golden("single/flux_schnell.safetensors"));
  arrays.emplace("transformer_blocks.0.attn.to_q.weight", HostArray(Shape{DType::F32, {24, 24}}));
  refuses(arrays, "which is already there");
}

TEST_F(Hostile, ProjectionsOfOtherRanks) {
  for (const Dims& dims : {Dims{}, Dims{20}, Dims{20, 24, 1}}) {
    Arrays arrays = read(io::golden("single/sdxl.safetensors"));
    arrays.insert_or_assign("conditioner.embedders.1.model.text_projection",
                            HostArray(Shape{DType::F16, dims}));
    const fs::path path = write(scratch_ / "sdxl.safetensors", arrays);
    EXPECT_THAT([&] { Checkpoint::open(path, kTextEncoder2); },
                ThrowsMessage<Error>(HasSubstr("expected a matrix, which is transposed")));
  }
}

// ---- Conversion ----------------------------------------------------------------------------

class Conversion : public testing::TestWithParam<std::string> {};

TEST_P(Conversion, ToOriginalNamesAndBackChangesNothing) {
  const io::Scratch scratch;
  const fs::path folder = io::golden(GetParam());
  for (const networks::Format format : {networks::Format::ORIGINAL, networks::Format::COMFYUI}) {
    const fs::path inside = scratch / std::to_string(static_cast<int>(format));
    fs::create_directory(inside);
    // A tiny model's number of heads is in no file.
    fs::copy_file(folder / "config.json", inside / "config.json");
    networks::convert_transformer(folder, inside / "one.safetensors", {.to = format});
    const Checkpoint original = Checkpoint::open(inside / "one.safetensors");
    EXPECT_EQ(original.naming(), Naming::ORIGINAL);
    expect_same(original, GetParam(), DType::F32);
    networks::convert_transformer(inside / "one.safetensors", inside / "back",
                                  {.to = networks::Format::DIFFUSERS});
    expect_same(Checkpoint::open(inside / "back"), GetParam(), DType::F32);
  }
}

// What the original joins is encoded together, and read as separate codes.
TEST(Conversion, ToCodesKeepsThemInEveryPart) {
  const io::Scratch scratch;
  const fs::path folder = io::golden("flux_dev/transformer");
  fs::copy_file(folder / "config.json", scratch / "config.json");
  for (const networks::Format format : {networks::Format::FP8, networks::Format::INT8}) {
    const fs::path file = scratch / (std::to_string(static_cast<int>(format)) + ".safetensors");
    networks::convert_transformer(folder, file, {.to = format});
    const Checkpoint checkpoint = Checkpoint::open(file);
    const Checkpoint before = Checkpoint::open(folder);
    weights::check_tensors(checkpoint, networks::open(checkpoint)->parameters({}));
    for (const char* key : {"transformer_blocks.0.attn.add_k_proj.weight",
                            "single_transformer_blocks.1.proj_mlp.weight"}) {
      EXPECT_NE(checkpoint.codes(checkpoint.at(key)), nullptr) << key;
      const HostArray exact = before.at(key).copy();
      const HostArray read = checkpoint.at(key).copy();
      float largest = 0;
      float off = 0;
      for (size_t i = 0; i < exact.as<float>().size(); ++i) {
        largest = std::max(largest, std::abs(exact.as<float>()[i]));
        off = std::max(off, std::abs(exact.as<float>()[i] - read.as<float>()[i]));
      }
      EXPECT_GT(off, 0.0F) << key;
      // Half of the last of float8's four bits; the scale is the largest value of a complete joined
      // weight.
      EXPECT_LT(off, largest / 16) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Conversion,
                         testing::Values("flux_dev/transformer", "sdxl/unet"));

}  // namespace
}  // namespace kinema::model_files
