// Makes a video of a prompt with a run of train_tiny or a pretrained model: what `kinema generate`
// does, as calls.
//
//   generate CONFIG PROMPT [key=value ...]     e.g. generate configs/shapes.yml "a red circle"
#include <kinema/kinema.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: generate CONFIG PROMPT [key=value ...]\n");
    return 1;
  }
  try {
    kinema::Config config = kinema::load_config(argv[1], {argv + 3, argv + argc});
    config.set("prompt", argv[2]);

    kinema::GenerateObserver observer;
    observer.on_step = [](int64_t done, int64_t total) {
      std::printf("step %lld of %lld\n", static_cast<long long>(done),
                  static_cast<long long>(total));
    };
    const kinema::GenerateResult result = kinema::generate(config, observer);

    for (const auto& video : result.videos) {
      // The pixels are here too: u8 [frames, height, width, 3].
      std::printf("%s: %s, %zu bytes of pixels\n", video.path.c_str(),
                  kinema::to_string(video.frames.shape).c_str(), video.frames.bytes.size());
    }
  } catch (const kinema::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
