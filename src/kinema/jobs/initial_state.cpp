#include "kinema/jobs/initial_state.h"

#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_source/continued_run.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/resolve/two_experts.h"
#include "kinema/training/checkpoint.h"
#include "kinema/weights/weights.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// The models with which the network with this index begins.
training::BaseModels base_models(const Training& training, size_t place) {
  training::BaseModels out = training.base;
  out.network = training.pretrained.at(place);
  if (const auto& adapters = training.step.adapters; !adapters.empty()) {
    out.merged = adapters.at(place).merged;
  }
  return out;
}

/// An initial state from `specs`, in the dtypes of the state, for the network with this index.
training::State first_state(const Training& training, size_t place, const InitialState& what,
                            const runtime::Devices& devices) {
  const std::span<const nn::ParamSpec> specs = what.specs;
  const fs::path& pretrained = training.pretrained.at(place);
  const auto seed = static_cast<uint64_t>(training.settings.seed);
  if (!pretrained.empty()) {
    weights::check_folder(pretrained, networks::by_model(specs).front().specs);
  }
  const std::vector<model_source::TrainedAdapter>& adapters = training.step.adapters;
  std::vector<runtime::Array> params = training::load_base(
      base_models(training, place),
      adapters.empty() ? std::vector<weights::Adapter>() : adapters.at(place).start, seed, specs,
      devices);
  return training::fresh_state(std::move(params), specs, what.ema, devices, what.optimizer);
}

/// The state of a checkpoint, for the network with this index.
training::State saved_state(const Training& training, size_t place, const fs::path& checkpoint,
                            const InitialState& what, const runtime::Devices& devices) {
  const std::span<const nn::ParamSpec> specs = what.specs;
  model_source::check_same_class(training.step.network, checkpoint);
  std::optional<training::BaseModels> base;
  if (!training.held().frozen) {
    base = base_models(training, place);
  }
  const model_source::Expert& expert = training.step.expert;
  return training::load_state(
      checkpoint, specs, what.ema, devices, what.optimizer, base,
      resolve::expert_weights_part(checkpoint, expert.each().at(place), expert.is_both()));
}

/// A log line: the bytes of a checkpoint that all processes read together, and the share of each.
std::string read_once_line(int64_t own, const Job& job) {
  double sum = 0;
  std::string each;
  const std::vector<std::string> all =
      job.world().communicator().gather(std::to_string(own), {.what = "the restored state"});
  for (size_t rank = 0; rank < all.size(); ++rank) {
    constexpr double kMega = 1e6;
    const double read = std::stod(all[rank]) / kMega;
    sum += read;
    if (read > 0 && rank < 8) {
      each += fmt::format("{}process {} {:.1f} MB", each.empty() ? "" : ", ", rank, read);
    }
  }
  return fmt::format("checkpoint read by one replica: {:.1f} MB in all ({})", sum, each);
}

}  // namespace

void check_optimizer_of(const fs::path& checkpoint, std::string_view optimizer) {
  check(training::has_optimizer(checkpoint),
        "[train] init_optimizer: {} has no optimizer state (save_optimizer=false)\n"
        "  init_optimizer=false uses only its weights",
        checkpoint.string());
  const std::string before = training::read_train_state(checkpoint).setting("optimizer");
  check(before.empty() || before == optimizer,
        "[train] init_optimizer: {} has {}'s state, but this run's optimizer is {}\n"
        "  init_optimizer=false uses only its weights",
        checkpoint.string(), before, optimizer);
}

void begin_from(const fs::path& checkpoint, size_t place, Training& out) {
  const model_source::Expert& expert = out.step.expert;
  const std::vector<std::string> parts = training::weights_parts(checkpoint);
  const fs::path weights =
      checkpoint / parts.at(static_cast<size_t>(resolve::expert_weights_part(
                       checkpoint, expert.each().at(place), expert.is_both())));
  check(parts.front() != training::kWords,
        "[train] init_from: {} contains words of textual inversion, not a network",
        checkpoint.string());
  check((parts.front() == training::kControl) == out.base.control.has_value(),
        "[train] init_from: {} contains {}, but train_controlnet {}", checkpoint.string(),
        out.base.control ? "no ControlNet" : "a ControlNet",
        out.base.control ? "trains one\n  train_controlnet=PATH names the files of one"
                         : "is not given\n  train_controlnet=new goes on with it");
  if (out.base.control) {
    out.base.control = weights;
    return;
  }
  if (parts.front() != training::kAdapter) {
    model_source::check_same_network(out.step.network, checkpoint);
    out.pretrained.at(place) = weights;
    for (auto& [part, file] : out.base.texts) {
      std::error_code ignored;
      if (fs::is_directory(checkpoint / part, ignored)) {
        file = {.path = checkpoint / part, .part = part};
      }
    }
    return;
  }
  check(!out.step.adapters.empty(),
        "[train] init_from: {} contains an adapter, but the whole network is trained\n"
        "  enable_lora=true trains an adapter that starts from it",
        checkpoint.string());
  model_source::TrainedAdapter& adapter = out.step.adapters.at(place);
  adapter.start = {{.lora = std::make_shared<const weights::Lora>(weights::Lora::open(weights))}};
  const weights::UniformRank before = weights::uniform_rank(adapter.start.front());
  check(before.rank == adapter.config.rank && before.factor == adapter.config.scale(),
        "[train] init_from: the adapter of {} has rank {} and scale {:g}, this run's has rank {} "
        "and scale {:g}\n"
        "  lora_rank and lora_alpha must be the same",
        checkpoint.string(), before.rank, before.factor, adapter.config.rank,
        adapter.config.scale());
}

void load_states(const InitialState& what, const runtime::Devices& devices, const Job& job,
                 Training& out) {
  const auto span = out.timings.measure("loading weights");
  const auto loading = job.task("loading the weights");
  const bool with_optimizer = !what.start.init.empty() && what.with_init_optimizer;
  const auto bytes_read = std::make_shared<std::atomic<int64_t>>(0);
  const bool once = what.one_reader && devices.is_shared();
  const runtime::Devices readers = once ? devices.with_one_reader(bytes_read) : devices;
  const fs::path& from = what.start.resumes() ? what.start.folder : what.start.init;
  try {
    for (size_t place = out.pretrained.size(); place-- > 0;) {
      out.experts->set_state(static_cast<int64_t>(place),
                             what.start.resumes() || with_optimizer
                                 ? saved_state(out, place, from, what, readers)
                                 : first_state(out, place, what, devices));
    }
  } catch (const Error&) {
    check(
        !model_source::was_removed(from),
        "[train] the checkpoint {} was removed while it was read, probably by a running training\n"
        "  the same command uses the newest one of that run",
        from.string());
    throw;
  }
  if (once && (what.start.resumes() || with_optimizer)) {
    job.line(read_once_line(*bytes_read, job));
  }
}

}  // namespace kinema::jobs
