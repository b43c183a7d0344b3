// Trains a small video model on a folder of clips and says how it goes: what `kinema train` does,
// as calls.
//
//   train_tiny [CONFIG [key=value ...]]        as train_tiny configs/shapes.yml max_train_steps=50
#include <kinema/kinema.h>

#include <csignal>
#include <cstdio>
#include <stop_token>
#include <string>
#include <vector>

namespace {

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "configs/shapes.yml";
  const std::vector<std::string> overrides(argv + (argc > 1 ? 2 : 1), argv + argc);
  // Signals are the program's, not the library's: Ctrl-C becomes a request, which is met after the
  // step that goes on, with a checkpoint.
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::stop_source stop;

  kinema::TrainObserver observer;
  observer.on_notice = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  observer.on_start = [](const kinema::TrainStart& start) {
    std::printf("%lld parameters, batch: %s\n", static_cast<long long>(start.parameters),
                start.batch.c_str());
  };
  observer.on_step = [&](const kinema::StepRecord& step) {
    std::printf("step %lld  loss %.4f  %.3f s\n", static_cast<long long>(step.step + 1), step.loss,
                step.seconds);
    if (interrupted != 0) {
      stop.request_stop();
    }
  };
  try {
    const kinema::Config config = kinema::load_config(file, overrides);
    const kinema::TrainResult result = kinema::train(config, observer, {.stop = stop.get_token()});
    std::printf("%s after %lld steps: %s\n", result.stopped ? "stopped" : "done",
                static_cast<long long>(result.steps), result.run_folder.c_str());
  } catch (const kinema::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
