// An engine that writes small pictures. The prompt says what else it does: `slow` takes 20 steps of
// 50 ms, `deaf` takes no stop, `die` ends by SIGKILL, `fail` throws, `once` dies in the first
// attempt.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/media/image.h"
#include "kinema/serve/engine.h"

namespace {

using namespace kinema;
using serve::Made;

class FakeMaker : public serve::Maker {
 public:
  Made make(const serve::MakeSettings& settings, serve::Progress& progress) override {
    const std::string prompt = settings.settings.at("prompt").as_string();
    const auto says = [&](const char* word) { return prompt.find(word) != std::string::npos; };
    const std::filesystem::path mark = settings.folder.parent_path() / "tried";
    if (says("die") || (says("once") && !std::filesystem::exists(mark))) {
      std::ofstream(mark) << "x";
      std::raise(SIGKILL);
    }
    check(!says("fail"), "[fake] this prompt fails");
    const int steps = says("slow") || says("deaf") ? 20 : 2;
    progress.memory(600);
    progress.phase("sampling");
    for (int i = 0; i < steps; ++i) {
      if (steps > 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(says("deaf") ? 500 : 50));
      }
      if (!says("deaf") && progress.stop().stop_requested()) {
        throw Stopped();
      }
      progress.step(i + 1, steps);
      if (i == 0) {
        progress.preview("\xff\xd8\xff fake");
      }
    }
    progress.notice("made by a fake");
    return write(settings);
  }

 private:
  static Made write(const serve::MakeSettings& settings) {
    const int64_t seed = settings.settings.at("seed").as_int();
    Made out{
        .times = {.setup = 3,
                  .steps = 2.0 * static_cast<double>(settings.count),
                  .others = 0.5,
                  .count = 4 * settings.count},
        .device = {
            .name = "a fake device", .platform = "cpu", .count = 1, .bytes = 500, .limit = 1000}};
    for (int64_t i = 0; i < settings.count; ++i) {
      HostArray image{{DType::U8, {8, 8, 3}}};
      for (std::byte& byte : image.bytes) {
        byte = static_cast<std::byte>(seed + i);
      }
      const auto path = settings.folder / (std::to_string(i) + ".png");
      media::write_png(path, image);
      std::ofstream(settings.folder / (std::to_string(i) + ".json"))
          << serve::to_json(settings).dump();
      out.files.push_back({.path = path, .thumb = path, .width = 8, .height = 8, .index = i});
    }
    return out;
  }
};

}  // namespace

int main() {
  FakeMaker maker;
  serve::run_engine(serve::kEngineSocket, maker, "a fake device");
}
