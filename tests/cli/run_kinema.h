#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::cli_test {

/// The exit status and output of a command.
struct Outcome {
  int status = -1;  // exit status; 128 + n for signal n
  std::string out;
  std::string err;

  /// The form of all errors: status 1, one to three lines, the first starts with `kinema: `. Lines
  /// about a running compiler (on slow machines) and about keys that are given twice (by tests that
  /// override their configuration) are ignored.
  void expect_error(const std::string& about) const {
    EXPECT_EQ(status, 1) << out << err;
    EXPECT_TRUE(err.starts_with("kinema: ")) << err;
    int lines = 0;
    std::istringstream in(err);
    for (std::string line; std::getline(in, line);) {
      const bool is_other = line.starts_with("kinema: compiling ") ||
                            line.ends_with(" is given more than once: the last value is used");
      lines += is_other ? 0 : 1;
    }
    EXPECT_LE(lines, 3) << err;
    EXPECT_THAT(err, ::testing::HasSubstr(about));
  }
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The losses in metrics.jsonl, of steps and evaluations, as text, so that equal text means equal
/// bits.
inline std::vector<std::string> losses_of(const std::string& metrics) {
  std::vector<std::string> out;
  std::istringstream in(metrics);
  for (std::string line; std::getline(in, line);) {
    const io::Json row = io::Json::parse(line, "metrics.jsonl");
    const io::Json* loss = row.find("learning/loss");
    out.push_back((loss == nullptr ? row.at("learning/eval_loss") : *loss).dump());
  }
  return out;
}

/// A test with its own folder that runs the binary.
class KinemaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("kinema_cli_") + test->test_suite_name() + "_" + test->name() + "_" +
               std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Runs `kinema ARGUMENTS...` in the test's folder; `environment` precedes the command.
  Outcome run(const std::vector<std::string>& arguments, const std::string& environment = "") {
    std::string command = "cd " + quoted(folder_.string()) + " && " + environment + " " +
                          quoted(std::string(KINEMA_BINARY_DIR) + "/kinema");
    for (const std::string& argument : arguments) {
      command += " " + quoted(argument);
    }
    command += " >.out 2>.err </dev/null";
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = read_text(folder_ / ".out");
    outcome.err = read_text(folder_ / ".err");
    return outcome;
  }

  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  /// The losses of a run in the configuration's output_dir.
  std::vector<std::string> losses(const std::string& run_name) const {
    return losses_of(read_text(folder_ / "out" / run_name / "metrics.jsonl"));
  }

  static std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) {
      out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return out + "'";
  }

  std::filesystem::path folder_;
};

/// The configuration of a run that takes a second: synthetic latents, a transformer with one narrow
/// block.
inline const char* tiny_config() {
  return R"(
run_name: tiny
output_dir: out
pretrained_model_name_or_path: ''
autoencoder: space_to_depth
space_to_depth_block: 4
text_encoder: hashed
dataset_type: synthetic
height: 16
width: 16
num_frames: 2
max_sequence_length: 4
text_dim: 8
num_layers: 1
num_attention_heads: 2
attention_head_dim: 12
ffn_dim: 16
freq_dim: 16
patch_size: [1, 2, 2]
weights_dtype: float32
activations_dtype: float32
per_device_batch_size: 2
learning_rate: 1e-3
max_train_steps: 4
num_inference_steps: 2
executable_cache: ../kinema_cli_programs
)";
}

/// A test of commands on the CPU plugin, with a small configuration (`tiny.yml`); skipped without a
/// plugin. A derived SetUp must return if IsSkipped().
class KinemaOnCpu : public KinemaTest {
 protected:
  void SetUp() override {
    KinemaTest::SetUp();
    const char* plugin = std::getenv("KINEMA_PJRT_CPU");
    if (plugin == nullptr || !std::filesystem::exists(plugin)) {
      GTEST_SKIP() << "no CPU plugin: KINEMA_PJRT_CPU names none";
    }
    write("tiny.yml", tiny_config());
  }
};

}  // namespace kinema::cli_test
