#include <gmock/gmock.h>

#include "cli/run_kinema.h"

/// The scripts of `kinema completion` and the pages of `kinema manual`, as read by a shell and by
/// man.
namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Completion : public KinemaTest {
 protected:
  void SetUp() override {
    KinemaTest::SetUp();
    const Outcome made = run({"completion", "bash"});
    ASSERT_EQ(made.status, 0) << made.err;
    write("kinema.bash", made.out);
    write("configs/a.yml", "");
  }

  /// The completions that bash offers for the last of `words`, split at `=` as in bash; one per
  /// line.
  std::string offered(const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) {
      list += " " + quoted(word);
    }
    const std::string script = "cd " + quoted(folder_.string()) +
                               " && source ./kinema.bash && COMP_WORDS=(" + list +
                               ") COMP_CWORD=" + std::to_string(words.size() - 1) +
                               " && _kinema; printf '%s\\n' \"${COMPREPLY[@]}\"";
    write("ask.sh", script);
    EXPECT_EQ(std::system(("bash " + quoted((folder_ / "ask.sh").string()) + " >" +
                           quoted((folder_ / "offered").string()))
                              .c_str()),
              0);
    return read_text(folder_ / "offered");
  }
};

TEST_F(Completion, OffersCommandsAndTheirOptions) {
  EXPECT_EQ(offered({"kinema", "tr"}), "train\n");
  EXPECT_THAT(offered({"kinema", ""}),
              AllOf(HasSubstr("generate\n"), HasSubstr("doctor\n"), Not(HasSubstr("compile-job"))));
  EXPECT_EQ(offered({"kinema", "convert", "--sh"}), "--shard-gib\n");
  EXPECT_EQ(offered({"kinema", "flags", "ch"}), "check\n") << "commands of commands too";
}

TEST_F(Completion, OffersKeysAndTheirValues) {
  EXPECT_EQ(offered({"kinema", "train", "x.yml", "max_train_st"}), "max_train_steps=\n");
  EXPECT_EQ(offered({"kinema", "train", "hardware", "="}), "cpu\ngpu\ntpu\n");
  EXPECT_EQ(offered({"kinema", "train", "hardware", "=", "t"}), "tpu\n");
  EXPECT_EQ(offered({"kinema", "train", "enable_profiler", "=", "f"}), "false\n");
  EXPECT_EQ(offered({"kinema", "plan", "tar"}), "target=\ntarget_fps=\ntarget_size=\n");
  EXPECT_THAT(offered({"kinema", "plan", "target", "=", "h"}),
              AllOf(HasSubstr("h100:\n"), HasSubstr("h200:\n")));
}

TEST_F(Completion, OffersFiles) {
  EXPECT_EQ(offered({"kinema", "train", "configs/"}), "configs/a.yml\n");
  EXPECT_EQ(offered({"kinema", "train", "train_data_dir", "=", "conf"}), "configs\n");
  EXPECT_EQ(offered({"kinema", "inspect", "conf"}), "configs\n");
}

TEST_F(Completion, OfZshIsReadByIt) {
  const Outcome made = run({"completion", "zsh"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(made.out.starts_with("#compdef kinema\n"));
  if (std::system("command -v zsh >/dev/null") != 0) {
    GTEST_SKIP() << "there is no zsh";
  }
  write("_kinema", made.out);
  EXPECT_EQ(std::system(("zsh -n " + quoted((folder_ / "_kinema").string())).c_str()), 0);
}

using Manual = KinemaTest;

TEST_F(Manual, SaysWhatHelpSays) {
  const Outcome page = run({"manual", "train"});
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(page.out,
              AllOf(HasSubstr(".TH KINEMA-TRAIN 1"), HasSubstr("kinema-train \\- Train, or resume"),
                    HasSubstr("\\fB\\-\\-json\\fR")));
  const Outcome keys = run({"manual", "keys"});
  EXPECT_THAT(keys.out, AllOf(HasSubstr("\\fBmax_train_steps\\fR: "), HasSubstr(".SH OPTIMIZER")));
  run({"manual", "nothing"}).expect_error("no command `nothing`");
}

TEST_F(Manual, WritesAPageForEachCommand) {
  ASSERT_EQ(run({"manual", "--to", "man"}).status, 0);

  const std::string help = run({"--help"}).out;
  int pages = 0;
  for (const auto& page : std::filesystem::directory_iterator(folder_ / "man/man1")) {
    const std::string name = page.path().stem();
    if (name != "kinema") {
      ++pages;
      EXPECT_THAT(help, HasSubstr("  " + name.substr(name.find('-') + 1) + " ")) << name;
    }
    if (std::system("command -v man >/dev/null") == 0) {
      const std::string page_path = quoted(page.path().string());
      EXPECT_EQ(std::system(
                    ("test -z \"$(man --warnings -l " + page_path + " 2>&1 >/dev/null)\"").c_str()),
                0)
          << name;
    }
  }
  EXPECT_GE(pages, 11);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "man/man5/kinema-config.5"));
}

}  // namespace
}  // namespace kinema::cli_test
