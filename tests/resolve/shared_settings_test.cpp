// The .json of a video from an untrusted source.
#include "kinema/resolve/shared_settings.h"
#include "kinema/resolve/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "io/scratch.h"
#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/media/image.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/load.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

class VideoSettings : public testing::Test {
 protected:
  SharedSettings read(const std::string& settings) {
    io::write_file(scratch_ / "video.json", R"({"prompt": "a cat", "settings": )" + settings + "}");
    return read_shared_settings(scratch_ / "video.json");
  }
  static config::Loaded load(const SharedSettings& shared, std::vector<std::string> more = {}) {
    more.insert(more.begin(), shared.words.begin(), shared.words.end());
    return config::load_defaults(more);
  }

  io::Scratch scratch_;
};

TEST_F(VideoSettings, SetWhatAVideoFollowsFrom) {
  const auto shared = read(R"({"prompt": "a = b\n\"c\"", "seed": 7, "flow_shift": 3.5,
      "patch_size": [1, 1, 1], "run_name": "kites", "use_magcache": true,
      "pretrained_model_name_or_path": "org/name"})");
  const config::Config config = load(shared).config;

  EXPECT_EQ(config.generate.prompt, "a = b\n\"c\"");
  EXPECT_EQ(config.run.seed, 7);
  EXPECT_EQ(config.generate.flow_shift, 3.5);
  EXPECT_THAT(config.model.patch_size.value, ElementsAre(1, 1, 1));
  EXPECT_EQ(config.run.run_name, "kites");
  EXPECT_TRUE(config.generate.use_magcache);
  EXPECT_EQ(config.model.pretrained_model_name_or_path, "org/name");
  EXPECT_THAT(check_given(shared, load(shared)), IsEmpty());
}

// Plugins that would be loaded, files that would be replaced, compiler flags that write files.
TEST_F(VideoSettings, SetNothingThatReachesThisMachine) {
  const auto shared = read(R"({"seed": 7, "pjrt_plugin": "/tmp/evil.so", "compiled_step": "x.bin",
      "dump_to": "/etc", "save_latents": "/home/me/.bashrc", "executable_cache": "/tmp/planted",
      "output_dir": "/", "video_folder": "/etc", "metrics_file": "/etc/passwd", "hardware": "gpu",
      "xla_flags": {"xla_dump_to": "/etc"}, "allow_flags": ["nan"], "prompt_file": "/etc/passwd",
      "flags_profile": "tpu", "tensorboard_dir": "gs://theirs/x"})");

  EXPECT_THAT(shared.words, ElementsAre("seed=7"));
  EXPECT_EQ(shared.left_out.size(), 14U);
  const config::Loaded loaded = load(shared, {"output_dir=mine"});
  EXPECT_EQ(loaded.config.run.pjrt_plugin, "");
  EXPECT_EQ(loaded.config.run.output_dir, "mine");
  const std::vector<std::string> said = check_given(shared, loaded);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], AllOf(HasSubstr("video.json are not used"), HasSubstr("pjrt_plugin"),
                             Not(HasSubstr("output_dir"))));
}

TEST_F(VideoSettings, FilesThatTheVideoWasMadeOfMustBeGivenAnew) {
  const auto shared = read(R"({"pretrained_model_name_or_path": "/home/them/wan",
      "image_url": "http://10.0.0.1/admin", "last_image_url": "", "wan_vae_pretrained_model_name_or_path": "gs://theirs/vae",
      "lora_config": {"lora_model_name_or_path": ["../x"]}, "initial_latents": "org/name"})");

  EXPECT_THAT(shared.words, IsEmpty());
  EXPECT_THAT([&] { check_given(shared, load(shared)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("pretrained_model_name_or_path, image_url"),
                                         HasSubstr("lora_config"), HasSubstr("initial_latents"),
                                         Not(HasSubstr("last_image_url")))));
  EXPECT_THAT(
      check_given(shared, load(shared, {"pretrained_model_name_or_path=wan", "image_url=a.png",
                                        "wan_vae_pretrained_model_name_or_path=vae",
                                        "lora_config={}", "initial_latents=noise"})),
      IsEmpty());
}

TEST_F(VideoSettings, AFolderThatIsHereIsNoIdOfTheHub) {
  const fs::path before = fs::current_path();
  fs::create_directories(scratch_ / "org" / "name");
  fs::current_path(scratch_.path());
  const auto shared = read(R"({"pretrained_model_name_or_path": "org/name"})");
  fs::current_path(before);

  EXPECT_THAT(shared.required_keys, ElementsAre("pretrained_model_name_or_path"));
}

TEST_F(VideoSettings, AreRefusedWhereTheyAreNone) {
  EXPECT_THAT([&] { read(R"({"promt": "a"})"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`promt`"), HasSubstr("`prompt`"))));
  EXPECT_THAT([&] { read(R"({"prompt=x pjrt_plugin": "a"})"); },
              ThrowsMessage<Error>(HasSubstr("there is no key")));
  EXPECT_THAT([&] { read("[]"); }, ThrowsMessage<Error>(HasSubstr("has no `settings`")));
  EXPECT_THAT([&] { load(read(R"({"seed": "many"})")); }, ThrowsMessage<Error>(HasSubstr("seed")));
  EXPECT_THAT([&] { config::run_folder(load(read(R"({"run_name": "../../x"})")).config); },
              ThrowsMessage<Error>(HasSubstr("output_dir")));
}

/// A picture with the text that kinema writes into it.
fs::path picture(const fs::path& path, const std::string& text) {
  const std::vector<media::PngText> inside{{.keyword = "Author", .text = "somebody"},
                                           {.keyword = "kinema", .text = text}};
  media::write_png(path, HostArray(Shape{DType::U8, {4, 6, 3}}), inside);
  return path;
}

TEST_F(VideoSettings, OfAPictureAreThoseInside) {
  const SharedSettings shared = read_shared_settings(
      picture(scratch_ / "fox.png", R"({"settings": {"seed": 7, "prompt": "ein Füchslein",
          "pjrt_plugin": "/tmp/evil.so", "image_url": "/home/them/a.png"}})"));
  EXPECT_THAT(shared.words, ElementsAre("seed=7", "prompt=ein Füchslein"));
  EXPECT_THAT(shared.left_out, ElementsAre("pjrt_plugin"));
  EXPECT_THAT(shared.required_keys, ElementsAre("image_url"));
}

TEST_F(VideoSettings, AreBlamedByThePathOfTheirPicture) {
  const fs::path file = picture(scratch_ / "fox.png", R"({"settings": {"height": 0}})");
  EXPECT_THAT([&] { load_generation(std::vector{file.string()}, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("height"), HasSubstr(file.string()),
                                         Not(HasSubstr("command line")))));
  EXPECT_EQ(load_generation(std::vector{file.string(), std::string("height=8")}, {})
                .config.generate.height,
            8);
}

// Also with a model or prompts on the command line, in any order.
TEST_F(VideoSettings, WinOverFilesAndLoseToTheCommandLine) {
  const fs::path file = picture(scratch_ / "fox.png", R"({"settings": {"prompt": "a fox",
      "seed": 7, "pretrained_model_name_or_path": "org/name"}})");
  fs::create_directory(scratch_ / "model");
  io::write_file(scratch_ / "a.yml", "seed: 3\nprompt: a cat\nprompt_file: prompts.txt\n");
  io::write_file(scratch_ / "prompts.txt", "a crow\n");
  const std::string model = (scratch_ / "model").string();
  const config::Loaded loaded =
      load_generation(std::vector{model, file.string(), (scratch_ / "a.yml").string()}, {});

  EXPECT_EQ(loaded.config.run.seed, 7);
  EXPECT_EQ(loaded.config.model.pretrained_model_name_or_path, model);
  EXPECT_THAT(read_prompts(loaded), ElementsAre("a fox"));
  EXPECT_THAT(
      read_prompts(load_generation(
          std::vector{file.string(), "prompt_file=" + (scratch_ / "prompts.txt").string()}, {})),
      ElementsAre("a crow"));
  io::write_file(scratch_ / "prompts.txt", "a crow\n{\"prompt\": \"a cat\", \"seed\": 3}\n");
  EXPECT_THAT(
      [&] {
        read_prompts(load_generation(
            std::vector{file.string(), "prompt_file=" + (scratch_ / "prompts.txt").string()}, {}));
      },
      ThrowsMessage<Error>(HasSubstr("prompts.txt:2 is JSON, expected a prompt as plain text")));
}

TEST_F(VideoSettings, OfAPictureAreRefusedWhereThereAreNone) {
  const auto refuses = [&](const fs::path& file, const std::string& why) {
    EXPECT_THAT([&] { read_shared_settings(file); },
                ThrowsMessage<Error>(AllOf(HasSubstr(file.filename().string()), HasSubstr(why))));
  };
  media::write_png(scratch_ / "foreign.png", HostArray(Shape{DType::U8, {4, 6, 3}}));
  refuses(scratch_ / "foreign.png", "no settings of kinema");
  io::write_file(scratch_ / "text.png", "no picture at all");
  refuses(scratch_ / "text.png", "is not a PNG");
  refuses(picture(scratch_ / "list.png", "[]"), "not a picture of kinema");
  refuses(picture(scratch_ / "words.png", "a red fox"), "`kinema`");
  refuses(scratch_ / "nowhere.png", "");

  // A truncated file is an Error, also if the text is missing.
  const fs::path whole = picture(scratch_ / "whole.png", R"({"settings": {"seed": 7}})");
  std::ifstream in(whole, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  for (size_t size = 0; size < bytes.size(); ++size) {
    io::write_file(scratch_ / "cut.png", bytes.substr(0, size));
    refuses(scratch_ / "cut.png", size < 8 ? "is not a PNG" : "is cut off");
  }
  // A digit of the seed.
  std::string changed = bytes;
  changed[changed.find("\"seed\": 7") + 8] = '8';
  io::write_file(scratch_ / "changed.png", changed);
  refuses(scratch_ / "changed.png", "is corrupt");
}

// Free text may be a path unless a model reads it. The exceptions here are checked where they are
// used: a run's name stays in output_dir, a revision is one of the hub, a pattern is a valid
// regular expression.
TEST(Share, IsDeclaredForNoFreeTextButNames) {
  std::set<std::string_view> free_text;
  for (const config::KeyValue& each : config::describe({})) {
    const bool text = each.type == "text" || each.type == "a list of words" || each.type == "any";
    if (each.field.share == config::Share::YES && text && each.field.one_of.empty() &&
        !each.field.prose) {
      free_text.insert(each.key);
    }
  }
  EXPECT_THAT(free_text, ElementsAre("act_quantization_calibration_method", "control_kind",
                                     "diffusion_scheduler_config", "flash_block_sizes",
                                     "lightning_ckpt", "qwix_module_path", "revision", "run_name",
                                     "scheduler", "weight_quantization_calibration_method"));
}

}  // namespace
}  // namespace kinema::resolve
