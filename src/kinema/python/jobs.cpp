#include "kinema/python/jobs.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kinema/config/keys.h"
#include "kinema/core/folders.h"
#include "kinema/kinema.h"
#include "kinema/python/arrays.h"
#include "kinema/python/callbacks.h"
#include "kinema/python/waiting.h"

namespace kinema::python {
namespace {

using nb::literals::operator""_a;

/// One number of each step, as a numpy array f64 [steps].
template <typename Of>
nb::object series(const std::vector<StepRecord>& steps, Of&& of) {
  HostArray out(Shape{DType::F64, {std::ssize(steps)}});
  for (size_t i = 0; i < steps.size(); ++i) {
    out.as<double>()[i] = static_cast<double>(of(steps[i]));
  }
  return to_numpy(std::move(out));
}

/// What a training call returns: its result as JSON, and its steps.
struct Trained {
  TrainResult result;
  std::vector<StepRecord> steps;

  nb::dict history() const {
    nb::dict out;
    out["step"] = series(steps, [](const StepRecord& each) { return each.step + 1; });
    out["loss"] = series(steps, [](const StepRecord& each) { return each.loss; });
    out["learning_rate"] = series(steps, [](const StepRecord& each) { return each.learning_rate; });
    out["gradient_norm"] = series(steps, [](const StepRecord& each) { return each.gradient_norm; });
    out["seconds"] = series(steps, [](const StepRecord& each) { return each.seconds; });
    return out;
  }
};

TrainObserver training_observer(const SharedCallbacks& callbacks,
                                const std::shared_ptr<Trained>& out) {
  TrainObserver observer;
  listen(observer, callbacks);
  observer.on_start = [callbacks](const TrainStart& start) {
    callbacks->call("on_start", start.run_folder, start.parameters, start.trained_parameters,
                    start.first_step, start.max_steps);
  };
  observer.on_step = [callbacks, out](const StepRecord& step) {
    out->steps.push_back(step);
    callbacks->call("on_step", step);
  };
  observer.on_evaluation = [callbacks](int64_t step, const jobs::Evaluation& made, double) {
    callbacks->call("on_evaluation", step + 1, made.loss);
  };
  observer.on_videos = [callbacks](const jobs::VideosWritten& made) {
    std::vector<std::string> files(made.files.size());
    std::ranges::transform(made.files, files.begin(),
                           [](const auto& file) { return file.string(); });
    callbacks->call("on_samples", made.step + 1, files);
  };
  return observer;
}

std::shared_ptr<Trained> train_in_thread(const Config& config, const nb::dict& callables,
                                         const std::string& program) {
  const auto callbacks = std::make_shared<Callbacks>(callables);
  const auto out = std::make_shared<Trained>();
  return wait_for<std::shared_ptr<Trained>>(
      [config, out, observer = training_observer(callbacks, out), program](std::stop_token stop) {
        out->result = train(config, observer, {.stop = std::move(stop), .program = program});
        return out;
      },
      [callbacks] { callbacks->release(); });
}

/// jobs::Generator for threads of Python: a second call waits for the first one to end, also for
/// one that was interrupted.
class PythonGenerator {
 public:
  std::shared_ptr<GenerateResult> generate(const Config& config, const nb::dict& callables,
                                           const std::string& program) {
    const auto callbacks = std::make_shared<Callbacks>(callables);
    GenerateObserver observer;
    listen(observer, callbacks);
    observer.on_step = [callbacks](int64_t done, int64_t total) {
      callbacks->call("on_step", done, total);
    };
    return wait_for<std::shared_ptr<GenerateResult>>(
        [kept = kept_, config, observer, program](std::stop_token stop) {
          const std::lock_guard lock(kept->mutex);
          return std::make_shared<GenerateResult>(with_file_errors([&] {
            return kept->generator.generate(config.loaded(), observer,
                                            {.stop = stop, .program = program});
          }));
        },
        [callbacks] { callbacks->release(); });
  }
  void release() const {
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(kept_->mutex);
    kept_->generator.release();
  }
  bool is_loaded() const {
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(kept_->mutex);
    return kept_->generator.is_loaded();
  }

 private:
  struct Kept {
    std::mutex mutex;
    jobs::Generator generator;
  };
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// The keys as (name, group, type, default as YAML, help).
std::vector<nb::object> describe_keys() {
  std::vector<nb::object> out;
  for (const config::KeyValue& each : config::describe({})) {
    out.push_back(nb::make_tuple(std::string(each.key), std::string(each.group),
                                 std::string(each.type), each.value, std::string(each.field.help)));
  }
  return out;
}

}  // namespace

void add_jobs(nb::module_& module) {
  nb::class_<Config>(module, "Settings", "The keys of a command with their values.")
      .def("to_yaml", &Config::to_yaml,
           "Every key, as a file that `load` reads to the same values.")
      .def_prop_ro(
          "run_folder",
          [](const Config& config) { return config::run_folder(config.loaded().config).string(); },
          "output_dir/run_name");
  module.def(
      "load",
      [](const std::string& file, const std::vector<std::string>& words, nb::dict callables) {
        Observer observer;
        listen(observer, std::make_shared<Callbacks>(std::move(callables)));
        return file.empty() ? Config(config::load_defaults(words))
                            : load_config(file, words, observer);
      },
      "file"_a, "words"_a, "callbacks"_a);
  module.def("keys", &describe_keys);

  nb::class_<StepRecord>(module, "Step", "A step of training.")
      .def_prop_ro(
          "step", [](const StepRecord& step) { return step.step + 1; }, "from 1")
      .def_ro("loss", &StepRecord::loss)
      .def_ro("gradient_norm", &StepRecord::gradient_norm)
      .def_ro("learning_rate", &StepRecord::learning_rate)
      .def_ro("seconds", &StepRecord::seconds, "since the previous step")
      .def_ro("epoch", &StepRecord::epoch)
      .def_ro("finite", &StepRecord::finite);
  nb::class_<Trained>(module, "Trained")
      .def_prop_ro("json", [](const Trained& made) { return made.result.json().dump(); })
      .def_prop_ro("folder", [](const Trained& made) { return made.result.run_folder; })
      .def_prop_ro("stopped", [](const Trained& made) { return made.result.stopped; })
      .def_prop_ro("steps", [](const Trained& made) { return made.result.steps; })
      .def("history", &Trained::history);
  module.def("train", &train_in_thread, "settings"_a, "callbacks"_a, "program"_a);

  using Video = GenerateResult::Video;
  nb::class_<Video>(module, "Video")
      .def_ro("path", &Video::path)
      .def_ro("prompt", &Video::prompt)
      .def_ro("index", &Video::index)
      .def("take_frames", [](Video& video) { return to_numpy(std::move(video.frames)); })
      .def("take_latents", [](Video& video) { return to_numpy(std::move(video.latents)); });
  nb::class_<GenerateResult>(module, "Generated")
      .def_prop_ro("videos",
                   [](GenerateResult& made) {
                     std::vector<Video> out;
                     std::swap(out, made.videos);
                     return out;
                   })
      .def_ro("contact_sheet", &GenerateResult::contact_sheet)
      .def_prop_ro("seconds", [](const GenerateResult& made) { return made.made.timings.total(); });
  nb::class_<PythonGenerator>(module, "Generator")
      .def(nb::init<>())
      .def("generate", &PythonGenerator::generate, "settings"_a, "callbacks"_a, "program"_a)
      .def("release", &PythonGenerator::release)
      .def("is_loaded", &PythonGenerator::is_loaded);
}

}  // namespace kinema::python
