#include "kinema/model_files/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/model_folder.h"
#include "kinema/model_files/names.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/check_path.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"
#include "pjrt/cpu_plugin.h"
#include "weights/smallest.h"

namespace kinema::model_files {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The tensors of a reference transformer under their original names, each with `prefix`.
class Original {
 public:
  explicit Original(const std::string& folder, const std::string& prefix = "",
                    DType dtype = DType::F32)
      : folder_(io::ModelFolder::open(io::golden(folder))) {
    for (const io::TensorView* view : folder_.tensors()) {
      arrays_.emplace(prefix + original_key(kWanNames, view->name)->name,
                      convert(view->copy(), dtype));
    }
  }
  std::vector<io::TensorEntry> entries() const {
    std::vector<io::TensorEntry> out;
    for (const auto& [name, array] : arrays_) {
      out.push_back(io::TensorEntry::of(name, array));
    }
    return out;
  }
  std::map<std::string, HostArray>& arrays() { return arrays_; }

 private:
  io::ModelFolder folder_;
  std::map<std::string, HostArray> arrays_;
};

void copy_config(const std::string& folder, const fs::path& to) {
  fs::copy_file(io::golden(folder + "/config.json"), to / "config.json");
}

/// A transformer with one head of 128 and every kind of parameter, in original names.
std::map<std::string, HostArray> smallest(bool image, bool position) {
  const wan::TransformerConfig config = weights::smallest_config(image, position);
  std::map<std::string, HostArray> out;
  for (const nn::ParamSpec& spec : wan::parameters(config, {.scan_layers = false})) {
    out.emplace(original_key(kWanNames, spec.name)->name, HostArray(spec.shape));
  }
  return out;
}

fs::path write(const fs::path& path, const std::map<std::string, HostArray>& arrays) {
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : arrays) {
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(path, entries);
  return path;
}

TEST(Checkpoint, ReadsTheSizesOffTheShapesOfASingleFile) {
  const io::Scratch scratch;
  const wan::TransformerConfig plain =
      wan_config(write(scratch / "t2v.safetensors", smallest(false, false)));
  EXPECT_EQ(plain.num_attention_heads, 1);
  EXPECT_EQ(plain.attention_head_dim, 128);
  EXPECT_EQ(plain.in_channels, 6);
  EXPECT_EQ(plain.out_channels, 3);
  EXPECT_EQ(plain.patch_size, (std::array<int64_t, 3>{1, 2, 2}));
  EXPECT_EQ(plain.text_dim, 5);
  EXPECT_EQ(plain.freq_dim, 4);
  EXPECT_EQ(plain.ffn_dim, 7);
  EXPECT_EQ(plain.num_layers, 2);
  EXPECT_EQ(plain.image_dim, 0);
  EXPECT_TRUE(plain.cross_attn_norm);

  const wan::TransformerConfig image =
      wan_config(write(scratch / "flf2v.safetensors", smallest(true, true)));
  EXPECT_EQ(image.image_dim, 9);
  EXPECT_EQ(image.added_kv_proj_dim, 128);
  EXPECT_EQ(image.pos_embed_seq_len, 10);
  EXPECT_EQ(networks::check_path(scratch / "flf2v.safetensors"),
            "original Wan transformer: 2 layers, width 128, 477664 parameters");
}

TEST(Checkpoint, TakesEpsilonFromAnOriginalFolder) {
  const io::Scratch scratch;
  write(scratch / "diffusion_pytorch_model.safetensors", smallest(false, false));
  std::ofstream(scratch / "config.json")
      << R"({"_class_name": "WanModel", "dim": 128, "eps": 1e-05, "model_type": "t2v"})";

  EXPECT_EQ(wan_config(scratch.path()).eps, 1e-5);
  EXPECT_NO_THROW(networks::check_path(scratch.path()));
}

TEST(Checkpoint, ReadsABundleWithoutItsOtherParts) {
  const io::Scratch scratch;
  std::map<std::string, HostArray> bundle;
  for (const auto& [name, array] : smallest(false, false)) {
    bundle.emplace("model.diffusion_model." + name, array);
  }
  bundle.emplace("vae.decoder.conv1.weight", HostArray(Shape{DType::F32, {3}}));
  EXPECT_NO_THROW(networks::check_path(write(scratch / "bundle.safetensors", bundle)));

  bundle.emplace("model.diffusion_model.vace_blocks.0.norm.weight",
                 HostArray(Shape{DType::F32, {3}}));
  EXPECT_THAT(
      [&] { networks::check_path(write(scratch / "vace.safetensors", bundle)); },
      ThrowsMessage<Error>(AllOf(HasSubstr("is not part of the model"),
                                 HasSubstr("`model.diffusion_model.vace_blocks.0.norm.weight`"))));
}

TEST(Checkpoint, NamesWrongTensorsByTheirNameInTheFile) {
  const io::Scratch scratch;
  const auto refuses = [&](const std::map<std::string, HostArray>& arrays, const char* why) {
    EXPECT_THAT([&] { networks::check_path(write(scratch / "a.safetensors", arrays)); },
                ThrowsMessage<Error>(AllOf(HasSubstr("a.safetensors"), HasSubstr(why))));
  };
  std::map<std::string, HostArray> arrays = smallest(false, false);
  arrays.erase("blocks.1.self_attn.q.weight");
  refuses(arrays, "`blocks.1.self_attn.q.weight` [128,128] is missing");
  arrays = smallest(false, false);
  arrays.insert_or_assign("head.modulation", HostArray(Shape{DType::F32, {1, 3, 128}}));
  refuses(arrays, "`head.modulation` is f32[1,3,128] but the config expects [1,2,128]");
  arrays.erase("head.head.weight");
  refuses(arrays, "`head.head.weight`");
  arrays.insert_or_assign("patch_embedding.weight", HostArray(Shape{DType::F32, {96, 6, 1, 2, 2}}));
  refuses(arrays, "not a multiple of the head width, 128");
  arrays.insert_or_assign("patch_embedding.weight", HostArray(Shape{DType::F32, {96}}));
  refuses(arrays, "must have 5 axes");
}

TEST(Checkpoint, RefusesPicklesThatNeedCodeWithARemedy) {
  const io::Scratch scratch;
  for (const char* name : {"Wan2.1_VAE.pth", "model.pt", "model.ckpt"}) {
    std::ofstream(scratch / name) << "cposix\nsystem\n(S'true'\ntR.";
    EXPECT_THAT([&] { networks::check_path(scratch / name); },
                ThrowsMessage<Error>(AllOf(HasSubstr(name), HasSubstr("`posix.system`"),
                                           HasSubstr("\n  take the"))));
  }
}

TEST(Checkpoint, NamesACorruptGguf) {
  const io::Scratch scratch;
  std::ofstream(scratch / "model.gguf") << "GGUF";
  EXPECT_THAT([&] { networks::check_path(scratch / "model.gguf"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("model.gguf"), HasSubstr("truncated"))));
}

// As in ComfyUI's files: codes, one scale or one per output, a mark, scales of activations.
TEST(Checkpoint, DequantizesCodes) {
  const io::Scratch scratch;
  std::map<std::string, HostArray> arrays = smallest(false, false);
  const auto put = [&](const std::string& name, const HostArray& array) {
    arrays.insert_or_assign(name, array);
  };
  HostArray codes(Shape{DType::F32, {128, 128}});
  codes.as<float>()[0] = -448.0F;
  codes.as<float>()[129] = 1.5F;
  put("blocks.0.self_attn.q.weight", convert(codes, DType::F8E4M3FN));
  put("blocks.0.self_attn.q.scale_weight", HostArray::f32({}, std::vector{0.5F}));
  put("blocks.0.self_attn.q.scale_input", HostArray::f32({}, std::vector{3.0F}));
  std::vector<float> scales(128, 1.0F);
  scales[1] = 0.25F;
  HostArray whole(Shape{DType::S8, {128, 128}});
  whole.as<int8_t>()[0] = -128;
  whole.as<int8_t>()[129] = 3;
  put("blocks.0.self_attn.k.weight", whole);
  put("blocks.0.self_attn.k.weight_scale", HostArray::f32({128, 1}, scales));
  put("scaled_fp8", HostArray(Shape{DType::F8E4M3FN, {0}}));
  const fs::path path = write(scratch / "fp8.safetensors", arrays);

  EXPECT_NO_THROW(networks::check_path(path));
  const Checkpoint found = Checkpoint::open(path);
  const auto values = [&](const char* key) {
    const HostArray all = convert(found.at(key).copy(), DType::F32);
    return std::vector<float>{all.as<float>()[0], all.as<float>()[129]};
  };
  EXPECT_EQ(values("blocks.0.attn1.to_q.weight"), (std::vector<float>{-224.0F, 0.75F}));
  EXPECT_EQ(values("blocks.0.attn1.to_k.weight"), (std::vector<float>{-128.0F, 0.75F}));

  const auto refuses = [&](const char* name, const HostArray& array, const char* why) {
    std::map<std::string, HostArray> wrong = arrays;
    wrong.insert_or_assign(name, array);
    EXPECT_THAT([&] { Checkpoint::open(write(scratch / "wrong.safetensors", wrong)); },
                ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses("blocks.0.self_attn.q.scale_weight", HostArray::f32({2}, std::vector{1.0F, 2.0F}),
          "one for each of 128 outputs is expected");
  for (const float scale : {NAN, INFINITY, 0.0F, -1.0F}) {
    refuses("blocks.0.self_attn.q.scale_weight", HostArray::f32({}, std::vector{scale}),
            "`blocks.0.self_attn.q.scale_weight` is");
  }
  refuses("blocks.0.self_attn.v.weight", convert(codes, DType::F8E4M3FN),
          "`blocks.0.self_attn.v.weight` is f8e4m3fn[128,128] without a scale");
  refuses("blocks.7.self_attn.q.scale_weight", HostArray::f32({}, std::vector{1.0F}),
          "without `blocks.7.self_attn.q.weight`");
  refuses("blocks.0.self_attn.q.weight_scale", HostArray::f32({}, std::vector{1.0F}),
          "expected one of them");
  refuses("blocks.0.self_attn.o.scale_weight", HostArray::f32({}, std::vector{1.0F}),
          "`blocks.0.self_attn.o.weight` has scales, but is f32[128,128]");

  // ComfyUI's later files describe the codes of each layer.
  const auto layer = [](std::string_view json) {
    HostArray out(Shape{DType::U8, {static_cast<int64_t>(json.size())}});
    std::ranges::transform(json, out.bytes.begin(), [](char c) { return std::byte(c); });
    return out;
  };
  put("blocks.0.self_attn.q.input_scale", HostArray::f32({}, std::vector{3.0F}));
  put("blocks.0.self_attn.q.comfy_quant", layer(R"({"format": "float8_e4m3fn"})"));
  const Checkpoint later = Checkpoint::open(write(scratch / "later.safetensors", arrays));
  EXPECT_EQ(convert(later.at("blocks.0.attn1.to_q.weight").copy(), DType::F32).as<float>()[0],
            -224.0F);
  EXPECT_EQ(later.find("blocks.0.self_attn.q.comfy_quant"), nullptr);
  refuses("blocks.0.self_attn.q.comfy_quant", layer(R"({"format": "mxfp8"})"),
          "stored as `mxfp8`, which is not supported");
  refuses("blocks.0.self_attn.q.comfy_quant", layer("[1]"), "comfy_quant");
  refuses("blocks.0.self_attn.q.comfy_quant", layer(R"({"format": "float8_e5m2"})"),
          "but the file says that it is f8e5m2");
  refuses("blocks.0.self_attn.o.comfy_quant", layer(R"({"format": "float8_e5m2"})"),
          "`blocks.0.self_attn.o.weight` is f32[128,128], but the file says");
}

// A mark without any scale, and no mark: the codes are the values.
TEST(Checkpoint, ReadsCodesOfFilesWithoutScalesAsNumbers) {
  const io::Scratch scratch;
  std::map<std::string, HostArray> arrays = smallest(false, false);
  HostArray codes(Shape{DType::F32, {128, 128}});
  codes.as<float>()[0] = -448.0F;
  arrays.insert_or_assign("blocks.0.self_attn.q.weight", convert(codes, DType::F8E4M3FN));
  for (const bool marked : {false, true}) {
    if (marked) {
      arrays.insert_or_assign("scaled_fp8", HostArray(Shape{DType::F8E4M3FN, {0}}));
    }
    const fs::path path = write(scratch / "fp8.safetensors", arrays);
    EXPECT_NO_THROW(networks::check_path(path));
    const HostArray found = Checkpoint::open(path).at("blocks.0.attn1.to_q.weight").copy();
    EXPECT_EQ(convert(found, DType::F32).as<float>()[0], -448.0F);
  }
}

// The storage of other parts of a bundle is ignored.
TEST(Checkpoint, LeavesTheCodesOfOtherPartsOfABundleAlone) {
  const io::Scratch scratch;
  std::map<std::string, HostArray> bundle;
  for (const auto& [name, array] : smallest(false, false)) {
    bundle.emplace("model.diffusion_model." + name, array);
  }
  bundle.emplace("text_encoders.t5.scale_weight", HostArray::f32({}, std::vector{NAN}));
  EXPECT_NO_THROW(networks::check_path(write(scratch / "bundle.safetensors", bundle)));
}

TEST(Checkpoint, NamesGgufFilesOfOtherArchitectures) {
  const io::Scratch scratch;
  const std::vector<io::GgufEntry> entries{
      {"x", {1}, io::GgmlType::F32, [] { return std::vector{1.0F}; }}};
  io::write_gguf(scratch / "a.gguf", entries, {{"general.architecture", "sd3"}});
  EXPECT_THAT([&] { Checkpoint::open(scratch / "a.gguf"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.gguf: general.architecture is `sd3`"),
                                         HasSubstr("expected `wan`"))));
  io::write_gguf(scratch / "b.gguf", entries, {});
  EXPECT_NO_THROW(Checkpoint::open(scratch / "b.gguf"));
}

TEST(Checkpoint, DescribesALoraFile) {
  EXPECT_EQ(networks::check_path(io::golden("lora/comfy.safetensors")),
            "LoRA: original Wan names, rank 4, 20 modules of Wan");
}

// ---- Loading -------------------------------------------------------------------------------

class LoadingTest : public pjrt::CpuTest {
 protected:
  static std::vector<HostArray> values(const fs::path& path, const nn::ModelOptions& options) {
    pjrt::Client client = pjrt::cpu_client();
    const auto specs = wan::parameters(wan_config(path), options);
    std::vector<HostArray> out;
    for (const pjrt::Buffer& buffer : weights::load(path, specs, client)) {
      out.push_back(buffer.to_host());
    }
    return out;
  }
  static void expect_equal(const std::vector<HostArray>& a, const std::vector<HostArray>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].shape, b[i].shape) << i;
      EXPECT_EQ(a[i].bytes, b[i].bytes) << i;
    }
  }
};

TEST_F(LoadingTest, OriginalNamesGiveTheSameParameters) {
  for (const char* folder : {"wan21_t2v/transformer", "wan21_i2v/transformer"}) {
    for (const char* prefix : {"", "model.diffusion_model.", "diffusion_model."}) {
      SCOPED_TRACE(std::string(folder) + " " + prefix);
      const io::Scratch scratch;
      copy_config(folder, scratch.path());  // it has heads of 32 channels, not 128
      write(scratch / "wan.safetensors", Original(folder, prefix).arrays());

      for (const bool scan : {true, false}) {
        expect_equal(values(scratch / "wan.safetensors", {.scan_layers = scan}),
                     values(io::golden(folder), {.scan_layers = scan}));
      }
    }
  }
}

// One scale for all outputs becomes one per output; LoRA files and other codes would need new
// rounding.
TEST_F(LoadingTest, KeepsCodesThatAreStoredAsTheyAre) {
  const io::Scratch scratch;
  Original original("wan21_t2v/transformer");
  copy_config("wan21_t2v/transformer", scratch.path());
  const std::string name = "blocks.1.self_attn.q.weight";
  const HostArray codes = convert(original.arrays().at(name), DType::F8E4M3FN);
  for (auto& [other, array] : original.arrays()) {
    if (other.starts_with("blocks.") && other.ends_with(".weight") && array.shape.rank() == 2) {
      array = convert(array, DType::F8E4M3FN);
    }
  }
  std::map<std::string, HostArray> arrays = original.arrays();
  for (const auto& [other, array] : original.arrays()) {
    if (array.shape.dtype == DType::F8E4M3FN) {
      arrays.emplace(other.substr(0, other.size() - 6) + "scale_weight",
                     HostArray::f32({}, std::vector{0.25F}));
    }
  }
  const fs::path path = write(scratch / "wan.safetensors", arrays);
  const nn::ModelOptions options{.scan_layers = false, .weights_storage = DType::F8E4M3FN};
  const auto specs = wan::parameters(wan_config(path), options);
  const auto loaded = values(path, options);
  bool found = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == "blocks.1.attn1.to_q.weight") {
      EXPECT_EQ(loaded[i].bytes, codes.bytes);
      found = true;
    } else if (specs[i].is_stored_scale()) {
      EXPECT_THAT(loaded[i].as<float>(), testing::Each(0.25F)) << specs[i].name;
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(LoadingTest, AFolderOfOriginalShardsGivesTheSameParameters) {
  const io::Scratch scratch;
  const io::Json config = io::Json::read(io::golden("wan21_t2v/transformer/config.json"));
  io::write_model_folder(scratch.path(), config, Original("wan21_t2v/transformer").entries(),
                         {.max_shard_bytes = 200'000});
  ASSERT_TRUE(fs::exists(scratch / "diffusion_pytorch_model.safetensors.index.json"));

  expect_equal(values(scratch.path(), {}), values(io::golden("wan21_t2v/transformer"), {}));
}

TEST_F(LoadingTest, CastsEveryFloatDtypeAsItReads) {
  for (const DType stored : {DType::BF16, DType::F16, DType::F64}) {
    SCOPED_TRACE(to_string(stored));
    const io::Scratch scratch;
    copy_config("wan21_t2v/transformer", scratch.path());
    Original original("wan21_t2v/transformer", "", stored);
    write(scratch / "wan.safetensors", original.arrays());
    const nn::ModelOptions options{.weights_dtype = DType::BF16, .scan_layers = false};
    const auto specs = wan::parameters(wan_config(scratch.path() / "wan.safetensors"), options);
    const auto loaded = values(scratch / "wan.safetensors", options);

    for (size_t i = 0; i < specs.size(); ++i) {
      const HostArray& kept = original.arrays().at(original_key(kWanNames, specs[i].name)->name);
      EXPECT_EQ(loaded[i].bytes, convert(kept, specs[i].shape.dtype).bytes) << specs[i].name;
    }
  }
}

/// This process's memory in bytes: the current size, or the peak since `reset`.
int64_t memory(const char* field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field)) {
      return std::stoll(line.substr(std::string(field).size())) * 1024;
    }
  }
  return -1;
}
bool reset_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << 5;
  out.flush();
  return out.good();
}

TEST_F(LoadingTest, NeedsMemoryForTheModelAndAFewChunks) {
  const io::Scratch scratch;
  constexpr int64_t kLayers = 6;
  const Shape layer{DType::F32, {1024, 3000}};
  for (const DType dtype : {DType::F32, DType::BF16}) {
    SCOPED_TRACE(to_string(dtype));
    nn::ParamSpec stack{
        .name = "blocks.{}.weight", .shape = {dtype, {kLayers, 1024, 3000}}, .layers = kLayers};
    nn::ParamSpec single{.name = "embedding.weight", .shape = {dtype, {1024, 6000}}};
    const std::vector<nn::ParamSpec> specs{stack, single};
    std::vector<io::TensorEntry> entries;
    for (int64_t i = 0; i < kLayers; ++i) {
      entries.push_back(
          io::TensorEntry::lazy(stack.key(i), layer, [&] { return HostArray(layer); }));
    }
    const Shape large{DType::F32, {1024, 6000}};
    entries.push_back(
        io::TensorEntry::lazy("embedding.weight", large, [&] { return HostArray(large); }));
    io::write_model_folder(scratch / "model", io::Json::object(), entries,
                           {.max_shard_bytes = 40'000'000});
    pjrt::Client client = pjrt::cpu_client();
    const auto folder = io::ModelFolder::open(scratch / "model");
    ASSERT_GE(folder.files().size(), 3U);
    const int64_t model = stack.shape.bytes() + single.shape.bytes();
    const int64_t before = memory("VmRSS:");
    if (!reset_peak()) {
      GTEST_SKIP() << "this system does not let the peak be reset";
    }
    const auto buffers = weights::load_tensors(folder, specs, client);

    // On a CPU the device's copy is in this process. In addition: a piece of the file (16 MiB, plus
    // the kernel's read-ahead), its cast, and the allocator's reserve.
    const int64_t growth = memory("VmHWM:") - before;
    EXPECT_GT(growth, model / 2) << "the measurement sees nothing";
    EXPECT_LT(growth, model + (int64_t{48} << 20));
  }
}

TEST_F(LoadingTest, DetectsAFileTruncatedDuringLoading) {
  io::guard_mappings();
  const io::Scratch scratch;
  copy_config("wan21_t2v/transformer", scratch.path());
  const fs::path file =
      write(scratch / "wan.safetensors", Original("wan21_t2v/transformer").arrays());
  const Checkpoint checkpoint = Checkpoint::open(file);
  const auto specs = wan::parameters(wan::parse_config(networks::open(checkpoint)->config()), {});
  pjrt::Client client = pjrt::cpu_client();
  fs::resize_file(file, fs::file_size(file) / 2);

  EXPECT_THAT(
      [&] { weights::load_tensors(checkpoint, specs, client); },
      ThrowsMessage<Error>(AllOf(HasSubstr("wan.safetensors"), HasSubstr("became shorter"))));
}

TEST_F(LoadingTest, DetectsALostLastByte) {
  const io::Scratch scratch;
  copy_config("wan21_t2v/transformer", scratch.path());
  const fs::path file =
      write(scratch / "wan.safetensors", Original("wan21_t2v/transformer").arrays());
  const Checkpoint checkpoint = Checkpoint::open(file);
  const auto specs = wan::parameters(wan::parse_config(networks::open(checkpoint)->config()), {});
  pjrt::Client client = pjrt::cpu_client();
  fs::resize_file(file, fs::file_size(file) - 1);

  EXPECT_THAT([&] { weights::load_tensors(checkpoint, specs, client); },
              ThrowsMessage<Error>(HasSubstr("became")));
}

}  // namespace
}  // namespace kinema::model_files
