// What `inspect` says of folders, and of what is in them.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "kinema/core/error.h"
#include "kinema/inspection/accept.h"
#include "kinema/inspection/contents.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/temporary_folder.h"

namespace kinema::inspection {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class Folders : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    const fs::path file = folder_.path() / name;
    fs::create_directories(file.parent_path());
    io::write_file(file, text);
    return file.parent_path();
  }
  std::string summary(const fs::path& path) const { return contents(path, {}).summary; }

  io::TemporaryFolder folder_{"inspection"};
};

TEST_F(Folders, PartsOfAPipelineAreNamed) {
  for (const auto& [file, part] :
       {std::pair("a/scheduler_config.json", "scheduler"), std::pair("b/spiece.model", "tokenizer"),
        std::pair("c/tokenizer.json", "tokenizer"),
        std::pair("d/tokenizer_config.json", "tokenizer")}) {
    const fs::path folder = write(file, "{}");
    const auto names_it = ThrowsMessage<Error>(AllOf(
        StartsWith("[inspect] "), HasSubstr(std::string("is the ") + part + " of a pipeline")));
    EXPECT_THAT([&] { accept(folder); }, names_it);
    EXPECT_THAT([&] { contents(folder, {}); }, names_it);
  }
  // One file of CLIP's tokenizer is not yet a tokenizer.
  const fs::path vocabulary = write("e/vocab.json", "{}");
  EXPECT_THAT([&] { accept(vocabulary); },
              ThrowsMessage<Error>(HasSubstr("it holds files like vocab.json")));
  write("e/merges.txt", "");
  EXPECT_THAT([&] { accept(vocabulary); }, ThrowsMessage<Error>(HasSubstr("is the tokenizer")));
}

TEST_F(Folders, CheckpointsSayWhatTheyAreOf) {
  const fs::path folder = write("4/train_state.json",
                                R"({"step": 4, "updates": 2, "data_position": 8, "seed": 7,
                                    "settings": {"optimizer": "lion"}})");
  EXPECT_THAT(summary(folder),
              StartsWith("checkpoint after 4 steps, 2 updates, 8 samples, seed 7, lion:"));
  // Of another program or version: what is missing or of another type is left out.
  write("4/train_state.json", R"({"step": "4", "updates": 2.5, "settings": []})");
  EXPECT_THAT([&] { return summary(folder); }, ThrowsMessage<Error>(HasSubstr("train_state.json")));
  write("4/train_state.json", R"({"step": "4", "updates": 2.5, "settings": {"optimizer": 1}})");
  EXPECT_THAT(summary(folder), StartsWith("checkpoint: train_state.json"));
}

}  // namespace
}  // namespace kinema::inspection
