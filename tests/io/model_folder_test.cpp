#include "kinema/io/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/media/check.h"

namespace kinema::io {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Five tensors a0..a4 of 40 bytes each.
struct Five {
  std::vector<HostArray> arrays;
  std::vector<TensorEntry> entries;

  Five() {
    for (int i = 0; i < 5; ++i) {
      HostArray array(Shape{DType::F32, {10}});
      std::iota(array.as<float>().begin(), array.as<float>().end(), static_cast<float>(i));
      arrays.push_back(std::move(array));
    }
    for (size_t i = 0; i < 5; ++i) {
      entries.push_back(TensorEntry::of("a" + std::to_string(i), arrays[i]));
    }
  }
};

TEST(ModelFolder, OpensTheGoodReferenceFolder) {
  const ModelFolder folder = ModelFolder::open(golden("corrupt/model_good"));

  EXPECT_EQ(folder.config().at("num_layers").as_int(), 1);
  EXPECT_EQ(folder.at("blocks.0.attn1.to_q.weight").shape, (Shape{DType::F32, {12, 12}}));
  EXPECT_THAT(media::check_path(golden("corrupt/model_good")), HasSubstr("WanTransformer3DModel"));
}

TEST(ModelFolder, RefusesDamagedConfigAndIndex) {
  const std::pair<const char*, const char*> cases[] = {
      {"config_nan", "is not JSON"},
      {"config_broken_json", "is not JSON"},
      {"index_missing_shard", "which is not there"},
      {"index_path_escape", "not a file name inside the folder"}};
  for (const auto& [name, cause] : cases) {
    SCOPED_TRACE(name);
    const auto open = [n = name] { ModelFolder::open(golden("corrupt") / n); };
    EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr(cause)));
  }
  EXPECT_THAT([] { ModelFolder::open(golden("corrupt/no_such_folder")); },
              ThrowsMessage<Error>(HasSubstr("does not exist")));
}

TEST(ModelFolder, WritesShardsWithAnIndexAndReadsThemBack) {
  const Scratch scratch;
  const Five five;
  const Json config = Json::object({{"_class_name", "WanTransformer3DModel"}});

  const auto files =
      write_model_folder(scratch.path(), config, five.entries, {.max_shard_bytes = 100});
  const ModelFolder folder = ModelFolder::open(scratch.path());

  EXPECT_THAT(files, ::testing::ElementsAre("diffusion_pytorch_model-00001-of-00003.safetensors",
                                            "diffusion_pytorch_model-00002-of-00003.safetensors",
                                            "diffusion_pytorch_model-00003-of-00003.safetensors",
                                            "diffusion_pytorch_model.safetensors.index.json",
                                            "config.json"));
  ASSERT_EQ(folder.tensors().size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(folder.at("a" + std::to_string(i)).copy().bytes, five.arrays[i].bytes);
  }
}

TEST(ModelFolder, ReadsAVariantIfThereIsNoOtherFile) {
  namespace fs = std::filesystem;
  const Five five;
  for (const int64_t shard : {int64_t{1} << 20, int64_t{100}}) {
    const Scratch scratch;
    write_model_folder(scratch.path(), Json::object(), five.entries, {.max_shard_bytes = shard});
    const fs::path index = scratch / "diffusion_pytorch_model.safetensors.index.json";
    if (fs::exists(index)) {  // shards may keep their names, because the index contains them
      fs::rename(index, scratch / "diffusion_pytorch_model.safetensors.index.fp16.json");
    } else {
      fs::rename(scratch / "diffusion_pytorch_model.safetensors",
                 scratch / "diffusion_pytorch_model.fp16.safetensors");
      // Another variant in the folder is ignored.
      write_file(scratch / "diffusion_pytorch_model.non_ema.safetensors", "damaged");
    }
    EXPECT_EQ(ModelFolder::open(scratch.path()).tensors().size(), 5U);
  }
}

TEST(ModelFolder, PrefersWholeWeightsToAVariant) {
  const Five five;
  const Scratch scratch;
  write_model_folder(scratch.path(), Json::object(), five.entries);
  write_file(scratch / "diffusion_pytorch_model.fp16.safetensors", "damaged");
  EXPECT_EQ(ModelFolder::open(scratch.path()).tensors().size(), 5U);
}

TEST(ModelFolder, LeavesNoStaleShardsBehind) {
  const Scratch scratch;
  const Five five;
  write_model_folder(scratch.path(), Json::object(), five.entries, {.max_shard_bytes = 100});

  write_model_folder(scratch.path(), Json::object(), five.entries);

  EXPECT_EQ(ModelFolder::open(scratch.path()).files().size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(scratch / "diffusion_pytorch_model.safetensors.index.json"));
}

TEST(ModelFolder, ComparesIndexAndShardsBothWays) {
  const Scratch scratch;
  const Five five;
  write_model_folder(scratch.path(), Json::object(), five.entries, {.max_shard_bytes = 100});
  const auto index = scratch / "diffusion_pytorch_model.safetensors.index.json";
  const Json original = Json::read(index);
  const std::string first = "diffusion_pytorch_model-00001-of-00003.safetensors";
  const std::string second = "diffusion_pytorch_model-00002-of-00003.safetensors";
  const auto with = [&](const std::function<void(Json&)>& change) {
    Json map = original.at("weight_map");
    change(map);
    write_file(index, Json::object({{"weight_map", map}}).dump());
    return [&] { ModelFolder::open(scratch.path()); };
  };

  EXPECT_THAT(with([&](Json& map) { map.set("ghost", first); }),
              ThrowsMessage<Error>(HasSubstr("says tensor `ghost` is in")));
  EXPECT_THAT(with([&](Json& map) { map.set("a0", second); }),
              ThrowsMessage<Error>(HasSubstr("tensor `a0` is in")));
  EXPECT_THAT(with([&](Json& map) {
                auto members = map.members();
                members.erase(members.begin());
                map = Json::object(members);
              }),
              ThrowsMessage<Error>(HasSubstr("does not list")));
  for (const char* name : {"", "..", "/etc/passwd", "a/b.safetensors", "x.bin"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(with([&](Json& map) { map.set("a0", name); }),
                ThrowsMessage<Error>(HasSubstr("not a file name inside the folder")));
  }
}

TEST(ModelFolder, SaysWhatIsMissing) {
  const Scratch scratch;
  EXPECT_THAT([&] { ModelFolder::open(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("no config.json")));
  write_file(scratch / "config.json", "{}");
  EXPECT_THAT([&] { ModelFolder::open(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("no weights")));
  write_file(scratch / "model.bin", "");
  EXPECT_THAT([&] { ModelFolder::open(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("pytorch_model.bin is read")));
  // Without safetensors files, those of torch with the names that programs write.
  std::filesystem::copy_file(golden("pickles/old.pth"), scratch / "pytorch_model.bin");
  const ModelFolder folder = ModelFolder::open(scratch.path());
  EXPECT_EQ(folder.at("float32").shape, (Shape{DType::F32, {3, 5}}));
}

}  // namespace
}  // namespace kinema::io
