// The queue with engines that are real processes, and that are killed.
#include "kinema/serve/queue.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/http/message.h"
#include "serve/fixture.h"

namespace kinema::serve_test {
namespace {

using namespace std::chrono_literals;
using http::Refusal;
using serve::JobRecord;
using serve::JobState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The status of the Refusal that `call` throws; 0 without one.
template <typename Call>
int refusal(const Call& call) {
  try {
    call();
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
  return 0;
}

class QueueTest : public ::testing::Test {
 protected:
  void TearDown() override { queue_.reset(); }

  serve::Queue& open(serve::QueueOptions options = {}) {
    queue_.reset();
    store_.reset();
    store_ = std::make_unique<serve::Store>(folder_.path());
    options.engine = {fake_engine()};
    options.free_bytes = 0;
    options.restart_time = 1ms;
    queue_ = std::make_unique<serve::Queue>(*store_, catalogue_, events_, options);
    return *queue_;
  }
  JobRecord add(const std::string& prompt) { return queue_->add(asking(prompt), "page"); }
  JobState state(const JobRecord& job) { return store_->job(job.id)->state; }
  bool ends(const JobRecord& job) {
    return becomes_true([&] { return store_->job(job.id)->has_ended(); });
  }
  bool samples(const JobRecord& job) {
    return becomes_true([&] {
      const auto live = queue_->live();
      return live && live->id == job.id && live->step > 0;
    });
  }
  std::string all_events() { return events_.read(0, 10'000'000).text; }

  io::Scratch folder_;
  FakeCatalogue catalogue_;
  http::EventStream events_;
  std::unique_ptr<serve::Store> store_;
  std::unique_ptr<serve::Queue> queue_;
};

TEST_F(QueueTest, MakesWhatIsAsked) {
  open();
  serve::MakeRequest request = asking("a fox");
  request.count = 2;
  const JobRecord job = queue_->add(request, "page");
  ASSERT_TRUE(ends(job));

  EXPECT_EQ(state(job), JobState::DONE);
  const auto outputs = store_->outputs_of(job.id);
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[1].index, 1);
  EXPECT_EQ(outputs[1].prompt, "a fox");
  EXPECT_EQ(outputs[1].seed, store_->job(job.id)->request.seed());
  EXPECT_EQ(static_cast<uintmax_t>(outputs[1].bytes), std::filesystem::file_size(outputs[1].path));
  EXPECT_THAT(store_->job(job.id)->notices, ElementsAre("made by a fake"));
  EXPECT_EQ(queue_->engine().device, "a fake device");
  ASSERT_TRUE(becomes_true([&] { return queue_->engine().state == "ready"; }));
  EXPECT_EQ(queue_->engine().model, "tiny");
  EXPECT_THAT(all_events(), HasSubstr("\"state\": \"waiting\""));
  EXPECT_THAT(all_events(), HasSubstr("event: output"));
  // The event follows what the store has.
  EXPECT_TRUE(
      becomes_true([&] { return all_events().find("\"state\": \"done\"") != std::string::npos; }));
}

TEST_F(QueueTest, RefusesBeforeItStores) {
  open({.most_waiting = 1});
  queue_->pause(true);
  const auto status = [&](const auto& change) {
    serve::MakeRequest request = asking("a");
    change(request);
    return refusal([&] { queue_->add(request, "page"); });
  };
  EXPECT_EQ(status([](auto& request) { request.model = "unknown"; }), 404);
  EXPECT_EQ(status([](auto& request) { request.count = 17; }), 422);
  EXPECT_EQ(status([](auto& request) { request.inputs["image"] = "unknown"; }), 422);
  EXPECT_EQ(status([](auto& request) { request.loras = {{"unknown", 1.0}}; }), 422);
  EXPECT_EQ(status([](auto& request) { request.settings.set("steps", 1000); }), 422);
  EXPECT_EQ(status([](auto& request) { request.settings.set("output_dir", "/"); }), 422);
  EXPECT_EQ(store_->waiting(), 0);
  EXPECT_EQ(status([](auto&) {}), 0);
  EXPECT_EQ(status([](auto&) {}), 429);
}

TEST_F(QueueTest, ReportsWhatTheEngineThrows) {
  open();
  const JobRecord failed = add("fail");
  const JobRecord next = add("a fox");
  ASSERT_TRUE(ends(next));
  EXPECT_EQ(state(failed), JobState::FAILED);
  EXPECT_THAT(store_->job(failed.id)->error, HasSubstr("this prompt fails"));
  EXPECT_EQ(state(next), JobState::DONE);
  EXPECT_EQ(queue_->deaths(), 0);
}

TEST_F(QueueTest, PausesBetweenJobs) {
  open();
  queue_->pause(true);
  const JobRecord job = add("a");
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(state(job), JobState::WAITING);
  EXPECT_TRUE(open().is_paused());  // also after a new start
  queue_->pause(false);
  EXPECT_TRUE(ends(job));
}

TEST_F(QueueTest, CancelsWaitingAndRunningJobs) {
  open();
  const JobRecord running = add("slow");
  const JobRecord waiting = add("a fox");
  const JobRecord last = add("a kite");
  ASSERT_TRUE(samples(running));
  queue_->cancel(waiting.id);
  EXPECT_EQ(state(waiting), JobState::CANCELLED);
  queue_->cancel(running.id);
  ASSERT_TRUE(ends(last));
  EXPECT_EQ(state(running), JobState::CANCELLED);
  EXPECT_EQ(state(last), JobState::DONE);
  EXPECT_EQ(refusal([&] { queue_->cancel(running.id); }), 409);
  EXPECT_EQ(refusal([&] { queue_->cancel("unknown"); }), 404);
  EXPECT_EQ(queue_->deaths(), 0);
}

TEST_F(QueueTest, KillsAnEngineThatDoesNotStop) {
  open({.stop_time = 300ms});
  const JobRecord deaf = add("deaf");
  ASSERT_TRUE(samples(deaf));
  queue_->cancel(deaf.id);
  ASSERT_TRUE(ends(deaf));
  EXPECT_EQ(state(deaf), JobState::CANCELLED);
  const JobRecord next = add("a fox");
  ASSERT_TRUE(ends(next));
  EXPECT_EQ(state(next), JobState::DONE);
}

TEST_F(QueueTest, TriesAgainWhenTheEngineDies) {
  open();
  const JobRecord once = add("once");
  ASSERT_TRUE(ends(once));
  EXPECT_EQ(state(once), JobState::DONE);
  EXPECT_EQ(store_->job(once.id)->attempts, 2);
  EXPECT_EQ(queue_->deaths(), 1);
}

TEST_F(QueueTest, GivesUpAJobThatKillsThreeEngines) {
  open();
  const JobRecord deadly = add("die");
  const JobRecord next = add("a fox");
  ASSERT_TRUE(ends(next));
  EXPECT_EQ(state(deadly), JobState::FAILED);
  EXPECT_THAT(store_->job(deadly.id)->error, HasSubstr("3 times"));
  EXPECT_THAT(store_->job(deadly.id)->error, HasSubstr("signal 9"));
  EXPECT_EQ(state(next), JobState::DONE);
}

TEST_F(QueueTest, SaysThatThereIsNoEngine) {
  store_ = std::make_unique<serve::Store>(folder_.path());
  serve::QueueOptions options{.engine = {"/nowhere/kinema"}, .free_bytes = 0, .restart_time = 1ms};
  queue_ = std::make_unique<serve::Queue>(*store_, catalogue_, events_, options);
  const JobRecord job = add("a fox");
  ASSERT_TRUE(ends(job));
  EXPECT_THAT(store_->job(job.id)->error, HasSubstr("exit status 127"));
}

TEST_F(QueueTest, PutsTheRunningJobBackWhenItEnds) {
  open();
  const JobRecord job = add("slow");
  ASSERT_TRUE(samples(job));
  queue_.reset();
  EXPECT_EQ(state(job), JobState::WAITING);
  EXPECT_EQ(store_->job(job.id)->attempts, 0);
  open();
  ASSERT_TRUE(ends(job));
  EXPECT_EQ(state(job), JobState::DONE);
}

TEST_F(QueueTest, EditsMovesAndRetries) {
  open();
  queue_->pause(true);
  const JobRecord first = add("first");
  const JobRecord second = add("second");
  queue_->move(second.id, first.id);
  queue_->edit(first.id, asking("edited"));
  EXPECT_EQ(refusal([&] { queue_->edit(first.id, asking("a")), queue_->remove(first.id); }), 409);
  EXPECT_EQ(refusal([&] { queue_->retry(first.id); }), 409);
  queue_->pause(false);
  ASSERT_TRUE(ends(first));
  ASSERT_TRUE(ends(second));
  EXPECT_LE(*store_->job(second.id)->started, *store_->job(first.id)->started);
  EXPECT_EQ(store_->job(first.id)->request.prompt(), "a");
  EXPECT_EQ(refusal([&] { queue_->edit(first.id, asking("late")); }), 409);
  EXPECT_EQ(refusal([&] { queue_->move(first.id, ""); }), 409);
  const JobRecord again = queue_->retry(first.id);
  EXPECT_NE(again.request.seed(), first.request.seed());
  EXPECT_EQ(again.request.prompt(), "a");
  queue_->remove(first.id);
  EXPECT_EQ(refusal([&] { queue_->find(first.id); }), 404);
}

TEST_F(QueueTest, LoadsAndUnloads) {
  open({.unload_time = 0ms});
  queue_->load("tiny");
  EXPECT_TRUE(becomes_true([&] { return queue_->engine().state == "ready"; }));
  queue_->unload();
  EXPECT_TRUE(becomes_true([&] { return queue_->engine().state == "none"; }));
  EXPECT_EQ(refusal([&] { queue_->load("unknown"); }), 404);
  const JobRecord job = add("slow");
  ASSERT_TRUE(samples(job));
  EXPECT_EQ(refusal([&] { queue_->unload(); }), 409);
}

TEST_F(QueueTest, UnloadsAnEngineWithoutWork) {
  open({.unload_time = 100ms});
  ASSERT_TRUE(ends(add("a fox")));
  EXPECT_TRUE(becomes_true([&] { return queue_->engine().state == "none"; }));
}

TEST_F(QueueTest, TellsWhoWaitsAndCancelsWhatNobodyWaitsFor) {
  open({.leave_time = 200ms});
  std::atomic<bool> told = false;
  const JobRecord quick = add("a fox");
  queue_->wait({.job = quick.id, .until = std::chrono::steady_clock::now() + 60s, .done = [&] {
                  told = true;
                }});
  EXPECT_TRUE(becomes_true([&] { return told.load(); }));
  EXPECT_EQ(state(quick), JobState::DONE);

  std::atomic<bool> timed_out = false;
  const JobRecord deaf = add("slow");
  queue_->wait({.job = deaf.id, .until = std::chrono::steady_clock::now() + 1ms, .done = [&] {
                  timed_out = true;
                }});
  EXPECT_TRUE(becomes_true([&] { return timed_out.load(); }));

  queue_->wait({.job = deaf.id,
                .until = std::chrono::steady_clock::now() + 60s,
                .is_gone = [] { return true; },
                .done = [] {}});
  ASSERT_TRUE(ends(deaf));
  EXPECT_EQ(state(deaf), JobState::CANCELLED);
}

}  // namespace
}  // namespace kinema::serve_test
