#include "remote/gcs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/error.h"
#include "io/atomic_write.h"
#include "io/crc32c.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/scratch.h"
#include "remote/digest.h"
#include "remote/test_server.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// The value of a key in a query, decoded; empty when it is not there.
std::string query(const std::string& target, const std::string& key) {
  for (const char* lead : {"?", "&"}) {
    const size_t at = target.find(lead + key + "=");
    if (at != std::string::npos) {
      const size_t begin = at + key.size() + 2;
      return decoded(target.substr(begin, target.find('&', begin) - begin));
    }
  }
  return "";
}

std::string base64_crc(const std::string& text) {
  const uint32_t crc = io::crc32c(std::as_bytes(std::span(text)));
  const unsigned char bytes[4] = {
      static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
      static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
  unsigned char out[9] = {};
  EVP_EncodeBlock(out, bytes, 4);
  return reinterpret_cast<const char*>(out);
}

/// One bucket, `bucket`, as the JSON API shows it: two objects a page.
class GcsTest : public testing::Test {
 protected:
  GcsTest() : server_([this](const Received& request) { return answer(request); }) {
    options_.endpoint = server_.url();
    options_.credentials = GcsCredentials::anonymous();
    options_.patience = {.connect_s = 2, .stall_s = 2, .retries = 2, .backoff_ms = 1};
    options_.cache = scratch_ / "cache";
  }

  Reply answer(const Received& request) {
    const std::scoped_lock lock(mutex_);
    if (refusal_ != 0) {
      return {.status = refusal_};
    }
    const std::string& target = request.target;
    const std::string path = target.substr(0, target.find('?'));
    const std::string objects = "/storage/v1/b/bucket/o";
    if (path == "/upload/storage/v1/b/bucket/o") {
      session_name_ = query(target, "name");
      session_.clear();
      return {.headers = {"Location: " + server_.url() + "/session"}};
    }
    if (path == "/session") {
      return take_piece(request);
    }
    if (path == objects) {
      return list(query(target, "prefix"), query(target, "pageToken"));
    }
    if (!path.starts_with(objects + "/")) {
      return {.status = 404};
    }
    std::string name = path.substr(objects.size() + 1);
    if (const size_t at = name.find("/rewriteTo/b/bucket/o/"); at != std::string::npos) {
      return rewrite(decoded(name.substr(0, at)), decoded(name.substr(at + 22)),
                     query(target, "rewriteToken"));
    }
    name = decoded(name);
    const auto found = contents_.find(name);
    if (found == contents_.end()) {
      return {.status = 404};
    }
    if (request.method == "DELETE") {
      contents_.erase(found);
      return {.status = 204};
    }
    return media(found->second, request.header("range"));
  }

  std::string about(const std::string& name) {
    const std::string& text = contents_.at(name);
    return fmt::format(R"({{"name": "{}", "size": "{}", "generation": "{}", "crc32c": "{}"}})",
                       name, text.size(), generations_[name] + 1,
                       damaged_ ? "AAAAAA==" : base64_crc(text));
  }

  Reply list(const std::string& prefix, const std::string& after) {
    std::string items;
    int count = 0;
    std::string last;
    for (const auto& [name, text] : contents_) {
      if (name.starts_with(prefix) && name > after) {
        if (++count == 3) {
          return {.body = fmt::format(R"({{"items": [{}], "nextPageToken": "{}"}})", items, last)};
        }
        items += (items.empty() ? "" : ", ") + about(name);
        last = name;
      }
    }
    return {.body = items.empty() ? "{}" : fmt::format(R"({{"items": [{}]}})", items)};
  }

  Reply media(const std::string& text, const std::string& range) {
    Reply reply{.body = text};
    if (!range.empty()) {
      const std::string numbers = range.substr(6);
      const size_t begin = std::stoull(numbers);
      if (begin >= text.size()) {
        return {.status = 416};
      }
      const std::string end = numbers.substr(numbers.find('-') + 1);
      const size_t last = end.empty() ? text.size() - 1 : std::stoull(end);
      reply.status = 206;
      reply.headers = {fmt::format("Content-Range: bytes {}-{}/{}", begin, last, text.size())};
      reply.body = text.substr(begin, last - begin + 1);
    }
    if (broken_ > 0) {
      --broken_;
      reply.cut_after = static_cast<int64_t>(reply.body.size() / 2);
    }
    return reply;
  }

  /// A resumable upload; `partial_` pieces are taken in half, `broken_` ones are answered with 503
  /// after they were taken.
  Reply take_piece(const Received& request) {
    if (request.method == "DELETE") {
      session_name_.clear();
      return {.status = 499};
    }
    const std::string range = request.header("content-range");
    const std::string total = range.substr(range.find('/') + 1);
    std::string body = request.body;
    if (partial_ > 0 && !body.empty()) {
      --partial_;
      body.resize(body.size() / 2);
    }
    session_ += body;
    if (broken_ > 0 && !body.empty()) {
      --broken_;
      return {.status = 503};
    }
    if (total != "*" && session_.size() == std::stoull(total)) {
      contents_[session_name_] = session_;
      ++generations_[session_name_];
      return {.body = about(session_name_)};
    }
    if (session_.empty()) {
      return {.status = 308};
    }
    return {.status = 308, .headers = {fmt::format("Range: bytes=0-{}", session_.size() - 1)}};
  }

  Reply rewrite(const std::string& from, const std::string& to, const std::string& token) {
    if (!contents_.contains(from)) {
      return {.status = 404};
    }
    if (token.empty()) {
      return {.body = R"({"done": false, "rewriteToken": "more"})"};
    }
    contents_[to] = contents_[from];
    ++generations_[to];
    return {.body = R"({"done": true})"};
  }

  GcsBucket bucket() const { return {"bucket", options_}; }

  io::Scratch scratch_;
  std::mutex mutex_;
  std::map<std::string, std::string> contents_;
  std::map<std::string, int64_t> generations_;
  std::string session_name_;
  std::string session_;
  int broken_ = 0;
  int partial_ = 0;
  int refusal_ = 0;
  bool damaged_ = false;
  TestServer server_;
  GcsOptions options_;
};

TEST_F(GcsTest, ListsEveryPage) {
  for (const char* name : {"a/1", "a/2", "a/3", "a/4 with spaces & more", "b"}) {
    contents_[name] = name;
  }
  std::vector<std::string> names;
  for (const GcsObject& object : bucket().list("a/")) {
    names.push_back(object.name);
    EXPECT_EQ(object.size, static_cast<int64_t>(object.name.size()));
    EXPECT_EQ(object.crc32c, io::crc32c(std::as_bytes(std::span(object.name))));
  }
  EXPECT_THAT(names, ElementsAre("a/1", "a/2", "a/3", "a/4 with spaces & more"));
  EXPECT_TRUE(bucket().find("b").has_value());
  EXPECT_FALSE(bucket().find("a").has_value());
}

TEST_F(GcsTest, ReadsARange) {
  contents_["x"] = "0123456789";
  EXPECT_EQ(bucket().read("x", 2, 3), "234");
  EXPECT_EQ(bucket().read("x", 8, 30), "89");
  EXPECT_EQ(bucket().read("x", 10, 3), "");
  broken_ = 1;
  EXPECT_EQ(bucket().read("x", 0, 10), "0123456789");
}

TEST_F(GcsTest, WritesAnObjectInPiecesThatAppearsAtItsEnd) {
  std::string text;
  for (int64_t i = 0; i < (int64_t{20} << 20); ++i) {
    text += static_cast<char>('a' + i * i % 23);
  }
  const auto write = [&](const std::string& name, size_t step) {
    const GcsBucket to = bucket();
    GcsBucket::Upload upload(to, name);
    for (size_t at = 0; at < text.size(); at += step) {
      upload.write(std::as_bytes(std::span(text).subspan(at, std::min(step, text.size() - at))));
    }
    {
      const std::scoped_lock lock(mutex_);
      EXPECT_FALSE(contents_.contains(name));
    }
    EXPECT_EQ(upload.commit().size, static_cast<int64_t>(text.size()));
    EXPECT_EQ(contents_.at(name), text);
  };
  write("whole", text.size());
  partial_ = 1;
  write("taken in part", 1'000'003);
  broken_ = 2;
  write("answered with 503", 5'000'000);
  text.resize(size_t{8} << 20);
  write("exactly a piece", text.size());
  text.clear();
  write("empty", 1);
}

TEST_F(GcsTest, ShowsNothingOfAnUploadThatIsGivenUp) {
  {
    const GcsBucket to = bucket();
    GcsBucket::Upload upload(to, "x");
    upload.write(std::as_bytes(std::span(std::string_view("half"))));
  }
  EXPECT_TRUE(contents_.empty());
  EXPECT_EQ(server_.count("DELETE", "/session"), 1);
}

TEST_F(GcsTest, SeesThatWhatArrivedIsSomethingElse) {
  damaged_ = true;
  const GcsBucket to = bucket();
  GcsBucket::Upload upload(to, "x");
  upload.write(std::as_bytes(std::span(std::string_view("text"))));
  EXPECT_THAT([&] { upload.commit(); }, ThrowsMessage<Error>(HasSubstr("damaged on the way")));
}

TEST_F(GcsTest, CopiesAndRemoves) {
  contents_["a/x"] = "text";
  bucket().copy("a/x", "b/y");
  bucket().remove("a/x");
  bucket().remove("a/x");

  EXPECT_EQ(contents_, (std::map<std::string, std::string>{{"b/y", "text"}}));
}

TEST_F(GcsTest, SaysWhatARefusalMeans) {
  const auto refuses = [&](int status, const char* why) {
    refusal_ = status;
    EXPECT_THAT([&] { bucket().list("a"); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses(401, "gs://bucket/a is not permitted (401): no credentials were found");
  refuses(403, "GOOGLE_APPLICATION_CREDENTIALS");
  refuses(404, "gs://bucket/a does not exist (404)");
  refuses(503, "answers 503");
  EXPECT_EQ(server_.count("GET", "/storage"), 3 + 3);
  refusal_ = 0;
  EXPECT_THAT([&] { bucket().read("absent", 0, 1); },
              ThrowsMessage<Error>(HasSubstr("gs://bucket/absent does not exist")));
  options_.endpoint = "http://127.0.0.1:1";
  EXPECT_THAT([&] { bucket().list("a"); }, ThrowsMessage<Error>(HasSubstr("cannot be reached")));
}

TEST_F(GcsTest, BringsAModelIntoTheCacheAndWhatChangedAgain) {
  contents_["models/wan/model_index.json"] = R"({"vae": ["diffusers", "AutoencoderKLWan"]})";
  contents_["models/wan/vae/config.json"] = "{}";
  contents_["models/wan/vae/diffusion_pytorch_model.safetensors"] = std::string(50'000, 'x');
  contents_["models/wan/notes.txt"] = "not needed";
  contents_["models/wan/"] = "";
  contents_["models/wan2/other.json"] = "not it";
  const GsPath path = *read_gs_path("gs://bucket/models/wan/");
  broken_ = 1;
  const fs::path folder = fetch_from_gs(path, {}, options_);

  EXPECT_TRUE(fs::exists(folder / "vae/config.json"));
  EXPECT_FALSE(fs::exists(folder / "notes.txt"));
  EXPECT_EQ(fs::file_size(folder / "vae/diffusion_pytorch_model.safetensors"), 50'000U);

  const int64_t before = server_.count("GET", "/storage/v1/b/bucket/o/");
  EXPECT_EQ(fetch_from_gs(path, {}, options_), folder);
  EXPECT_EQ(server_.count("GET", "/storage/v1/b/bucket/o/"), before);

  contents_["models/wan/vae/config.json"] = "{\"new\": 1}";
  ++generations_["models/wan/vae/config.json"];
  const fs::path fresh = fetch_from_gs(path, {}, options_);
  EXPECT_EQ(io::read_text(fresh / "vae/config.json"), "{\"new\": 1}");
  EXPECT_EQ(server_.count("GET", "/storage/v1/b/bucket/o/"), before + 1);

  EXPECT_THAT(
      [&] {
        fetch_from_gs({"bucket", "absent"}, {}, options_);
      },
      ThrowsMessage<Error>(HasSubstr("gs://bucket/absent does not exist")));
}

TEST_F(GcsTest, RemovesADownloadWithAnotherCrc) {
  contents_["a/x.safetensors"] = "text";
  damaged_ = true;
  EXPECT_THAT(
      [&] {
        fetch_from_gs({"bucket", "a/x.safetensors"}, {}, options_);
      },
      ThrowsMessage<Error>(HasSubstr("CRC-32C")));
  damaged_ = false;
  EXPECT_EQ(io::read_text(fetch_from_gs({"bucket", "a/x.safetensors"}, {}, options_)), "text");
}

TEST(GsPath, ReadsBucketAndName) {
  EXPECT_EQ(read_gs_path("gs://bucket/a/b/"), (GsPath{"bucket", "a/b"}));
  EXPECT_EQ(read_gs_path("gs://bucket"), (GsPath{"bucket", ""}));
  EXPECT_EQ(read_gs_path("/bucket/a"), std::nullopt);
  for (const char* text : {"gs://", "gs:///a", "gs://B/a", "gs://bucket/a/../b", "gs://bu@ket/a"}) {
    EXPECT_THAT([&] { read_gs_path(text); }, ThrowsMessage<Error>(HasSubstr("gs://BUCKET/PATH")))
        << text;
  }
}

}  // namespace
}  // namespace kinema::remote
