// Data sets from a hub on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/digest.h"
#include "kinema/remote/hub.h"
#include "remote/test_server.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
const std::string kBranch = "refs/convert/parquet";

std::string sha256(const std::string& text) {
  Digest digest(Digest::Kind::SHA256);
  digest.update(text);
  return digest.hex();
}

/// Selects the files in a folder, as a reader of one split does.
Wanted below(const std::string& folder) {
  return {.choose = [folder](std::vector<std::string> names) {
    std::erase_if(names, [&](const std::string& name) { return !name.starts_with(folder); });
    check(!names.empty(), "[hf] there is no {}", folder);
    return names;
  }};
}

/// A hub with one data set, whose files are on a second server.
class HubDataset : public testing::Test {
 protected:
  HubDataset()
      : store_([this](const Received& request) { return from_store(request); }),
        hub_([this](const Received& request) { return from_hub(request); }) {
    files_["README.md"] = "not wanted";
    files_["train/0000.parquet"] = std::string(200'000, 'a') + "end";
    files_["train/0001.parquet"] = "second";
    files_["test/0000.parquet"] = "third";
    options_.endpoint = hub_.url();
    options_.cache = scratch_ / "cache";
    options_.connections = 1;
    options_.timeouts = {.connect_s = 2, .stall_s = 1, .retries = 2, .backoff_ms = 1};
  }

  Reply from_hub(const Received& request) {
    if (refusal_) {
      return *refusal_;
    }
    const std::string api = "/api/datasets/org/name/revision/";
    if (request.target.starts_with(api)) {
      const std::string revision = request.target.substr(api.size());
      if (revision != "main" && revision != kCommit && revision != percent_encoded(kBranch)) {
        return {.status = 404, .headers = {"X-Error-Code: RevisionNotFound"}};
      }
      std::string siblings;
      for (const auto& [path, text] : files_) {
        siblings += fmt::format("{}{{\"rfilename\": \"{}\"}}", siblings.empty() ? "" : ", ", path);
      }
      return {.body = fmt::format(R"({{"sha": "{}", "siblings": [{}]}})", kCommit, siblings)};
    }
    const std::string resolve = "/datasets/org/name/resolve/" + kCommit + "/";
    const auto found = request.target.starts_with(resolve)
                           ? files_.find(request.target.substr(resolve.size()))
                           : files_.end();
    if (found == files_.end()) {
      return {.status = 404, .headers = {"X-Error-Code: EntryNotFound"}};
    }
    if (gated_) {
      return {.status = 401, .headers = {"X-Error-Code: GatedRepo"}};
    }
    const auto& [path, text] = *found;
    return {.status = 302,
            .headers = {"Location: " + store_.url() + "/" + path,
                        "X-Linked-Etag: \"" + sha256(text) + "\"",
                        fmt::format("X-Linked-Size: {}", text.size())}};
  }

  Reply from_store(const Received& request) {
    const std::string text = files_.at(request.target.substr(1));
    Reply reply{.body = text};
    if (const std::string range = request.header("range"); !range.empty()) {
      const size_t start = std::stoull(range.substr(std::string("bytes=").size()));
      reply.status = 206;
      reply.headers.push_back(
          fmt::format("Content-Range: bytes {}-{}/{}", start, text.size() - 1, text.size()));
      reply.body = text.substr(start);
    }
    if (broken_ > 0 && request.target == "/" + breaks_) {
      --broken_;
      reply.cut_after = static_cast<int64_t>(reply.body.size()) / 2;
    }
    return reply;
  }

  fs::path fetch(const Wanted& wanted) { return fetch_from_hub(id_, wanted, options_); }
  /// Expects an error of one or two lines that contains the text.
  void refuses(const std::string& why, const Wanted& wanted = below("train/")) {
    try {
      fetch(wanted);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, HasSubstr(why));
      EXPECT_LE(std::ranges::count(text, '\n'), 1) << text;
    }
  }
  fs::path repo() const { return scratch_ / "cache/datasets--org--name"; }
  fs::path snapshot() const { return repo() / "snapshots" / kCommit; }
  /// Paths of the files in the snapshot, after checking their contents.
  std::set<std::string> came() const {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(snapshot())) {
      if (!entry.is_directory()) {
        const std::string path = entry.path().lexically_relative(snapshot());
        EXPECT_EQ(io::read_text(entry.path()), files_.at(path)) << path;
        out.insert(path);
      }
    }
    return out;
  }
  /// The leftover of one file from a program that keeps no listing.
  void put(const std::string& path) {
    fs::create_directories((snapshot() / path).parent_path());
    io::write_file(snapshot() / path, files_.at(path));
    fs::create_directories(repo() / "refs");
    io::write_file(repo() / "refs/main", kCommit);
  }

  io::Scratch scratch_;
  std::map<std::string, std::string> files_;
  std::optional<Reply> refusal_;
  bool gated_ = false;
  std::atomic<int> broken_ = 0;
  std::string breaks_ = "train/0000.parquet";
  TestServer store_;
  TestServer hub_;
  HubOptions options_;
  HubId id_{.repo = "org/name", .revision = "main", .file = "", .dataset = true};
};

TEST_F(HubDataset, DownloadsChosenFilesOnce) {
  EXPECT_EQ(fetch(below("train/")), snapshot());

  EXPECT_THAT(came(), UnorderedElementsAre("train/0000.parquet", "train/0001.parquet"));
  EXPECT_EQ(io::read_text(repo() / "refs/main"), kCommit);
  const size_t before = hub_.received().size();
  EXPECT_EQ(fetch(below("train/")), snapshot());
  options_.offline = true;
  EXPECT_EQ(fetch(below("train/")), snapshot());
  EXPECT_EQ(hub_.received().size(), before);
}

TEST_F(HubDataset, DownloadsFilesOfAnotherSplitOrPattern) {
  fetch(below("train/0001"));
  EXPECT_THAT(came(), UnorderedElementsAre("train/0001.parquet"));

  fetch(below("train/"));
  fetch(below("test/"));

  EXPECT_THAT(came(), UnorderedElementsAre("train/0000.parquet", "train/0001.parquet",
                                           "test/0000.parquet"));
  EXPECT_EQ(store_.count("GET", "/train/0001"), 1);
}

TEST_F(HubDataset, ReadsOtherBranchesAndCommits) {
  id_.revision = kBranch;
  fetch(below("test/"));
  EXPECT_EQ(io::read_text(repo() / "refs" / kBranch), kCommit);
  EXPECT_EQ(hub_.count("GET", "/api/datasets/org/name/revision/refs%2Fconvert%2Fparquet"), 1);

  id_.revision = kCommit;
  fetch(below("train/"));
  EXPECT_THAT(came(), testing::SizeIs(3));
  EXPECT_FALSE(fs::exists(repo() / "refs" / kCommit));

  id_.revision = "v9";
  refuses("it has no revision `v9`");
}

TEST_F(HubDataset, GoesOnWhereATransferBroke) {
  broken_ = 2;
  fetch(below("train/"));

  std::vector<std::string> ranges;
  for (const Received& request : store_.received()) {
    if (request.target == "/train/0000.parquet") {
      ranges.push_back(request.header("range"));
    }
  }
  EXPECT_THAT(ranges, testing::ElementsAre("", "bytes=100001-", "bytes=150002-"));
  EXPECT_THAT(came(), testing::SizeIs(2));
}

// A commit has no ref that would show that it is complete.
TEST_F(HubDataset, IsIncompleteAfterAnInterruption) {
  for (const std::string& revision : {std::string("main"), kCommit}) {
    SCOPED_TRACE(revision);
    fs::remove_all(repo());
    id_.revision = revision;
    breaks_ = "train/0001.parquet";
    broken_ = 3;  // more often than the number of tries
    refuses("was not downloaded");
    EXPECT_THAT(came(), UnorderedElementsAre("train/0000.parquet"));

    options_.offline = true;
    refuses("HF_HUB_OFFLINE is set");
    options_.offline = false;
    EXPECT_EQ(fetch(below("train/")), snapshot());
    EXPECT_THAT(came(), UnorderedElementsAre("train/0000.parquet", "train/0001.parquet"));
  }
}

TEST_F(HubDataset, ListsACommitOfAnotherProgramOnce) {
  put("train/0000.parquet");
  fetch(below("train/"));
  EXPECT_THAT(came(), UnorderedElementsAre("train/0000.parquet", "train/0001.parquet"));
  EXPECT_EQ(store_.count("GET", "/train/0000"), 0);

  fs::remove_all(repo());
  put("train/0000.parquet");
  put("train/0001.parquet");
  const int64_t asked = hub_.count("GET", "/api/");
  fetch(below("train/"));
  fetch(below("train/"));
  EXPECT_EQ(hub_.count("GET", "/api/"), asked + 1);
  EXPECT_EQ(hub_.count("GET", "/api/datasets/org/name/revision/" + kCommit), 2);

  io::write_file(repo() / "listings" / (kCommit + ".json"), "[\"train/00");
  fetch(below("train/"));
  EXPECT_EQ(hub_.count("GET", "/api/"), asked + 2) << "a corrupt listing is requested again";
}

TEST_F(HubDataset, UsesTheCacheIfTheHubDoesNotAnswer) {
  put("train/0000.parquet");
  options_.offline = true;
  EXPECT_EQ(fetch(below("train/")), snapshot());
  options_.offline = false;
  refusal_ = Reply{.status = 401};
  EXPECT_EQ(fetch(below("train/")), snapshot());
  {
    const TestServer gone([](const Received&) { return Reply{}; });
    options_.endpoint = gone.url();
  }
  EXPECT_EQ(fetch(below("train/")), snapshot());
  refuses("cannot be fetched", below("test/"));
}

TEST_F(HubDataset, SaysWhatARefusalMeans) {
  refusal_ = Reply{.status = 401, .headers = {"X-Error-Code: RepoNotFound"}};
  refuses("org/name cannot be read (401): there is no such data set, or it is private");
  refusal_ = Reply{.status = 404, .headers = {"X-Error-Code: RepoNotFound"}};
  refuses("(404): is the name right?");
  refusal_.reset();
  gated_ = true;
  refuses("train/0000.parquet of org/name is gated (401)");
  refuses(options_.endpoint + "/datasets/org/name and set HF_TOKEN");
  gated_ = false;
  refuses("there is no validation/", below("validation/"));
  EXPECT_FALSE(fs::exists(repo() / "refs"));
}

}  // namespace
}  // namespace kinema::remote
