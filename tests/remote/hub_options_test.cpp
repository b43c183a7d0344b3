#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/remote/hub.h"

/// The parts of the hub client that need no server: ids, the choice of files, the environment.
namespace kinema::remote {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(HubId, ReadsModelsRevisionsAndFiles) {
  EXPECT_EQ(read_hub_id("Wan-AI/Wan2.1-T2V-1.3B-Diffusers"),
            (HubId{"Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "main", ""}));
  EXPECT_EQ(read_hub_id("a/b@refs/pr/3"), (HubId{"a/b", "refs/pr/3", ""}));
  EXPECT_EQ(read_hub_id("a/b", "v2"), (HubId{"a/b", "v2", ""}));
  EXPECT_EQ(read_hub_id("a/b@v1/deep/x.safetensors"), (HubId{"a/b", "v1", "deep/x.safetensors"}));
  EXPECT_EQ(read_hub_id("a/b/x.safetensors"), (HubId{"a/b", "main", "x.safetensors"}));
  for (const char* text : {"", "one", "./a/b", "/a/b", "a/b/c", "../a", "a/..", "a b/c", "a/b@",
                           "a/b@../x", "gs://a/b", "a--b/c", "a/b/../x.safetensors"}) {
    EXPECT_EQ(read_hub_id(text), std::nullopt) << text;
  }
}

TEST(HubId, IsBoundedInLengthBeforeItIsRead) {
  const std::string name(96, 'n');
  EXPECT_TRUE(read_hub_id(name + "/" + name));
  EXPECT_FALSE(read_hub_id(name + "n/b"));
  EXPECT_FALSE(read_hub_id("a/" + name + "n"));
  EXPECT_TRUE(read_hub_id("a/b@" + std::string(200, 'r')));
  EXPECT_FALSE(read_hub_id("a/b@" + std::string(201, 'r')));
  // Recursive matching overflowed a stack of 8 MB at 50,000 characters.
  for (const char* begin : {"a/b/", "a/b@", "a/b@r/", "a/", ""}) {
    const std::string text = begin + std::string(3'000'000, 'x');
    EXPECT_FALSE(read_hub_id(text));
    EXPECT_FALSE(read_hub_id(text + ".safetensors"));
  }
}

TEST(ChooseFiles, TakesTheShardsOfAnIndexAndNoOthers) {
  EXPECT_THAT(choose_files({"config.json", "model.safetensors.index.json",
                            "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                            "model-1-of-00002.safetensors", "model-00001-of-00002.bin",
                            "model.fp16-00001-of-00002.safetensors",
                            "other-00001-of-00002.safetensors", "model--0001-of-00002.safetensors"},
                           {}, "a/b"),
              ElementsAre("config.json", "model.safetensors.index.json",
                          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
}

TEST(ChooseFiles, LongNamesInAListingNeedNoStack) {
  const std::string name = "model-" + std::string(3'000'000, '0') + "-of-00002.safetensors";
  const std::string shard = "model-00001-of-00001.safetensors";
  EXPECT_THAT(choose_files({"model.safetensors.index.json", name, shard}, {}, "a/b"),
              ElementsAre("model.safetensors.index.json", shard));
}

TEST(FirstMissing, CountsWhatNumberedNamesPromise) {
  const io::Scratch scratch;
  const Wanted all{.choose = [](std::vector<std::string> names) { return names; }};
  for (const char* name : {"a-00000-of-00003.parquet", "a-00002-of-00003.parquet"}) {
    io::write_file(scratch / name, "x");
  }
  EXPECT_EQ(first_missing(scratch.path(), all), "a-00001-of-00003.parquet");
  io::write_file(scratch / "a-00001-of-00003.parquet", "x");
  EXPECT_EQ(first_missing(scratch.path(), all), "");
  io::write_file(scratch / "b-of-00009.parquet", "x");  // its name implies no other files
  EXPECT_EQ(first_missing(scratch.path(), all), "");
}

TEST(ChooseFiles, KnowsALoneModelAndNamesWhatIsAmbiguous) {
  EXPECT_THAT(choose_files({"config.json", "model.safetensors", "model.bin"}, {}, "a/b"),
              ElementsAre("config.json", "model.safetensors"));
  EXPECT_THAT(
      [] {
        choose_files({"x.safetensors", "y.safetensors"}, {}, "a/b");
      },
      ThrowsMessage<Error>(HasSubstr("2 safetensors files, such as x.safetensors")));
  EXPECT_THAT(
      [] {
        choose_files({"config.json", "Wan2.1_VAE.pth"}, {}, "a/b");
      },
      ThrowsMessage<Error>(HasSubstr("-Diffusers")));
}

class Environment : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                             "XDG_CACHE_HOME", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
                             "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", scratch_.path().c_str(), 1);
  }
  io::Scratch scratch_;
};

TEST_F(Environment, HasTheHubsDefaults) {
  const HubOptions options = HubOptions::from_environment();
  EXPECT_EQ(options.endpoint, "https://huggingface.co");
  EXPECT_EQ(options.cache, scratch_ / ".cache/huggingface/hub");
  EXPECT_EQ(options.token, "");
  EXPECT_FALSE(options.offline);
}

TEST_F(Environment, DecidesCacheTokenAndEndpoint) {
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(HubOptions::from_environment().cache, "/x/huggingface/hub");
  ::setenv("HF_HOME", scratch_.path().c_str(), 1);
  EXPECT_EQ(HubOptions::from_environment().cache, scratch_ / "hub");
  ::setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(HubOptions::from_environment().cache, "/old");
  ::setenv("HF_HUB_CACHE", "/new", 1);
  EXPECT_EQ(HubOptions::from_environment().cache, "/new");
  io::write_file(scratch_ / "token", "from_file\n");
  EXPECT_EQ(HubOptions::from_environment().token, "from_file");
  io::write_file(scratch_ / "other", " elsewhere ");
  ::setenv("HF_TOKEN_PATH", (scratch_ / "other").c_str(), 1);
  EXPECT_EQ(HubOptions::from_environment().token, "elsewhere");
  ::setenv("HUGGING_FACE_HUB_TOKEN", "second", 1);
  EXPECT_EQ(HubOptions::from_environment().token, "second");
  ::setenv("HF_TOKEN", "first", 1);
  EXPECT_EQ(HubOptions::from_environment().token, "first");
  ::setenv("HF_TOKEN", "a\nHost: evil", 1);
  EXPECT_THAT([] { HubOptions::from_environment(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("characters"), Not(HasSubstr("evil")))));
  ::setenv("HF_TOKEN", "first", 1);
  ::setenv("HF_ENDPOINT", "https://mirror.example/hf/", 1);
  ::setenv("HF_HUB_OFFLINE", "true", 1);
  ::setenv("HF_HUB_DOWNLOAD_TIMEOUT", "7", 1);
  const HubOptions options = HubOptions::from_environment();
  EXPECT_EQ(options.endpoint, "https://mirror.example/hf");
  EXPECT_TRUE(options.offline);
  EXPECT_EQ(options.timeouts.stall_s, 7);
  ::setenv("HF_ENDPOINT", "ftp://x", 1);
  EXPECT_THAT([] { HubOptions::from_environment(); }, ThrowsMessage<Error>(HasSubstr("ftp://x")));
}

}  // namespace
}  // namespace kinema::remote
