#include "kinema/serve/store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/http/message.h"
#include "kinema/serve/database.h"

namespace kinema::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

MakeRequest asking(const std::string& prompt, const std::string& model = "tiny") {
  MakeRequest out{.model = model};
  out.settings.set("prompt", prompt).set("seed", int64_t{7});
  return out;
}

std::vector<std::string> prompts(const std::vector<JobRecord>& jobs) {
  std::vector<std::string> out;
  for (const JobRecord& job : jobs) {
    out.push_back(job.request.prompt());
  }
  return out;
}

class StoreTest : public ::testing::Test {
 protected:
  Store& open() {
    store_.reset();
    return *(store_ = std::make_unique<Store>(folder_ / "serve"));
  }
  std::string add(const std::string& prompt, const std::string& model = "tiny") {
    return store_->add(asking(prompt, model), "page", "").id;
  }

  io::Scratch folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, KeepsWhatWasStored) {
  MakeRequest request = asking("a \"fox\"\n\xf0\x9f\xa6\x8a");
  request.inputs = {{"image", "abc"}};
  request.loras = {{"kites", 0.5}};
  request.count = 3;
  const std::string id = open().add(request, "openai", "key").id;
  store_->set_setting("paused", "true");

  const auto job = open().job(id);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->state, JobState::WAITING);
  EXPECT_EQ(to_json(job->request).dump(), to_json(request).dump());
  EXPECT_EQ(job->source, "openai");
  EXPECT_EQ(store_->setting("paused"), "true");
  EXPECT_EQ(store_->setting("other"), "");
  struct stat about {};
  ASSERT_EQ(stat((folder_ / "serve/serve.db").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
}

TEST_F(StoreTest, AddsAJobOnceForAKey) {
  open();
  bool is_new = false;
  const std::string first = store_->add(asking("a"), "page", "k", &is_new).id;
  EXPECT_TRUE(is_new);
  EXPECT_EQ(store_->add(asking("b"), "page", "k", &is_new).id, first);
  EXPECT_FALSE(is_new);
  EXPECT_NE(store_->add(asking("b"), "page", "other", &is_new).id, first);
  EXPECT_EQ(store_->waiting(), 2);
}

TEST_F(StoreTest, OrdersAndMovesWaitingJobs) {
  open();
  const std::string a = add("a");
  const std::string b = add("b");
  const std::string c = add("c");
  EXPECT_TRUE(store_->move(c, a));
  EXPECT_THAT(prompts(store_->current_jobs(9)), ElementsAre("c", "a", "b"));
  EXPECT_TRUE(store_->move(c, b));
  EXPECT_THAT(prompts(store_->current_jobs(9)), ElementsAre("a", "c", "b"));
  EXPECT_TRUE(store_->move(a, ""));
  EXPECT_THAT(prompts(store_->current_jobs(9)), ElementsAre("c", "b", "a"));
  EXPECT_FALSE(store_->move(a, a));
  EXPECT_FALSE(store_->move(a, "unknown"));
  EXPECT_TRUE(store_->start(c));
  EXPECT_FALSE(store_->move(c, a));
  EXPECT_FALSE(store_->move(a, c));
  EXPECT_THAT(prompts(store_->current_jobs(9)), ElementsAre("c", "b", "a"));
}

TEST_F(StoreTest, LetsTheLoadedModelGoFirstForAWhile) {
  open();
  add("other", "flux");
  add("same", "tiny");
  EXPECT_EQ(store_->next("tiny", 60)->request.prompt(), "same");
  EXPECT_EQ(store_->next("tiny", -1)->request.prompt(), "other");
  EXPECT_EQ(store_->next("", 60)->request.prompt(), "other");
  EXPECT_EQ(store_->next("third", 60)->request.prompt(), "other");
}

TEST_F(StoreTest, GivesUpAfterThreeAttempts) {
  open();
  const std::string id = add("a");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_TRUE(store_->start(id));
    EXPECT_FALSE(store_->start(id));
    open().recover(3, "ended three times");
    EXPECT_EQ(store_->job(id)->state, attempt < 3 ? JobState::WAITING : JobState::FAILED);
    EXPECT_EQ(store_->job(id)->attempts, attempt);
  }
  EXPECT_EQ(store_->job(id)->error, "ended three times");
  EXPECT_FALSE(store_->start(id));
}

TEST_F(StoreTest, DoesNotCountAttemptsThatWereStopped) {
  open();
  const std::string id = add("a");
  store_->start(id);
  store_->put_back(id, /*counts=*/false);
  EXPECT_EQ(store_->job(id)->attempts, 0);
  store_->start(id);
  store_->put_back(id, /*counts=*/true);
  EXPECT_EQ(store_->job(id)->attempts, 1);
}

OutputRecord output(const std::string& id, const std::string& prompt, bool is_video = false) {
  return {.id = id,
          .path = "/tmp/" + id + ".png",
          .is_video = is_video,
          .width = 8,
          .height = 16,
          .model = "tiny",
          .prompt = prompt,
          .seed = 7,
          .made = now(),
          .request = asking(prompt)};
}

TEST_F(StoreTest, FinishesAJobTogetherWithItsOutputs) {
  open();
  const std::string id = add("a");
  EXPECT_THAT([&] { store_->finish(id, {output("o1", "a")}, {}); },
              ThrowsMessage<Error>(HasSubstr("not running")));
  EXPECT_THAT(store_->outputs_of(id), IsEmpty());
  store_->start(id);
  // The second has a number that is taken: nothing of it is stored.
  EXPECT_THROW(store_->finish(id, {output("o1", "a"), output("o1", "a")}, {}), Error);
  EXPECT_EQ(store_->job(id)->state, JobState::RUNNING);
  EXPECT_THAT(store_->outputs_of(id), IsEmpty());
  store_->finish(id, {output("o1", "a"), output("o2", "a")}, {"a notice"});
  EXPECT_EQ(open().job(id)->state, JobState::DONE);
  EXPECT_THAT(store_->job(id)->notices, ElementsAre("a notice"));
  EXPECT_EQ(store_->outputs_of(id).size(), 2U);
  EXPECT_FALSE(store_->end(id, JobState::CANCELLED));
  EXPECT_TRUE(store_->remove_job(id));
  EXPECT_EQ(store_->outputs_of(id).size(), 2U);
}

TEST_F(StoreTest, FindsOutputs) {
  open();
  const std::string id = add("a");
  store_->start(id);
  store_->finish(id,
                 {output("o1", "a Red fox"), output("o2", "a red kite", true),
                  output("o3", "100% of_all 'quotes'")},
                 {});
  const auto found = [&](OutputQuery query) {
    std::vector<std::string> out;
    const OutputPage page = store_->outputs(query);
    for (const OutputRecord& each : page.outputs) {
      out.push_back(each.id);
    }
    return out;
  };
  EXPECT_THAT(found({}), ElementsAre("o3", "o2", "o1"));
  EXPECT_THAT(found({.words = "RED  kit"}), ElementsAre("o2"));
  EXPECT_THAT(found({.words = "0% of_ 'q"}), ElementsAre("o3"));
  EXPECT_THAT(found({.words = "%"}), ElementsAre("o3"));
  EXPECT_THAT(found({.kind = "video"}), ElementsAre("o2"));
  EXPECT_THAT(found({.model = "flux"}), IsEmpty());
  EXPECT_THAT(found({.offset = 1, .limit = 1}), ElementsAre("o2"));
  EXPECT_EQ(store_->outputs({.limit = 1}).total, 3);
  store_->star("o1", true);
  EXPECT_THAT(found({.starred = true}), ElementsAre("o1"));
  store_->set_deleted("o2", now());
  EXPECT_THAT(found({}), ElementsAre("o3", "o1"));
  EXPECT_THAT(found({.deleted = true}), ElementsAre("o2"));
  store_->set_deleted("o2", std::nullopt);
  store_->forget_output("o3");
  EXPECT_THAT(found({}), ElementsAre("o2", "o1"));
}

TEST_F(StoreTest, KeepsUploadsThatJobsNeed) {
  open();
  store_->add_upload({.id = "aa", .path = "/tmp/aa", .type = "image/png"});
  store_->add_upload({.id = "bb", .path = "/tmp/bb", .type = "image/png"});
  MakeRequest request = asking("a");
  request.inputs = {{"image", "aa"}};
  const std::string id = store_->add(request, "page", "").id;
  EXPECT_THAT(store_->take_unused_uploads(now() - 10), IsEmpty());
  const auto unused = store_->take_unused_uploads(now() + 10);
  ASSERT_EQ(unused.size(), 1U);
  EXPECT_EQ(unused.front().id, "bb");
  EXPECT_FALSE(store_->upload("bb"));
  EXPECT_TRUE(store_->upload("aa"));
  store_->end(id, JobState::CANCELLED);
  EXPECT_EQ(store_->take_unused_uploads(now() + 10).size(), 1U);
}

TEST_F(StoreTest, IsOfOneServer) {
  open();
  EXPECT_THAT([&] { Store(folder_ / "serve"); },
              ThrowsMessage<Error>(HasSubstr("another `kinema serve`")));
}

TEST(MakeRequest, NamesTheFieldAtFault) {
  const auto param = [](const std::string& json) {
    try {
      read_request(io::Json::parse(json, "test"));
    } catch (const http::Refusal& refusal) {
      EXPECT_EQ(refusal.status, 422);
      return refusal.param;
    }
    return std::string("none");
  };
  EXPECT_EQ(param("{}"), "none");
  EXPECT_EQ(param(R"({"model":"a","settings":{},"inputs":{"image":null},"count":2})"), "none");
  EXPECT_EQ(param(R"({"modle":"a"})"), "modle");
  EXPECT_EQ(param(R"({"model":1})"), "model");
  EXPECT_EQ(param(R"({"settings":[]})"), "settings");
  EXPECT_EQ(param(R"({"inputs":{"image":1}})"), "inputs");
  EXPECT_EQ(param(R"({"inputs":[]})"), "inputs");
  EXPECT_EQ(param(R"({"loras":[{"scale":1}]})"), "loras");
  EXPECT_EQ(param(R"({"loras":[{"name":"a","scale":"x"}]})"), "loras");
  EXPECT_EQ(param(R"({"count":0})"), "count");
  EXPECT_EQ(param(R"({"count":1.5})"), "count");
  EXPECT_EQ(param("{\"model\":\"" + std::string(201, 'a') + "\"}"), "model");
}

TEST_F(StoreTest, BringsADatabaseOfVersion1UpToDate) {
  open();
  const std::string id = add("a fox");
  store_.reset();
  {
    Database database(folder_ / "serve/serve.db");
    database.run("DROP TABLE measure");
    database.run("PRAGMA user_version=1");
  }
  open();
  EXPECT_EQ(store_->job(id)->request.prompt(), "a fox");
  store_->measured("tiny", {.shape = "8x8x1", .cells = 64, .step_seconds = 0.5});
  store_->measured("tiny", {.shape = "8x8x1", .cells = 64, .step_seconds = 0.25});
  ASSERT_EQ(store_->measurements("tiny").size(), 1U);
  EXPECT_EQ(store_->measurements("tiny")[0].step_seconds, 0.25);
  EXPECT_TRUE(store_->measurements("other").empty());
}

}  // namespace
}  // namespace kinema::serve
