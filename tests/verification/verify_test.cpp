#include "kinema/verification/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"
#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

pjrt::Client& client() {
  static pjrt::Client opened = runtime::open_client({});
  return opened;
}

// images_test runs the cases of the UNet, float8_test those with float8.
TEST(Verify, EveryCaseMatchesTheReference) {
  expect_all_match(
      run_cached(kGolden, client(), {.skip = {kUnetCases, kFloat8Cases}, .scan_off = false}));
}

// Unrolled blocks: every tap of the networks and encoders, and one kind of training each.
TEST(Verify, EveryTapOfUnrolledBlocksMatchesTheReference) {
  for (const char* names : {"transformer", "umt5", "flux_t5", "clip2", "train_weighted"}) {
    expect_all_match(run_cached(kGolden, client(), {.filter = names, .scan_on = false}));
  }
}

TEST(Verify, RunsTransformersWithAndWithoutScan) {
  const Report report = run_cached(kGolden, client(), {.filter = "flux_transformer_edge"});

  std::set<std::string> names;
  for (const Row& row : report.rows) {
    names.insert(row.name);
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"flux_transformer_edge", "flux_transformer_edge (scan)"}));
}

TEST(Verify, AStopIsMetWithinACaseBeforeTheNextProgram) {
  int asked = 0;
  std::set<std::string> done;
  Options options{.filter = "flux_transformer_edge", .threads = 1};
  options.check_stop = [&] {
    if (++asked > 1) {  // the case has two forms, with one program each
      throw Stopped();
    }
  };
  options.on_case = [&](const std::vector<Row>& rows) { done.insert(rows.front().name); };

  EXPECT_THROW(run(kGolden, client(), options), Stopped);
  EXPECT_THAT(done, IsEmpty());
}

TEST(Verify, ADamagedCaseFailsAlone) {
  const fs::path folder = fs::path(testing::TempDir()) / "kinema_verify_damaged";
  fs::remove_all(folder);
  fs::create_directories(folder / "io");
  for (const char* name : {"sched.json", "sched.safetensors"}) {
    fs::copy_file(kGolden / "io" / name, folder / "io" / name);
  }
  std::ofstream(folder / "io" / "train.json") << "{ broken";
  std::ofstream(folder / "io" / "somewhat_new.json") << "{}";

  const Report report = run_cached(folder, client());

  EXPECT_FALSE(report.ok());
  bool damaged = false;
  bool unknown = false;
  for (const Row& row : report.rows) {
    SCOPED_TRACE(row.name + " " + row.tensor);
    if (row.name == "train") {
      damaged = !row.ok && !row.unsupported && !row.message.empty();
    } else if (row.name == "somewhat_new") {
      unknown = row.unsupported;
    } else {
      EXPECT_TRUE(row.ok);
    }
  }
  EXPECT_TRUE(damaged);
  EXPECT_TRUE(unknown);
  fs::remove_all(folder);
}

TEST(Verify, SeesOneWrongValue) {
  const fs::path folder = fs::path(testing::TempDir()) / "kinema_verify_wrong";
  fs::remove_all(folder);
  fs::create_directories(folder / "io");
  fs::copy_file(kGolden / "io/sched.json", folder / "io/sched.json");
  const auto file = io::SafetensorsFile::open(kGolden / "io/sched.safetensors");
  HostArray wrong = file.at("unipc.shift5.steps8.sigmas").copy();
  wrong.as<float>()[3] += 2e-6F;  // twice the limit
  std::vector<io::TensorEntry> entries;
  for (const io::TensorView& tensor : file.tensors()) {
    entries.push_back(tensor.name == "unipc.shift5.steps8.sigmas"
                          ? io::TensorEntry::of(tensor.name, wrong)
                          : io::TensorEntry::of(tensor.name, tensor));
  }
  io::write_safetensors(folder / "io/sched.safetensors", entries);

  const Report report = run_cached(folder, client());

  std::vector<std::string> missed;
  for (const Row& row : report.rows) {
    if (!row.ok) {
      missed.push_back(row.tensor);
    }
  }
  EXPECT_THAT(missed, ElementsAre("unipc.shift5.steps8.sigmas"));
  fs::remove_all(folder);
}

TEST(Verify, SaysWhenThereIsNothingToRun) {
  EXPECT_THAT([] { run_cached(kGolden / "io", client()); },
              ThrowsMessage<Error>(HasSubstr("holds no reference cases")));
  EXPECT_THAT([] { run_cached(kGolden, client(), {.filter = "sched", .skip = {"sched"}}); },
              ThrowsMessage<Error>(HasSubstr("`sched`")));
  EXPECT_THAT([] { run_cached(kGolden, client(), {.filter = "nowhere"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`nowhere`"), HasSubstr("there are "))));
  EXPECT_THAT([] { run("nope", client()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("there is no `nope`, expected a folder"),
                                         HasSubstr("tests/golden"), HasSubstr("--filter"))));
}

}  // namespace
}  // namespace kinema::verification
