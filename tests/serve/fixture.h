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
    return {{.name = "tiny", .family = "Tiny", .arguments = {"tiny.yml"}},
            {.name = "clips", .family = "Tiny", .is_video = true, .arguments = {"clips.yml"}}};
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
      if (key != "prompt" && key != "seed" && key != "steps") {
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

  std::atomic<int> refreshed = 0;

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
