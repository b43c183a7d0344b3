// A cache in the layout of huggingface_hub 2.4, written by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/hub.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kCommit(40, 'a');
const std::string kOther(40, 'b');

/// The model org/name with two parts at kCommit, and one file of an older commit.
class HubCache : public testing::Test {
 protected:
  HubCache() {
    const std::map<std::string, std::string> files = {
        {"model_index.json",
         R"({"_class_name": "WanPipeline", "transformer": ["diffusers", "WanTransformer3DModel"],
             "scheduler": ["diffusers", "UniPCMultistepScheduler"]})"},
        {"scheduler/scheduler_config.json", "{}"},
        {"transformer/config.json", "{}"},
        {"transformer/diffusion_pytorch_model.safetensors", "weights"}};
    for (const auto& [path, text] : files) {
      put(kCommit, path, text);
    }
    put(kOther, "scheduler/scheduler_config.json", "{\"older\": true}");
    write("refs/main", kCommit);
    write("refs/refs/pr/1", kOther);
    write(".no_exist/" + kCommit + "/transformer_2/config.json", "");
    write("trees/" + kCommit + ".json", "[]");
    io::write_file(scratch_ / "cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55");
    fs::create_directories(scratch_ / "cache/.locks/models--org--name");
    options_.cache = scratch_ / "cache";
    options_.offline = true;
  }

  fs::path repo() const { return scratch_ / "cache/models--org--name"; }
  fs::path snapshot(const std::string& commit) const { return repo() / "snapshots" / commit; }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((repo() / path).parent_path());
    io::write_file(repo() / path, text);
  }
  /// A blob under the digest of its contents (here: any name), and the relative link to it.
  void put(const std::string& commit, const std::string& path, const std::string& text) {
    const std::string blob = std::to_string(++blobs_) + std::string(39, 'c');
    write("blobs/" + blob, text);
    const fs::path link = snapshot(commit) / path;
    fs::create_directories(link.parent_path());
    fs::path up = "../..";
    for (const auto& part : fs::path(path).parent_path()) {
      static_cast<void>(part);
      up /= "..";
    }
    fs::create_symlink(up / "blobs" / blob, link);
  }
  fs::path fetch(const std::string& revision, const Wanted& wanted = {}) const {
    return fetch_from_hub({.repo = "org/name", .revision = revision, .file = ""}, wanted, options_);
  }

  io::Scratch scratch_;
  HubOptions options_;
  int blobs_ = 0;
};

TEST_F(HubCache, OfHuggingFaceHubIsReadWithoutTheNetwork) {
  EXPECT_EQ(fetch("main"), snapshot(kCommit));
  EXPECT_EQ(fetch(kCommit), snapshot(kCommit));
  EXPECT_EQ(io::read_text(fetch("main") / "transformer/diffusion_pytorch_model.safetensors"),
            "weights");
  EXPECT_EQ(fetch("refs/pr/1", {.file = "scheduler/scheduler_config.json"}),
            snapshot(kOther) / "scheduler/scheduler_config.json");
}

TEST_F(HubCache, MayHoldFilesWhereLinksCannotBeMade) {
  const fs::path config = snapshot(kCommit) / "transformer/config.json";
  fs::remove(config);
  io::write_file(config, "{}");
  EXPECT_EQ(fetch("main"), snapshot(kCommit));
}

TEST_F(HubCache, MissesAFileWithoutACompleteBlob) {
  const fs::path blob =
      fs::canonical(snapshot(kCommit) / "transformer/diffusion_pytorch_model.safetensors");
  fs::rename(blob, blob.string() + ".incomplete");
  EXPECT_THAT([&] { fetch("main"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("transformer/*.safetensors is missing"),
                                         HasSubstr("HF_HUB_OFFLINE"))));
  EXPECT_EQ(fetch("main", {.parts = {"scheduler"}}), snapshot(kCommit));
}

TEST_F(HubCache, WithoutTheRevisionOrWithARefToNowhereHasNothing) {
  EXPECT_THAT([&] { fetch("v2"); }, ThrowsMessage<Error>(HasSubstr("all of it is missing")));
  write("refs/v3", std::string(40, 'd'));
  EXPECT_THAT([&] { fetch("v3"); }, ThrowsMessage<Error>(HasSubstr("all of it is missing")));
  write("refs/v4", "../../..");
  EXPECT_THAT([&] { fetch("v4"); }, ThrowsMessage<Error>(HasSubstr("all of it is missing")));
}

}  // namespace
}  // namespace kinema::remote
