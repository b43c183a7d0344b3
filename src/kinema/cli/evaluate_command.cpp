#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/processes.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/io/json.h"
#include "kinema/jobs/evaluate.h"
#include "kinema/resolve/load.h"

namespace kinema::cli {
namespace {

int evaluate(const std::vector<std::string>& words, bool json) {
  Observer observer;
  show_on_console(observer, !json);
  JobOptions job = job_options();
  job.world = joined_world("evaluate", words);
  const bool any = !std::ranges::all_of(
      words, [](const std::string& word) { return word.find('=') != std::string::npos; });
  if (!any) {
    (void)config::load_defaults(words, {});  // throws if a key is unknown
    fail(
        "[command] which configuration, or model? give a YAML file or a folder, e.g. "
        "configs/shapes.yml");
  }
  const jobs::EvaluateResult result =
      jobs::evaluate(resolve::load_generation(words, variables(), console_job()), observer, job);
  const training::Evaluation& made = result.evaluation;
  if (json) {
    io::Json timesteps = io::Json::object();
    for (const auto& [timestep, mean] : made.by_timestep) {
      timesteps.set(std::to_string(timestep), mean);
    }
    io::Json out = io::Json::object();
    io::Json adapters = io::Json::array();
    for (const std::filesystem::path& adapter : result.adapters) {
      adapters.append(adapter.string());
    }
    out.set("transformer", result.transformer.string())
        .set("adapters", std::move(adapters))
        .set("step", result.step ? io::Json(*result.step) : io::Json())
        .set("loss", made.loss)
        .set("by_timestep", std::move(timesteps))
        .set("samples", made.samples)
        .set("seconds", result.seconds);
    print_line(out.dump());
    return 0;
  }
  print_line("transformer: " + result.transformer.string());
  for (const std::filesystem::path& adapter : result.adapters) {
    print_line("adapter: " + adapter.string());
  }
  for (const auto& [timestep, mean] : made.by_timestep) {
    print_line(fmt::format("loss at timestep {}: {:.4f}", timestep, mean));
  }
  print_line(fmt::format("mean loss over {}: {:.4f}, {}, {:.1f} s",
                         counted(std::ssize(made.by_timestep), "timestep"), made.loss,
                         counted(made.samples, "sample"), result.seconds));
  return 0;
}

}  // namespace

void add_evaluate(Program& program) {
  Command command = program.add(
      "evaluate",
      "Print the loss of a run's checkpoint, or of a pretrained model, on eval_data_dir");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      .option("CONFIG key=value", *words,
              "a YAML file or a model's folder, and keys that override it: run_name, "
              "generate_checkpoint_step, pretrained_model_name_or_path, eval_data_dir, "
              "num_eval_samples, ...")
      .required();
  command.flag("--json", *json, "print JSON");
  command.run([words, json] { return evaluate(*words, *json); });
}

}  // namespace kinema::cli
