// Commands without a device: help, configuration, inspection, invalid input.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/run_kinema.h"
#include "io/scratch.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

class CommandLine : public KinemaTest {};

TEST_F(CommandLine, ListsItsCommandsAndVersion) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"train", "generate", "prepare", "evaluate", "verify", "inspect",
                              "config", "flags", "doctor", "plan", "convert", "watch"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Outcome own = run({command, "--help"});
    EXPECT_EQ(own.status, 0);
    EXPECT_THAT(own.out, HasSubstr("--help"));
    EXPECT_THAT(own.out, HasSubstr(std::string("Examples:\n  kinema ") + command));
  }
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, MatchesRegex("kinema 0\\.[0-9.]+( \\(commit [0-9a-f]+\\))?\n"));
}

TEST_F(CommandLine, RefusesWhatItDoesNotKnow) {
  run({"dance"}).expect_error("dance");
  run({"train", "a.yml", "b.yml"}).expect_error("b.yml");
  run({"config", "--colour"}).expect_error("--colour");
  run({"inspect"}).expect_error("PATH");
}

TEST_F(CommandLine, SuggestsSimilarNamesOnly) {
  run({"trian"}).expect_error("there is no command `trian`; did you mean `train`?");
  run({"flags", "chek"}).expect_error("not expected: chek; did you mean `check`?");
  EXPECT_THAT(run({"dance"}).err, Not(HasSubstr("did you mean")));
  EXPECT_THAT(run({"config", "lerning_rate"}).err, HasSubstr("the nearest is `learning_rate`"));
  EXPECT_THAT(run({"config", "colour"}).err,
              AllOf(Not(HasSubstr("nearest")), HasSubstr("`kinema config` prints all")));
}

TEST_F(CommandLine, PrintsUsageAndAnExampleForMissingArguments) {
  const Outcome alone = run({});
  alone.expect_error("usage: kinema COMMAND\n");
  EXPECT_THAT(alone.err, HasSubstr("for example: kinema train configs/shapes.yml\n"));
  const Outcome train = run({"train"});
  train.expect_error("usage: kinema train CONFIG key=value\n");
  EXPECT_THAT(train.err, HasSubstr("for example: kinema train configs/shapes.yml\n"));
  run({"watch"}).expect_error("for example: kinema watch outputs/shapes\n");
  run({"convert"}).expect_error("SOURCE TARGET");
  run({"agent"}).expect_error("[command] usage: kinema agent COMMAND\n");
}

TEST_F(CommandLine, NamesAnUnknownKeyBeforeTheMissingConfiguration) {
  for (const char* command : {"train", "evaluate", "prepare", "plan"}) {
    SCOPED_TRACE(command);
    std::vector<std::string> words{command, "learning_rat=1"};
    if (words.front() == "plan") {
      words.emplace_back("target=cpu:1");
    }
    run(words).expect_error("there is no key `learning_rat`");
  }
  run({"train", "learning_rate=1"}).expect_error("which configuration?");
  run({"generate", "height"}).expect_error("`height` is neither a file nor key=value");
}

TEST_F(CommandLine, PrintsErrorsAsJsonOnRequest) {
  const Outcome outcome = run({"inspect", "absent", "--json"});
  outcome.expect_error("absent");
  EXPECT_THAT(io::Json::parse(outcome.out, "stdout").at("error").as_string(), HasSubstr("absent"));
  EXPECT_THAT(run({"inspect", "absent"}).out, IsEmpty());
}

class ConfigCommand : public KinemaTest {};

TEST_F(ConfigCommand, PrintsValuesWithTheirOrigin) {
  write("a.yml", "seed: 3\nenable_mllog: True\n");
  const Outcome outcome = run({"config", "a.yml", "learning_rate=1e-3"});

  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("seed: 3 "));
  EXPECT_THAT(outcome.out, HasSubstr("# a.yml:1"));
  EXPECT_THAT(outcome.out, HasSubstr("learning_rate: 0.001"));
  EXPECT_THAT(outcome.out, HasSubstr("# command line"));
  EXPECT_THAT(outcome.out, HasSubstr("\ndefaults:\n"));
  EXPECT_THAT(outcome.out, HasSubstr("enable_mllog (a.yml:2) has no meaning in kinema"));
}

TEST_F(ConfigCommand, PrintsAConfigurationThatReadsBackTheSame) {
  const Outcome first = run({"config", "prompt=a \"b\" # c", "seed=9"});
  write("again.yml", first.out);
  const Outcome second = run({"config", "again.yml", "--json"});
  const Outcome direct = run({"config", "prompt=a \"b\" # c", "seed=9", "--json"});

  ASSERT_EQ(second.status, 0) << second.err;
  const io::Json again = io::Json::parse(second.out, "again");
  const io::Json expected = io::Json::parse(direct.out, "direct");
  for (const auto& [key, entry] : expected.at("config").members()) {
    EXPECT_EQ(again.at("config").at(key).at("value").dump(), entry.at("value").dump()) << key;
  }
}

TEST_F(ConfigCommand, NamesWhatIsWrongInTwoLines) {
  run({"config", "absent.yml"}).expect_error("absent.yml");
  write("a.yml", "lerning_rate: 1\n");
  run({"config", "a.yml"}).expect_error("`learning_rate`");
  write("a.yml", "max_train_steps: many\n");
  run({"config", "a.yml"}).expect_error("a.yml:1");
  write("a.yml", "a: [1\nb: {\n");
  run({"config", "a.yml"}).expect_error("a.yml");
  write("a.yml", std::string("\x00\xff\xfe binary", 10));
  run({"config", "a.yml"}).expect_error("a.yml");
  std::filesystem::create_directory(folder_ / "folder.yml");
  run({"config", "folder.yml"}).expect_error("folder.yml");
  run({"config", "learning_rate=nan"}).expect_error("learning_rate");
}

TEST_F(ConfigCommand, RefusesAFileThatMayNotBeRead) {
  if (geteuid() == 0) {
    GTEST_SKIP() << "root may read every file";
  }
  write("a.yml", "seed: 1\n");
  std::filesystem::permissions(folder_ / "a.yml", std::filesystem::perms::none);
  run({"config", "a.yml"}).expect_error("a.yml");
}

TEST_F(ConfigCommand, SaysWhatAKeyMeans) {
  const Outcome outcome = run({"config", "learning_rate"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("learning_rate: peak learning rate, after warmup"),
                                 HasSubstr("a number, at least 0"), HasSubstr("1e-05"),
                                 HasSubstr("may resume with another value")));
  EXPECT_THAT(run({"config", "num_layers"}).out, HasSubstr("ignored with pretrained weights"));
  EXPECT_THAT(run({"config", "enable_mllog"}).out, HasSubstr("no meaning in kinema"));
  EXPECT_EQ(io::Json::parse(run({"config", "seed", "--json"}).out, "out").at("default").as_int(),
            0);
  run({"config", "learning_rte"}).expect_error("the nearest is `learning_rate`");
  run({"config", "report_to"}).expect_error("not built");
}

TEST_F(ConfigCommand, DocumentsEveryKeyAsInDocsConfigMd) {
  const Outcome outcome = run({"config", "--docs"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, read_text(std::string(KINEMA_SOURCE_DIR) + "/docs/reference/config.md"))
      << "regenerate it: build/kinema config --docs > docs/reference/config.md";
}

class InspectCommand : public KinemaTest {
 protected:
  /// A safetensors file of one F32 tensor.
  std::string one_tensor(const std::string& shape, int bytes) {
    std::string header = R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,)" +
                         std::to_string(bytes) + "]}}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string out;
    for (size_t i = 0; i < 8; ++i) {
      out.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xff));
    }
    return out + header + std::string(static_cast<size_t>(bytes), '\0');
  }
};

class Pipes : public KinemaTest {
 protected:
  /// Runs `kinema config --docs` with its standard output redirected to `to`; returns the exit
  /// status.
  std::string status(const std::string& to) {
    write("pipe.sh", "cd " + quoted(folder_.string()) + "\n{ sleep 0.2; " +
                         quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                         " config --docs 2>.err; echo $? >.status; } " + to + "\n");
    std::system(("bash " + quoted((folder_ / "pipe.sh").string())).c_str());
    return read_text(folder_ / ".status");
  }
};

TEST_F(Pipes, ThatAreClosedEndACommandQuietly) {
  EXPECT_EQ(status("| true"), "141\n");  // by SIGPIPE, like other programs
  EXPECT_EQ(read_text(folder_ / ".err"), "");
}

TEST_F(Pipes, OutputThatIsLostIsAnError) {
  EXPECT_EQ(status(">/dev/full"), "1\n");
  EXPECT_THAT(read_text(folder_ / ".err"), HasSubstr("the output could not be written"));
}

TEST_F(InspectCommand, ListsTheTensorsOfAFile) {
  write("a.safetensors", one_tensor("[2,3]", 24));
  const Outcome outcome = run({"inspect", "a.safetensors"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("f32[2,3]"), HasSubstr("1 tensors, 6 elements")));

  const Outcome json = run({"inspect", "a.safetensors", "--json"});
  EXPECT_EQ(io::Json::parse(json.out, "out").at("parts").items().size(), 1U);
}

TEST_F(InspectCommand, ReadsPicklesAndConvertsThem) {
  const std::filesystem::path golden =
      std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden/pickles";
  EXPECT_THAT(run({"inspect", (golden / "checkpoint.ckpt").string()}).out,
              AllOf(HasSubstr("pickle: 22 tensors"), HasSubstr("bf16[3,5]")));
  EXPECT_THAT(run({"inspect", "--check", (golden / "lora.bin").string()}).out,
              HasSubstr("LoRA: diffusers names"));
  const std::string agent = (golden / "agent_4.pkl").string();
  ASSERT_EQ(run({"convert", agent, "agent.safetensors"}).status, 0);
  const io::SafetensorsFile made = io::SafetensorsFile::open(folder_ / "agent.safetensors");
  const io::SafetensorsFile wanted = io::SafetensorsFile::open(golden / "numpy.safetensors");
  EXPECT_EQ(made.metadata().at("counters.updates"), "7");
  ASSERT_EQ(made.tensors().size(), wanted.tensors().size());
  for (const io::TensorView& tensor : wanted.tensors()) {
    EXPECT_EQ(made.at(tensor.name).copy().bytes, tensor.copy().bytes) << tensor.name;
  }
  run({"convert", agent, "agent.safetensors"}).expect_error("exists already");
  run({"convert", agent, "agent.gguf"}).expect_error("must end with .safetensors");
  run({"convert", "agent.safetensors", "b.safetensors"}).expect_error("needs a format");
  write("evil.pt", "cposix\nsystem\n(S'true'\ntR.");
  run({"inspect", "evil.pt"}).expect_error("`posix.system`");
}

TEST_F(InspectCommand, ShowsTheFolderOfAnAdapter) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_ / "adapter");
  fs::copy_file(fs::path(KINEMA_SOURCE_DIR) / "tests/golden/lora/adapter.safetensors",
                folder_ / "adapter/pytorch_lora_weights.safetensors");
  EXPECT_THAT(run({"inspect", "adapter"}).out, HasSubstr("LoRA: diffusers names"));
  EXPECT_THAT(run({"inspect", "--check", "adapter"}).out, HasSubstr("accepted: LoRA"));
}

TEST_F(InspectCommand, DescribesPicturesAndPipes) {
  const std::string picture =
      std::string(KINEMA_SOURCE_DIR) + "/tests/golden/images/orientation_5.jpg";
  EXPECT_THAT(run({"inspect", picture}).out, HasSubstr("picture: "));
  EXPECT_THAT(run({"inspect", picture, "--check"}).out, HasSubstr("accepted: picture: "));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  run({"inspect", "pipe"}).expect_error("pipe is a pipe, socket or device");
  run({"inspect", "pipe", "--check"}).expect_error("pipe is a pipe, socket or device");
}

TEST_F(InspectCommand, ChecksWithoutListing) {
  write("a.safetensors", one_tensor("[2,3]", 24));
  run({"inspect", "--check", "a.safetensors"}).expect_error("no model, LoRA or latents");
  write("a.safetensors", one_tensor("[2,4]", 24));
  run({"inspect", "--check", "a.safetensors"}).expect_error("a.safetensors");
  write("a.safetensors", "short");
  run({"inspect", "--check", "a.safetensors"}).expect_error("a.safetensors");
  run({"inspect", "--check", "absent"}).expect_error("absent");
  write("notes.txt", "hello");
  run({"inspect", "--check", "notes.txt"}).expect_error("notes.txt");
}

TEST_F(InspectCommand, AcceptsNoEmptyDataSet) {
  write("records/a.tfrec", "");
  run({"inspect", "records", "--check"}).expect_error("holds no records");
  run({"inspect", "records/a.tfrec", "--check"}).expect_error("holds no records");
  write("clips.tar.gz", "packed");
  run({"train", std::string(KINEMA_SOURCE_DIR) + "/configs/tiny.yml", "output_dir=out",
       "dataset_type=videos", "train_data_dir=clips.tar.gz"})
      .expect_error("compressed ones are not");
}

TEST_F(InspectCommand, AcceptsTheGgufThatConvertWrites) {
  const std::string model = (io::golden("wan21_t2v") / "transformer").string();
  // The heads of this small model are not 128 wide, which is the default for a single file.
  std::filesystem::copy_file(std::filesystem::path(model) / "config.json", folder_ / "config.json");
  ASSERT_EQ(run({"convert", model, "wan.gguf", "--to", "gguf"}).status, 0);
  const Outcome checked = run({"inspect", "--check", "wan.gguf"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("accepted: Wan"));
}

TEST_F(InspectCommand, ChecksEveryPartOfAPipeline) {
  for (const char* name : {"wan21_t2v", "wan22_t2v", "wan21_i2v", "wan22_i2v", "wan22_ti2v"}) {
    EXPECT_THAT(run({"inspect", "--check", io::golden(name).string()}).out,
                AllOf(HasSubstr("accepted: pipeline: "), HasSubstr("vae")))
        << name;
  }
  const std::string copy = (folder_ / "copy").string();
  const auto damaged = [&](const std::string& file, const std::string& text) {
    std::filesystem::remove_all(copy);
    std::filesystem::copy(io::golden("wan21_t2v"), copy, std::filesystem::copy_options::recursive);
    write("copy/" + file, text);
    return run({"inspect", "--check", copy});
  };
  // The index names the scheduler's class in diffusers' form.
  std::ifstream in(io::golden("wan21_t2v") / "model_index.json");
  std::string index{std::istreambuf_iterator<char>(in), {}};
  const std::string sampler = "UniPCMultistepScheduler";
  index.replace(index.find(sampler), sampler.size(), "SASolverScheduler");
  EXPECT_THAT(damaged("model_index.json", index).out,
              HasSubstr("its scheduler, SASolverScheduler, is not supported"));
  damaged("model_index.json", "[]").expect_error("must be an object");
  damaged("vae/config.json", "{}").expect_error("vae");
  damaged("scheduler/scheduler_config.json", "{}").expect_error("_class_name");
  damaged("text_encoder/model.safetensors", "short").expect_error("text_encoder");
  damaged("tokenizer/spiece.model", "short").expect_error("tokenizer");

  std::filesystem::copy(io::golden("flux_dev"), folder_ / "mixed",
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder_ / "mixed/vae");
  std::filesystem::copy(io::golden("sdxl") / "vae", folder_ / "mixed/vae");
  run({"inspect", "--check", "mixed"}).expect_error("belong to different models");
}

}  // namespace
}  // namespace kinema::cli_test
