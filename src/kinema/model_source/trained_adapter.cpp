#include "kinema/model_source/trained_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/model_source/lora.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/model_source/trained_text.h"
#include "kinema/networks/inner_model.h"
#include "kinema/training/base_models.h"

namespace kinema::model_source {
namespace {

constexpr std::array<std::pair<config::AdapterType, nn::AdapterKind>, 4> kKinds{
    {{config::AdapterType::LORA, nn::AdapterKind::LORA},
     {config::AdapterType::DORA, nn::AdapterKind::DORA},
     {config::AdapterType::LOHA, nn::AdapterKind::LOHA},
     {config::AdapterType::LOKR, nn::AdapterKind::LOKR}}};

nn::AdapterKind kind_of(config::AdapterType type) {
  return std::ranges::find(kKinds, type, &std::pair<config::AdapterType, nn::AdapterKind>::first)
      ->second;
}

/// adapter_type's word for a kind.
std::string type_word(nn::AdapterKind kind) {
  std::string out(weights::kind_name(kind));
  std::ranges::transform(out, out.begin(), [](char c) { return static_cast<char>(tolower(c)); });
  return out;
}

/// Throws an Error for settings that the kind of adapter does not have.
void check_settings(const config::ModelConfig& model) {
  const bool is_low_rank = model.adapter_type == config::AdapterType::LORA ||
                           model.adapter_type == config::AdapterType::DORA;
  check(is_low_rank || !model.use_rslora,
        "[config] use_rslora is true, but adapter_type {} has no rank-stabilised scale\n  "
        "use_rslora=false, or adapter_type=lora",
        type_word(kind_of(model.adapter_type)));
  check(is_low_rank || model.lora_plus_ratio == 1,
        "[config] lora_plus_ratio is {:g}, but adapter_type {} has no lora_B\n  "
        "lora_plus_ratio=1, or adapter_type=lora",
        model.lora_plus_ratio, type_word(kind_of(model.adapter_type)));
}

/// Uses the rank and alpha of the start file unless they were given.
void take_rank(const config::ModelConfig& model, const weights::Adapter& file,
               weights::AdapterConfig& out) {
  const std::string& path = file.lora->path();
  check(file.scale == 1,
        "[lora] scale of {} is {:g}, but the scale of a trained adapter is lora_alpha / lora_rank\n"
        "  do not set scale, or set it to 1",
        path, file.scale);
  weights::UniformRank of_file = weights::uniform_rank(file);
  check(
      of_file.kind == out.modules.kind,
      "[lora] {} is {}, but adapter_type trains {}\n  set adapter_type={} to train it further, or "
      "name it after another file: then it is merged into the model",
      path, weights::kind_name(of_file.kind), weights::kind_name(out.modules.kind),
      type_word(of_file.kind));
  if (of_file.rank == 0) {  // LoKr with whole factors, which no rank scales
    of_file.rank = out.rank;
    of_file.factor = out.scale();
  }
  check(!model.lora_rank.given || model.lora_rank == of_file.rank,
        "[lora] {} has rank {}, but lora_rank is {}\n"
        "  set lora_rank={} to train it further",
        path, of_file.rank, model.lora_rank.value, of_file.rank);
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
        "[lora] {} has scale {:g}, but lora_alpha {:g} and lora_rank {} give {:g}\n"
        "  do not set lora_alpha to train it further",
        path, of_file.factor, out.alpha, out.rank, out.scale());
}

/// Throws an Error if a layer of the start file is not trained, or a text encoder's adapters have
/// another rank or scale; adds a log line with the number of trained layers that are not in the
/// file. `specs`: with the adapter's parameters.
void check_start(const weights::Adapter& file, std::span<const nn::ParamSpec> specs,
                 TrainedAdapter& out) {
  std::ptrdiff_t missing = 0;
  size_t all = 0;
  for (const networks::ModelSpecs& model : networks::by_model(specs)) {
    std::vector<std::string> modules = weights::adapter_module_names(model.specs);
    constexpr std::string_view kTextModel = "text_model.";  // files have it, models may not
    for (std::string& module : modules) {
      module.insert(0, model.part.empty() || module.starts_with(kTextModel) ? "" : kTextModel);
    }
    const std::set<std::string, std::less<>> trained(modules.begin(), modules.end());
    all += trained.size();
    const std::vector<weights::Adapter> own = training::adapters_for({&file, 1}, model.part);
    if (own.empty()) {
      missing += std::ssize(trained);
      continue;
    }
    const weights::Lora::Targets& targets = own.front().targets();
    missing += std::ranges::count_if(
        trained, [&](const std::string& module) { return !targets.contains(module); });
    for (const auto& [module, target] : targets) {
      check(trained.contains(module),
            "[lora] {} changes {}, which is not a linear layer of {}\n"
            "  add it there, or put another file first: all files but the first are merged into "
            "the model",
            file.lora->path(), module,
            model.part.empty() ? "lora_target_modules" : "those trained in " + model.part);
    }
    const weights::UniformRank its = weights::uniform_rank(own.front());
    check(model.part.empty() || its.rank == 0 ||
              (its.rank == out.config.rank && its.factor == out.config.scale()),
          "[lora] the adapters of {} in {} have rank {} and scale {:g}, those of the network {} "
          "and {:g}\n  name the file after another one: then it is merged into the model",
          model.part, file.lora->path(), its.rank, its.factor, out.config.rank, out.config.scale());
  }
  if (missing > 0) {
    out.lines.push_back(fmt::format(
        "{} of the {} trained layers are not in {}: they start from their initialisation", missing,
        all, file.lora->path()));
  }
}

/// The linear layers with an adapter: lora_target_modules of the network, and those of the text
/// encoders inside it.
nn::LowRanks adapted_modules(std::span<const nn::ParamSpec> specs,
                             std::span<const std::string> targets, int64_t rank) {
  nn::LowRanks out;
  for (const networks::ModelSpecs& model : networks::by_model(specs)) {
    const bool is_network = model.part.empty();
    for (const auto& [name, its] : weights::adapter_modules(
             model.specs, is_network ? targets : std::span(text_adapter_targets()), rank)) {
      out[is_network ? name : model.part + "." + name] = its;
    }
  }
  return out;
}

}  // namespace

std::string TrainedAdapter::text() const {
  return fmt::format("{} of rank {}, alpha {:g}{}, on {} kinds of linear layers",
                     weights::kind_name(config.modules.kind), config.rank, config.alpha,
                     config.use_rslora ? " (rank-stabilised)" : "", config.modules.size());
}

std::optional<TrainedAdapter> trained_adapter(const config::Config& config,
                                              const networks::Network& network,
                                              const Expert& expert, const Job& job) {
  const config::ModelConfig& model = config.model;
  if (!model.enable_lora) {
    check(
        model.training_lora.empty(),
        "[config] training_lora is given, but enable_lora is false: only a network with an adapter "
        "can be saved without it\n  enable_lora=true trains one");
    return std::nullopt;
  }
  check_settings(model);
  TrainedAdapter out;
  out.config = {
      .rank = model.lora_rank,
      .alpha = model.lora_alpha > 0 ? model.lora_alpha.value
                                    : static_cast<double>(model.lora_rank.value),
      .use_rslora = model.use_rslora,
      .part = single_part(network),
      .expert = expert.which == config::TrainExpert::NONE ? "" : std::string(expert.name()),
      .base_model = model.pretrained_model_name_or_path,
      .dropout = model.lora_dropout,
      .plus_ratio = model.lora_plus_ratio,
      .init = model.lora_init == config::LoraInit::GAUSSIAN ? weights::AdapterInit::GAUSSIAN
                                                            : weights::AdapterInit::KAIMING};
  out.config.modules.kind = kind_of(model.adapter_type);
  std::vector<weights::Adapter> files = open_adapters(config, expert, job);
  if (!files.empty()) {
    take_rank(model, files.front(), out.config);
    out.start.push_back(files.front());
    out.merged.assign(files.begin() + 1, files.end());
  }
  nn::ModelOptions options = model_options(config);
  const std::vector<nn::ParamSpec> plain = network->parameters(options);
  out.config.modules = adapted_modules(plain, model.lora_target_modules, out.config.rank);
  out.config.modules.kind = kind_of(model.adapter_type);
  out.config.modules.kronecker_factor = model.lokr_factor;
  // Checked before large files are read.
  const auto note = [&](const char* use, std::span<const weights::Adapter> adapters,
                        std::span<const nn::ParamSpec> specs) {
    for (const networks::ModelSpecs& own : networks::by_model(specs)) {
      const weights::Adapters fitted(training::adapters_for(adapters, own.part), own.specs);
      for (const std::string& line : fitted.report()) {
        out.lines.push_back(
            fmt::format("{}{}: {}", use, own.part.empty() ? "" : " in " + own.part, line));
      }
    }
  };
  const std::vector<weights::Adapter> unsaved = open_training_lora(config, expert, job);
  note("merged while training", unsaved, plain);
  note("merged", out.merged, plain);
  out.merged.insert(out.merged.begin(), unsaved.begin(), unsaved.end());
  if (!out.start.empty()) {
    options.low_ranks = out.config.modules;
    const std::vector<nn::ParamSpec> specs = network->parameters(options);
    note("resumed from", out.start, specs);
    check_start(out.start.front(), specs, out);
  }
  if (expert.which != config::TrainExpert::NONE) {
    for (std::span<const weights::Adapter> files_of : {out.start, out.merged}) {
      for (std::string& line : other_expert_lines(files_of, expert.is_low_noise() ? 1 : 0)) {
        out.lines.push_back(std::move(line));
      }
    }
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
  // An adapter without a start file has the rank, alpha and modules of the other expert's.
  const auto gone_on =
      std::ranges::find_if(out, [](const auto& each) { return !each.start.empty(); });
  for (TrainedAdapter& each : out) {
    if (gone_on != out.end() && each.start.empty()) {
      each.config.rank = gone_on->config.rank;
      each.config.alpha = gone_on->config.alpha;
      each.config.modules = gone_on->config.modules;
    }
  }
  for (const TrainedAdapter& each : out) {
    const weights::AdapterConfig& first = out.front().config;
    check(each.config.rank == first.rank && each.config.alpha == first.alpha,
          "[lora] the file for the high-noise expert has rank {} and alpha {:g}, that for the "
          "low-noise one {} and {:g}\n"
          "  train files with the same rank and alpha together, others in separate runs",
          first.rank, first.alpha, each.config.rank, each.config.alpha);
  }
  return out;
}

}  // namespace kinema::model_source
