#include "kinema/training/profile_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/io/gzip.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/training/loop.h"

namespace kinema::training {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const pjrt::Plugin& fake(const std::string& kind) {
  return pjrt::Plugin::load(std::string(KINEMA_BINARY_DIR "/tests/pjrt_fake_") + kind + ".so");
}

/// An event of the trace for Perfetto.
struct Event {
  std::string process, thread, name;
  double begin_us = 0, end_us = 0;
  std::string args;
};

/// The written file of this kind.
fs::path written(const fs::path& folder, const std::string& ending) {
  fs::path found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) {
      EXPECT_TRUE(found.empty()) << "two of " << ending;
      found = entry.path();
    }
  }
  EXPECT_FALSE(found.empty()) << ending;
  // TensorBoard's layout: plugins/profile/TIME/HOST...
  EXPECT_EQ(found.parent_path().parent_path(), folder / "plugins" / "profile");
  return found;
}

std::vector<Event> read_trace(const fs::path& folder) {
  const io::MappedFile file = io::MappedFile::open(written(folder, ".trace.json.gz"));
  const std::vector<std::byte> bytes = io::gunzip(file.bytes(), "trace");
  const io::Json trace = io::Json::parse(
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "trace");
  std::map<std::pair<int64_t, int64_t>, std::string> names;
  std::vector<Event> out;
  for (const io::Json& each : trace.at("traceEvents").items()) {
    const int64_t process = each.at("pid").as_int();
    const int64_t thread = each.at("tid").as_int();
    const std::string& name = each.at("name").as_string();
    if (each.at("ph").as_string() == "M") {
      names[{process, thread}] = each.at("args").at("name").as_string();
      continue;
    }
    const double begin = each.at("ts").as_number();
    out.push_back({.process = names.at({process, 0}),
                   .thread = names.at({process, thread}),
                   .name = name,
                   .begin_us = begin,
                   .end_us = begin + each.at("dur").as_number(),
                   .args = each.at("args").dump(-1)});
  }
  return out;
}

std::vector<Event> named(const std::vector<Event>& events, const std::string& name) {
  std::vector<Event> out;
  for (const Event& event : events) {
    if (event.name == name) {
      out.push_back(event);
    }
  }
  return out;
}

/// Runs a loop without a device under the window; returns its lines.
std::vector<std::string> run(ProfileWindow& window, int64_t first_step, int64_t max_steps,
                             int64_t stop_after = -1) {
  std::vector<std::string> lines;
  const auto say = [&](const std::string& line) {
    if (!line.empty()) {
      lines.push_back(line);
    }
  };
  int64_t done = 0;
  const LoopParts parts{
      .begin_step = [&](int64_t step) { say(window.before_step(step)); },
      .next_batch = [] { return data::Batch{}; },
      .learning_rate = [](int64_t) { return 0.0; },
      .run_step =
          [&](int64_t, double, const data::Batch&) {
            ++done;
            return StepResult{};
          },
      .save = [](int64_t, bool) {},
      .saved = [](bool) {},
      .report = [](const StepRecord&) {},
      .stop_requested = [&] { return done == stop_after; },
  };
  train_loop({.first_step = first_step, .max_steps = max_steps, .checkpoint_every = 7}, parts);
  say(window.finish());
  return lines;
}

TEST(ProfileWindow, HasTheStepsThatWereAskedFor) {
  const io::Scratch scratch;
  ProfileWindow window({.skip_first = 2, .steps = 3}, fake("sound"), scratch.path(), 10, 20);
  const std::vector<std::string> lines = run(window, 10, 20);

  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("no profiler"));
  EXPECT_THAT(lines[1], HasSubstr("profile of steps 13 to 15: "));
  const std::vector<Event> events = read_trace(scratch.path());
  const std::vector<Event> steps = named(events, "train");
  ASSERT_EQ(steps.size(), 3U);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].process, "/host:CPU");
    EXPECT_THAT(steps[i].args, HasSubstr("\"step_num\": " + std::to_string(12 + i)));
    EXPECT_GE(steps[i].begin_us, i == 0 ? 0.0 : steps[i - 1].end_us);
  }
  for (const char* part : {"wait for data", "step", "report"}) {
    const std::vector<Event> parts = named(events, part);
    ASSERT_EQ(parts.size(), 3U) << part;
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_GE(parts[i].begin_us, steps[i].begin_us) << part;
      EXPECT_LE(parts[i].end_us, steps[i].end_us) << part;
    }
  }
  EXPECT_EQ(named(events, "checkpoint").size(), 1U);  // after step 13
  EXPECT_FALSE(trace::is_recording());
}

TEST(ProfileWindow, HasWhatThePluginSaysOfTheModelsOperations) {
  const io::Scratch scratch;
  ProfileWindow window({.skip_first = 0, .steps = 1}, fake("profiling"), scratch.path(), 0, 2);
  const std::vector<std::string> lines = run(window, 0, 2);

  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("profile of steps 1 to 1: "));
  const std::vector<Event> events = read_trace(scratch.path());
  const std::vector<Event> operations = named(events, "fusion.3");
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].process, "/device:FAKE:0");
  EXPECT_EQ(operations[0].thread, "Stream 1");
  EXPECT_THAT(operations[0].args, HasSubstr("blocks.0/attn1/to_q/dot"));
  // Both clocks count from the start of the recording: the operation began 2 us after the profiler
  // did, which began before the step. Numbers are printed to a millionth of a microsecond.
  EXPECT_NEAR(operations[0].end_us - operations[0].begin_us, 7, 1e-5);
  EXPECT_GE(operations[0].begin_us, 2);
  EXPECT_LE(operations[0].begin_us, named(events, "train").at(0).begin_us + 2);
  // The same for TensorBoard.
  const io::MappedFile file = io::MappedFile::open(written(scratch.path(), ".xplane.pb"));
  const std::string space(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (const char* part :
       {"blocks.0/attn1/to_q/dot", "/device:FAKE:0", "/host:CPU", "step_num", "Task Environment"}) {
    EXPECT_THAT(space, HasSubstr(part));
  }
}

TEST(ProfileWindow, ContinuesIfThePluginsProfilerFails) {
  const io::Scratch scratch;
  ProfileWindow window({.skip_first = 1, .steps = 1}, fake("busy_profiler"), scratch.path(), 0, 3);
  const std::vector<std::string> lines = run(window, 0, 3);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("another profiler is at work"), HasSubstr("threads")));
  EXPECT_EQ(named(read_trace(scratch.path()), "train").size(), 1U);
}

TEST(ProfileWindow, IsWrittenWhenTheRunEndsWithinIt) {
  const io::Scratch scratch;
  ProfileWindow window({.skip_first = 1, .steps = 100}, fake("sound"), scratch.path(), 0, 50);
  const std::vector<std::string> lines = run(window, 0, 50, 3);
  EXPECT_THAT(lines.back(), HasSubstr("profile of steps 2 to 3: "));
  EXPECT_EQ(named(read_trace(scratch.path()), "train").size(), 2U);
}

TEST(ProfileWindow, RefusesARunThatEndsBeforeIt) {
  const auto make = [](int64_t skip) {
    return [=] { ProfileWindow({.skip_first = skip, .steps = 1}, fake("sound"), "x", 2, 6); };
  };
  EXPECT_THAT(make(4), ThrowsMessage<Error>(AllOf(HasSubstr("would be 7, but the run ends after 6"),
                                                  HasSubstr("below 4"))));
  EXPECT_NO_THROW(make(3)());
}

TEST(Trace, RecordsEachThreadUnderItsName) {
  { const trace::Scope before("before"); }
  trace::start();
  EXPECT_THROW(trace::start(), Error);
  std::jthread([] {
    trace::name_thread("helper");
    const trace::Scope outer("outer");
    const trace::Scope inner("inner", 7);
  }).join();
  trace::add("device", "program", trace::now_ns(), trace::now_ns());
  const trace::Recording recording = trace::stop();
  { const trace::Scope after("after"); }

  ASSERT_EQ(recording.spans.size(), 3U);
  EXPECT_EQ(recording.threads, (std::vector<std::string>{"helper", "device"}));
  EXPECT_EQ(recording.spans[0].name, "inner");
  EXPECT_EQ(recording.spans[0].step, 7);
  EXPECT_EQ(recording.spans[1].name, "outer");
  EXPECT_LE(recording.spans[1].begin_ns, recording.spans[0].begin_ns);
  EXPECT_GE(recording.spans[1].end_ns, recording.spans[0].end_ns);
  EXPECT_EQ(recording.spans[2].thread, 1U);
}

}  // namespace
}  // namespace kinema::training
