#include "kinema/remote/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/digest.h"
#include "kinema/remote/repo_cache.h"
#include "remote/test_server.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string sha256(const std::string& text) {
  Digest digest(Digest::Kind::SHA256);
  digest.update(text);
  return digest.hex();
}

std::string git_sha1(const std::string& text) {
  Digest digest(Digest::Kind::SHA1);
  digest.update(fmt::format("blob {}", text.size()) + std::string(1, '\0') + text);
  return digest.hex();
}

/// A hub with one model, whose large files are on a second server, as on the real hub.
class HubTest : public testing::Test {
 protected:
  HubTest()
      : store_([this](const Received& request) { return from_store(request); }),
        hub_([this](const Received& request) { return from_hub(request); }) {
    files_["model_index.json"] =
        R"({"_class_name": "WanPipeline", "transformer": ["diffusers", "WanTransformer3DModel"],
            "transformer_2": [null, null], "scheduler": ["diffusers", "UniPCMultistepScheduler"],
            "tokenizer": ["transformers", "T5TokenizerFast"]})";
    files_["README.md"] = "not needed";
    files_["assets/a.png"] = "not needed";
    files_["scheduler/scheduler_config.json"] = "{}";
    files_["tokenizer/tokenizer.json"] = R"({"tokens": []})";
    files_["tokenizer/spiece.model"] = std::string(3000, 's');
    files_["transformer/config.json"] = "{}";
    files_["transformer/diffusion_pytorch_model.safetensors.index.json"] =
        R"({"weight_map": {"a": "diffusion_pytorch_model-00001-of-00002.safetensors",
                           "b": "diffusion_pytorch_model-00002-of-00002.safetensors"}})";
    files_[kShard] = std::string(300'000, 'x') + "end";
    files_["transformer/diffusion_pytorch_model-00002-of-00002.safetensors"] = "second";
    files_["transformer/diffusion_pytorch_model.fp16.safetensors"] = "a variant";
    files_["transformer/diffusion_pytorch_model.bin"] = "a pickle";
    options_.endpoint = hub_.url();
    options_.cache = scratch_ / "cache";
    options_.timeouts = {.connect_s = 2, .stall_s = 1, .retries = 2, .backoff_ms = 1};
  }

  static bool is_large(const std::string& path) { return path.ends_with(".safetensors"); }

  Reply from_hub(const Received& request) {
    if (refusal_) {
      return *refusal_;
    }
    const std::string api = "/api/models/org/name/revision/";
    if (request.target.starts_with(api)) {
      if (request.target.substr(api.size()) != "main") {
        return {.status = 404, .headers = {"X-Error-Code: RevisionNotFound"}};
      }
      std::string siblings;
      for (const auto& [path, text] : files_) {
        siblings += fmt::format("{}{{\"rfilename\": \"{}\"}}", siblings.empty() ? "" : ", ", path);
      }
      return {.body = fmt::format(R"({{"sha": "{}", "siblings": [{}, {{"rfilename": "../x"}}]}})",
                                  kCommit, siblings)};
    }
    const std::string resolve = "/org/name/resolve/" + kCommit + "/";
    const auto found = request.target.starts_with(resolve)
                           ? files_.find(request.target.substr(resolve.size()))
                           : files_.end();
    if (found == files_.end()) {
      return {.status = 404, .headers = {"X-Error-Code: EntryNotFound"}};
    }
    const auto& [path, text] = *found;
    if (is_large(path)) {
      return {.status = 302,
              .headers = {"Location: " + store_.url() + "/" + path,
                          "X-Linked-Etag: \"" + sha256(text) + "\"",
                          fmt::format("X-Linked-Size: {}", text.size())}};
    }
    return {.headers = {"ETag: W/\"" + git_sha1(text) + "\""}, .body = text};
  }

  Reply from_store(const Received& request) {
    const std::string text = files_.at(request.target.substr(1));
    Reply reply{.body = damaged_ ? std::string(text.size(), '?') : text};
    if (const std::string range = request.header("range"); !range.empty() && ranges_) {
      const size_t start = std::stoull(range.substr(std::string("bytes=").size()));
      reply.status = 206;
      reply.headers.push_back(
          fmt::format("Content-Range: bytes {}-{}/{}", start, text.size() - 1, text.size()));
      reply.body = reply.body.substr(start);
    }
    if (broken_ > 0 && request.target.ends_with(kShard)) {
      --broken_;
      reply.cut_after = 100'000;
      reply.stall = stall_;
    }
    return reply;
  }

  fs::path fetch(const Wanted& wanted = {}) {
    return fetch_from_hub(id_, wanted, options_, progress_);
  }
  /// Expects an error of one or two lines that contains the text.
  void refuses(const std::string& why, const Wanted& wanted = {}) {
    try {
      fetch(wanted);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, HasSubstr(why));
      EXPECT_LE(std::ranges::count(text, '\n'), 1) << text;
    }
  }
  fs::path incomplete() const {
    return scratch_ / "cache" / "models--org--name" / "blobs" /
           (sha256(files_.at(kShard)) + ".incomplete");
  }

  const std::string kShard = "transformer/diffusion_pytorch_model-00001-of-00002.safetensors";
  io::Scratch scratch_;
  std::map<std::string, std::string> files_;
  std::optional<Reply> refusal_;
  bool damaged_ = false;
  bool ranges_ = true;
  std::atomic<int> broken_ = 0;
  bool stall_ = false;
  TestServer store_;
  TestServer hub_;
  HubOptions options_;
  HubId id_{.repo = "org/name", .revision = "main", .file = ""};
  DownloadProgress progress_;
};

TEST_F(HubTest, DownloadsAPipelineIntoTheHubsCacheLayout) {
  const fs::path folder = fetch();

  EXPECT_EQ(folder, scratch_ / "cache" / "models--org--name" / "snapshots" / kCommit);
  std::set<std::string> came;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) {
      const std::string path = entry.path().lexically_relative(folder);
      came.insert(path);
      EXPECT_EQ(io::read_text(entry.path()), files_.at(path)) << path;
      EXPECT_TRUE(fs::is_symlink(entry.path()));
      EXPECT_TRUE(fs::read_symlink(entry.path()).is_relative());
    }
  }
  EXPECT_THAT(
      came, UnorderedElementsAre("model_index.json", "scheduler/scheduler_config.json",
                                 "tokenizer/tokenizer.json", "tokenizer/spiece.model",
                                 "transformer/config.json", kShard,
                                 "transformer/diffusion_pytorch_model.safetensors.index.json",
                                 "transformer/diffusion_pytorch_model-00002-of-00002.safetensors"));
  EXPECT_EQ(io::read_text(scratch_ / "cache" / "models--org--name" / "refs" / "main"), kCommit);
  EXPECT_TRUE(fs::exists(scratch_ / "cache" / "models--org--name" / "blobs" /
                         git_sha1(files_["model_index.json"])));
}

TEST_F(HubTest, TakesAWholeModelFromTheCacheWithoutTheNetwork) {
  fetch();
  const size_t before = hub_.received().size();

  EXPECT_NO_THROW(fetch());
  options_.offline = true;
  EXPECT_NO_THROW(fetch());
  EXPECT_EQ(hub_.received().size(), before);
}

TEST_F(HubTest, DownloadsFilesMissingInTheCache) {
  const fs::path folder = fetch({.parts = {"scheduler"}});
  EXPECT_TRUE(fs::exists(folder / "scheduler/scheduler_config.json"));
  EXPECT_FALSE(fs::exists(folder / "transformer"));

  fetch();

  EXPECT_TRUE(fs::exists(folder / kShard));
  EXPECT_EQ(hub_.count("GET", "/org/name/resolve/" + kCommit + "/scheduler/"), 1);
}

TEST_F(HubTest, DownloadsOneFile) {
  EXPECT_EQ(io::read_text(fetch({.file = "README.md"})), "not needed");
  refuses("org/name has no file absent.safetensors", {.file = "absent.safetensors"});
}

TEST_F(HubTest, ReportsProgress) {
  int64_t last = 0;
  int64_t whole = 0;
  progress_ = [&](int64_t done, int64_t total) {
    EXPECT_LE(done, total);
    last = done;
    whole = total;
  };
  fetch();

  EXPECT_EQ(last, whole);
  EXPECT_GT(whole, 300'000);
}

TEST_F(HubTest, SendsTheTokenToTheHubAlone) {
  options_.token = "secret";
  fetch();

  for (const Received& request : hub_.received()) {
    EXPECT_EQ(request.header("authorization"), "Bearer secret");
  }
  ASSERT_FALSE(store_.received().empty());
  for (const Received& request : store_.received()) {
    EXPECT_EQ(request.header("authorization"), "");
  }
}

TEST_F(HubTest, GoesOnWhereATransferBroke) {
  broken_ = 2;
  fetch();

  std::vector<std::string> ranges;
  for (const Received& request : store_.received()) {
    if (request.target.ends_with(kShard)) {
      ranges.push_back(request.header("range"));
    }
  }
  EXPECT_THAT(ranges, ElementsAre("", "bytes=100000-", "bytes=200000-"));
}

TEST_F(HubTest, RestartsWithoutRangeSupport) {
  broken_ = 1;
  ranges_ = false;
  const fs::path folder = fetch();

  EXPECT_EQ(io::read_text(folder / kShard), files_.at(kShard));
}

TEST_F(HubTest, KeepsHalfAFileForTheNextRun) {
  broken_ = 3;  // more often than the number of tries
  options_.connections = 1;
  refuses("was not downloaded completely (300000 of 300003 bytes): ");
  EXPECT_EQ(fs::file_size(incomplete()), 300'000U);

  const fs::path folder = fetch();

  EXPECT_EQ(io::read_text(folder / kShard), files_.at(kShard));
  EXPECT_FALSE(fs::exists(incomplete()));
  EXPECT_EQ(store_.received().back().target.empty(), false);
}

TEST_F(HubTest, CancelsAStalledTransfer) {
  broken_ = 1;
  stall_ = true;
  options_.timeouts.retries = 0;
  refuses("sent nothing for 1 s");
  EXPECT_TRUE(fs::exists(incomplete()));
}

TEST_F(HubTest, RemovesAFileWithAnotherDigest) {
  damaged_ = true;
  refuses("it was corrupted in transit, and is removed");
  EXPECT_FALSE(fs::exists(incomplete()));
  EXPECT_FALSE(fs::exists(scratch_ / "cache/models--org--name/refs/main"));
}

TEST_F(HubTest, SeesThatAnIncompleteFileOfAnEarlierRunIsDamaged) {
  fs::create_directories(incomplete().parent_path());
  io::write_file(incomplete(), std::string(1000, '?'));
  refuses("sha256");
  EXPECT_FALSE(fs::exists(incomplete()));
  EXPECT_NO_THROW(fetch());
}

TEST_F(HubTest, SaysWhatARefusalMeans) {
  refusal_ = Reply{.status = 401, .headers = {"X-Error-Code: RepoNotFound"}};
  refuses("org/name cannot be read (401): there is no such model, or it is private");
  refuses("set HF_TOKEN");
  options_.token = "old";
  refuses("may the token in use (HF_TOKEN) read it?");
  refusal_ = Reply{.status = 403, .headers = {"X-Error-Code: GatedRepo"}};
  refuses("is gated (403)");
  refusal_ = Reply{.status = 404, .headers = {"X-Error-Code: RepoNotFound"}};
  refuses("(404): is the name right?");
  refusal_ = Reply{.status = 503};
  refuses("answers 503");
  EXPECT_GE(hub_.count("GET", "/api/"), 3) << "tried again";
  refusal_ = Reply{.body = "<html>a login page</html>"};
  refuses("org/name");
}

TEST_F(HubTest, NamesAMissingRevision) {
  id_.revision = "v9";
  refuses("it has no revision `v9`");
}

TEST_F(HubTest, SaysThatThereIsNoNetwork) {
  {
    const TestServer gone([](const Received&) { return Reply{}; });
    options_.endpoint = gone.url();
  }
  refuses("cannot be fetched");
  refuses("give a local folder");
}

TEST_F(HubTest, NamesMissingFilesOffline) {
  options_.offline = true;
  refuses("HF_HUB_OFFLINE is set");
  EXPECT_TRUE(hub_.received().empty());
}

TEST_F(HubTest, RefusesNamesThatLeaveTheCache) {
  files_.erase(kShard);
  files_["transformer/../../../../evil.json"] = "x";
  fetch({.parts = {"scheduler"}});
  EXPECT_FALSE(fs::exists(scratch_ / "evil.json"));
  EXPECT_THAT([&] { RepoCache(scratch_ / "c", "models--a--b").link(kCommit, "../x", "e"); },
              ThrowsMessage<Error>(HasSubstr("cannot be a path")));
  EXPECT_THAT([&] { RepoCache(scratch_ / "c", "models--a--b").blob("../../x"); },
              ThrowsMessage<Error>(HasSubstr("cannot be a file name")));
}

TEST_F(HubTest, TwoProcessesDownloadEachFileOnce) {
  std::jthread other([this] { fetch(); });
  fetch();
  other.join();

  EXPECT_EQ(store_.count("GET", "/" + kShard), 1);
}

}  // namespace
}  // namespace kinema::remote
