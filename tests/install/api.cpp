// The API's first page against the installed library: api CONFIG, in an empty folder.
#include <kinema/kinema.h>

#include <cstdio>

int main(int, char** argv) {
  kinema::Config config =
      kinema::load_config(argv[1], {"run_name=api", "output_dir=out", "max_train_steps=3"});
  kinema::TrainObserver observer;
  observer.on_step = [](const kinema::StepRecord& step) {
    std::printf("%lld %.9g\n", (long long)step.step, step.loss);
  };
  const kinema::TrainResult trained = kinema::train(config, observer);  // throws kinema::Error
  config.set("prompt", "a red circle moving up");
  const kinema::GenerateResult made = kinema::generate(config, {});
  std::printf("%lld steps, %zu videos\n", (long long)trained.steps, made.videos.size());
}
