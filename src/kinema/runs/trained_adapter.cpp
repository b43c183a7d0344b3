#include "kinema/runs/trained_adapter.h"

#include <fmt/format.h>

#include <utility>

#include "kinema/core/error.h"
#include "kinema/runs/lora.h"
#include "kinema/runs/wiring.h"

namespace kinema::runs {
namespace {

/// Takes rank and alpha of a file that is gone on from, where they were not given.
void take_rank(const config::ModelConfig& model, const weights::Adapter& file,
               weights::AdapterConfig& out) {
  const std::string& path = file.lora->path();
  check(
      file.scale == 1,
      "[lora] scale of {} is {:g}, but how much a trained adapter counts is lora_alpha / lora_rank"
      "\n  leave scale out, or give 1",
      path, file.scale);
  const weights::UniformRank of_file = weights::uniform_rank(file);
  check(!model.lora_rank.given || model.lora_rank == of_file.rank,
        "[lora] {} has rank {}, but lora_rank is {}\n  lora_rank={} goes on with it", path,
        of_file.rank, model.lora_rank.value, of_file.rank);
  out.rank = of_file.rank;
  const bool has_alpha = model.lora_alpha.given && model.lora_alpha > 0;
  if (!has_alpha) {
    weights::AdapterConfig one = out;
    one.alpha = 1;
    out.alpha = of_file.factor / one.scale();
    return;
  }
  out.alpha = model.lora_alpha;
  check(out.scale() == of_file.factor,
        "[lora] {} counts {:g} times, but lora_alpha {:g} and lora_rank {} make that {:g}\n  leave "
        "lora_alpha out to go on with it",
        path, of_file.factor, out.alpha, out.rank, out.scale());
}

}  // namespace

std::string TrainedAdapter::text() const {
  return fmt::format("LoRA of rank {}, alpha {:g}{}, on {} kinds of linear layers", config.rank,
                     config.alpha, config.use_rslora ? " (rank-stabilised)" : "",
                     config.modules.size());
}

std::optional<TrainedAdapter> trained_adapter(const config::Config& config,
                                              const networks::Network& network,
                                              const Expert& expert, const Job& job) {
  const config::ModelConfig& model = config.model;
  if (!model.enable_lora) {
    return std::nullopt;
  }
  TrainedAdapter out;
  out.config = {
      .rank = model.lora_rank,
      .alpha = model.lora_alpha > 0 ? model.lora_alpha.value
                                    : static_cast<double>(model.lora_rank.value),
      .use_rslora = model.use_rslora,
      .expert = expert.which == config::TrainExpert::NONE ? "" : std::string(expert.name()),
      .base_model = model.pretrained_model_name_or_path,
      .dropout = model.lora_dropout,
      .init = model.lora_init == config::LoraInit::GAUSSIAN ? weights::AdapterInit::GAUSSIAN
                                                            : weights::AdapterInit::KAIMING};
  std::vector<weights::Adapter> files = open_adapters(config, expert, job);
  if (!files.empty()) {
    take_rank(model, files.front(), out.config);
    out.start.push_back(files.front());
    out.merged.assign(files.begin() + 1, files.end());
  }
  nn::ModelOptions options = model_options(config);
  const std::vector<nn::ParamSpec> plain = network->parameters(options);
  out.config.modules = weights::adapter_modules(plain, model.lora_target_modules, out.config.rank);
  // Checked before anything large is read.
  const auto note = [&](const char* use, std::span<const weights::Adapter> adapters,
                        std::span<const nn::ParamSpec> specs) {
    const weights::Adapters fitted(adapters, specs);
    for (const std::string& line : fitted.report()) {
      out.lines.push_back(fmt::format("{}: {}", use, line));
    }
  };
  note("merged", out.merged, plain);
  if (!out.start.empty()) {
    for (const auto& [module, rank] : weights::low_ranks(out.start, plain)) {
      check(out.config.modules.contains(module),
            "[lora] {} changes {}, which lora_target_modules does not name\n  name it too, or put "
            "another file first: those behind the first are merged into the model",
            out.start.front().lora->path(), module);
    }
    options.low_ranks = out.config.modules;
    note("gone on from", out.start, network->parameters(options));
  }
  return out;
}

std::vector<TrainedAdapter> trained_adapters(const config::Config& config,
                                             const networks::Network& network, const Expert& expert,
                                             const Job& job) {
  std::vector<TrainedAdapter> out;
  for (const Expert& one : expert.each()) {
    if (std::optional<TrainedAdapter> adapter = trained_adapter(config, network, one, job)) {
      out.push_back(std::move(*adapter));
    }
  }
  for (const TrainedAdapter& each : out) {
    const weights::AdapterConfig& first = out.front().config;
    check(each.config.rank == first.rank && each.config.alpha == first.alpha,
          "[lora] the file for the high-noise expert has rank {} and alpha {:g}, that for the "
          "low-noise one {} and {:g}\n  files of the same go on together, others in a run each",
          first.rank, first.alpha, each.config.rank, each.config.alpha);
  }
  return out;
}

}  // namespace kinema::runs
