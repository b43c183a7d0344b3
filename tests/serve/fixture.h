#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/http/message.h"
#include "kinema/serve/catalogue.h"

namespace kinema::serve_test {

/// Waits until something holds; false if it does not within twenty seconds.
template <typename Condition>
bool becomes_true(const Condition& holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline std::string fake_engine() {
  return std::string(KINEMA_BINARY_DIR) + "/tests/serve_fake_engine";
}

/// Two models, whose keys are `prompt`, `seed` and `steps` from 1 to 100.
class FakeCatalogue : public serve::Catalogue {
 public:
  std::vector<serve::Model> models() override {
    serve::Model clips{
        .name = "clips", .family = "Tiny", .is_video = true, .arguments = {"clips.yml"}};
    clips.defaults.set("fps", 16).set("num_frames", 33).set("width", 8).set("height", 8);
    return {
        {.name = "tiny", .family = "Tiny", .inputs = {"image", "mask"}, .arguments = {"tiny.yml"}},
        clips};
  }
  std::vector<serve::Lora> loras() override { return {{.name = "kites", .path = "/loras/kites"}}; }
  void refresh() override { ++refreshed; }
  std::vector<serve::Key> keys(const std::string& /*model*/) override {
    return {{.key = "prompt", .group = "generate", .type = "text", .prose = true},
            {.key = "steps", .group = "generate", .type = "int", .min = 1, .max = 100}};
  }
  std::vector<std::string> check(const serve::MakeRequest& request) override {
    std::vector<std::string> notices;
    for (const auto& [key, value] : request.settings.members()) {
      const bool is_size = key == "width" || key == "height" || key == "num_frames";
      if (!is_open && !is_size && key != "prompt" && key != "seed" && key != "steps") {
        throw http::Refusal(422, "there is no key `" + key + "`", key);
      }
      if (key == "steps" && (value.as_int() < 1 || value.as_int() > 100)) {
        throw http::Refusal(422, "steps are 1 to 100", key);
      }
      if (key == "steps" && value.as_int() == 13) {
        notices.emplace_back("13 steps are unlucky");
      }
    }
    return notices;
  }
  serve::FoundSettings read_settings(const std::filesystem::path& file) override {
    check_settings(file);
    serve::FoundSettings out{.left_out = {"a key of another machine"}};
    out.request.settings.set("prompt", file.extension().string());
    return out;
  }

  std::vector<serve::Base> bases() override { return {{.name = "tiny", .help = "a tiny model"}}; }
  std::vector<serve::Key> training_keys(const std::string& /*base*/) override {
    return {{.key = "learning_rate", .group = "optimizer", .type = "float"}};
  }
  serve::CheckedRun check_run(const serve::RunRequest& request) override {
    if (request.base != "tiny") {
      throw http::Refusal(404, "there is no such configuration", "base");
    }
    for (const auto& [key, value] : request.settings.members()) {
      if (key != "learning_rate") {
        throw http::Refusal(422, "there is no key `" + key + "`", key);
      }
    }
    return {.config = "base: tiny\n" + request.yaml};
  }

  std::vector<serve::PlanDevice> devices() override {
    return {{.name = "h100", .what = "1 NVIDIA H100", .bytes = 80, .has_compiler = true}};
  }
  void check_device(const std::string& device) override {
    if (device != "h100") {
      throw http::Refusal(422, "there is no device `" + device + "`", "device");
    }
  }
  std::string plan_config(const serve::MakeRequest& request) override {
    return "prompt: " + request.prompt() + "\n";
  }
  std::vector<serve::DiskFile> disk() override {
    return {{.name = "tiny.safetensors", .folder = "/models", .kind = "model", .bytes = 5}};
  }
  void add_model(const std::string& source) override {
    kinema::check(source != "owner/broken", "[fake] this model cannot be used");
    added = source;
  }

  std::string added;  // by add_model
  std::atomic<int> refreshed = 0;
  std::atomic<bool> is_open = false;  // takes every key

 private:
  static void check_settings(const std::filesystem::path& file) {
    kinema::check(std::filesystem::file_size(file) > 2, "[fake] the file has no settings");
  }
};

inline serve::MakeRequest asking(const std::string& prompt) {
  serve::MakeRequest out{.model = "tiny"};
  out.settings.set("prompt", prompt);
  return out;
}

}  // namespace kinema::serve_test
