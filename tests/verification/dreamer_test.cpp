#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "kinema/core/error.h"
#include "kinema/runtime/client.h"
#include "kinema/verification/verify.h"
#include "reference.h"

namespace kinema::verification {
namespace {

const std::filesystem::path kDreamer = kGolden / "dreamer";

// dreamer_train_test has it.
const char* const kTrainCase = "dreamer_cont_train";

pjrt::Client& device() {
  static pjrt::Client opened = runtime::open_client({});
  return opened;
}

TEST(DreamerCases, AllMatchTheReference) {
  expect_all_match(run_cached(kDreamer, device(), {.skip = {kTrainCase}}));
}

struct Mutation {
  const char* name;
  const char* from;  // in agent.json, of which the first place is changed
  const char* to;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder with one case, whose agent is changed.
std::filesystem::path mutated(const Mutation& mutation) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "kinema_dreamer_mutation";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "io");
  for (const char* end : {".json", ".safetensors"}) {
    const std::string file = std::string(mutation.name) + end;
    std::filesystem::copy_file(kDreamer / "io" / file, folder / "io" / file);
  }
  const std::string agent = std::string("dreamer_cont");
  std::filesystem::copy(kDreamer / agent, folder / agent);
  std::string text = text_of(folder / agent / "agent.json");
  const size_t at = text.find(mutation.from);
  check(at != std::string::npos, "[test] agent.json has no {}", mutation.from);
  text.replace(at, std::string(mutation.from).size(), mutation.to);
  std::filesystem::remove(folder / agent / "agent.json");
  std::ofstream(folder / agent / "agent.json") << text;
  return folder;
}

// What the cases are for: an agent that is another one in any of these does not pass.
TEST(DreamerCases, SeeWhatIsChangedInAnAgent) {
  for (const Mutation& mutation :
       {Mutation{"dreamer_cont_rssm", R"("unimix": 0.01)", R"("unimix": 0.0)"},
        Mutation{"dreamer_cont_rssm", R"("free_nats": 1.0)", R"("free_nats": 0.5)"},
        Mutation{"dreamer_cont_rssm", R"("act": "silu")", R"("act": "gelu")"},
        Mutation{"dreamer_cont_rssm", R"("norm": "rms")", R"("norm": "rms1em2")"},
        Mutation{"dreamer_cont_encoder", R"("symlog": true)", R"("symlog": false)"},
        Mutation{"dreamer_cont_heads", R"("minstd": 0.1)", R"("minstd": 0.2)"},
        Mutation{"dreamer_cont_heads", R"("maxstd": 1.0)", R"("maxstd": 1.1)"}}) {
    SCOPED_TRACE(mutation.to);
    const Report report = run_cached(mutated(mutation), device());
    bool compared = false;
    for (const Row& row : report.rows) {
      compared = compared || (row.compared && !row.ok);
    }
    EXPECT_TRUE(compared) << to_table(report);
  }
}

}  // namespace
}  // namespace kinema::verification
