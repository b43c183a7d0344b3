#include "kinema/model_source/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "kinema/config/lora.h"
#include "kinema/core/error.h"
#include "kinema/io/tensor_file.h"
#include "kinema/model_source/models.h"
#include "kinema/networks/open.h"
#include "kinema/stores/local_copies.h"
#include "kinema/weights/weights.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

/// The single safetensors file of a folder, or without any the single pickle.
fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> files;
  std::vector<fs::path> pickles;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") {
      files.push_back(entry.path());
    } else if (io::is_pickle_name(entry.path())) {
      pickles.push_back(entry.path());
    }
  }
  if (files.empty()) {
    files = std::move(pickles);
  }
  check(!files.empty(), "[lora] {} contains no LoRA file", folder.string());
  check(files.size() == 1,
        "[lora] {} contains {} LoRA files, expected one\n"
        "  select it with weight_name in lora_config",
        folder.string(), files.size());
  return files[0];
}

fs::path locate(const std::string& source, const std::string& file, const Job& job) {
  fs::path path = stores::local_model(source, "", {.file = file}, job);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!file.empty()) {
      return path / file;
    }
    // A PEFT folder is not reduced to its file: alpha is in its adapter_config.json.
    return fs::exists(path / "adapter_model.safetensors", ignored) ? path : only_file(path);
  }
  if (const size_t colon = source.rfind(':');
      colon != std::string::npos && !fs::exists(path, ignored)) {
    check(!fs::exists(source.substr(0, colon), ignored),
          "[lora] {}: the scale `{}` is not a number", source.substr(0, colon),
          source.substr(colon + 1));
  }
  check(fs::exists(path, ignored), "[lora] {} does not exist", source);
  check(file.empty() || path.filename() == fs::path(file).filename(),
        "[lora] {} is a file, but weight_name selects {} in it", source, file);
  return path;
}

/// Opens each file once, even if it has several adapters.
class Files {
 public:
  std::shared_ptr<const weights::Lora> open(const fs::path& path) {
    auto& file = files_[path.string()];
    if (!file) {
      file = std::make_shared<const weights::Lora>(weights::Lora::open(path));
    }
    return file;
  }

 private:
  std::map<std::string, std::shared_ptr<const weights::Lora>> files_;
};

/// The adapters of the first (or high-noise) transformer and of the low-noise one.
using Experts = std::array<std::vector<weights::Adapter>, 2>;

/// Opens `choices`. A file that is named for neither expert is used for both, or for the one in its
/// metadata. `two`: the pipeline has two transformers.
Experts opened(const config::Config& config, std::span<const config::LoraChoice> choices, bool two,
               const Job& job) {
  constexpr std::array kUnmatched{weights::Unmatched::HARMLESS, weights::Unmatched::REFUSE,
                                  weights::Unmatched::SKIP};
  const auto unmatched = kUnmatched.at(static_cast<size_t>(config.model.lora_unmatched));
  Files files;
  Experts out;
  for (const config::LoraChoice& choice : choices) {
    check(choice.for_first || two,
          "[lora] {} is for a low-noise expert only, but the model has one transformer\n"
          "  give weight_name instead of low_noise_weight_name",
          choice.name);
    const bool for_both =
        two && choice.for_first && choice.for_second && choice.file == choice.file_2;
    for (int64_t expert = 0; expert < (two ? 2 : 1); ++expert) {
      if (!(expert == 0 ? choice.for_first : choice.for_second)) {
        continue;
      }
      const auto lora =
          files.open(locate(choice.source, expert == 0 ? choice.file : choice.file_2, job));
      if (!for_both || lora->only_expert().value_or(expert) == expert) {
        out[static_cast<size_t>(expert)].push_back(
            {.lora = lora, .scale = choice.scale, .expert = expert, .unmatched = unmatched});
      }
    }
  }
  return out;
}

/// Removes the file from which the run's adapter started, because the adapter includes it. Returns
/// its scale.
double without_start(const SelectedModel& model, std::vector<config::LoraChoice>& choices) {
  if (choices.empty() || !(choices.front() == model.adapter_start)) {
    return 1;
  }
  const double scale = choices.front().scale;
  choices.erase(choices.begin());
  return scale;
}

/// Adds the ranks of the adapters that `lora_mode: apply` does not merge to `options`.
void add_ranks(const config::Config& config, std::span<const weights::Adapter> adapters,
               const networks::Network& network, nn::ModelOptions& options) {
  if (config.model.lora_mode == config::LoraMode::APPLY) {
    nn::ModelOptions plain = options;
    plain.low_ranks = {};
    options.low_ranks = weights::greatest(std::move(options.low_ranks),
                                          weights::low_ranks(adapters, network->parameters(plain)));
  }
}

bool is_for_text_alone(const weights::Lora& lora) {
  return lora.targets().empty() && lora.unknown().empty();
}

/// Adds the text encoders' parts of the adapters to the model, and a log line for each. `network`:
/// the network of these text encoders.
void add_text(std::span<const weights::Adapter> adapters, const networks::Network& network,
              SelectedModel& model, std::vector<std::string>& lines) {
  TextAdapters& text = model.text_adapters;
  const model_files::Family* family = model_files::family_of_config(network->config());
  const std::string_view class_1 = family == nullptr ? "" : family->text_encoder_class;
  const std::string_view class_2 = family == nullptr ? "" : family->text_encoder_2_class;
  for (const auto& [member, name, type, into] :
       {std::tuple{weights::LoraMember::TEXT_ENCODER, "text_encoder", class_1, &text.first},
        std::tuple{weights::LoraMember::TEXT_ENCODER_2, "text_encoder_2", class_2, &text.second}}) {
    *into = weights::for_text(adapters, member);
    for (const weights::Adapter& each : *into) {
      // No adapters exist for UMT5.
      const bool of_t5 = std::ranges::any_of(
          each.targets(), [](const auto& one) { return weights::is_of_t5(one.first); });
      check(type.starts_with(of_t5 ? "T5Encoder" : "CLIPText"),
            "[lora] {} changes {} as {}, but in this model that is {}", each.lora->path(), name,
            of_t5 ? "T5" : "CLIP", type.empty() ? "not there" : type);
      lines.push_back(fmt::format("{}: {}: {} modules, scale {}", name,
                                  fs::path(each.lora->path()).filename().string(),
                                  each.targets().size(), each.scale));
    }
  }
}

}  // namespace

std::vector<weights::Adapter> open_adapters(const config::Config& config, const Expert& expert,
                                            const Job& job) {
  const bool two = expert.which != config::TrainExpert::NONE;
  std::vector<config::LoraChoice> choices = config::lora_choices(config.model);
  if (config.optimizer.train_expert != config::TrainExpert::BOTH) {
    for (config::LoraChoice& choice : choices) {  // an expert may start from the other's adapter
      bool& other = expert.is_low_noise() ? choice.for_first : choice.for_second;
      other = other && !two;
    }
  }
  std::vector<weights::Adapter> out =
      opened(config, choices, two, job)[expert.is_low_noise() ? 1 : 0];
  for (const weights::Adapter& each : out) {
    const size_t text = each.lora->targets(weights::LoraMember::TEXT_ENCODER).size() +
                        each.lora->targets(weights::LoraMember::TEXT_ENCODER_2).size();
    if (text > 0 && !config.optimizer.train_text_encoder) {
      job.notice(
          fmt::format("{}: {} modules of text encoders are skipped: they are not trained without "
                      "train_text_encoder",
                      each.lora->path(), text));
    }
  }
  return out;
}

std::vector<weights::Adapter> open_training_lora(const config::Config& config, const Expert& expert,
                                                 const Job& job) {
  const bool two = expert.which != config::TrainExpert::NONE;
  return opened(config, config::training_lora_choices(config.model), two,
                job)[expert.is_low_noise() ? 1 : 0];
}

std::vector<std::string> other_expert_lines(std::span<const weights::Adapter> adapters,
                                            int64_t expert) {
  const auto word = [](int64_t which) { return which == 1 ? "low-noise" : "high-noise"; };
  std::vector<std::string> out;
  for (const weights::Adapter& each : adapters) {
    if (const int64_t trained = each.lora->only_expert().value_or(expert); trained != expert) {
      out.push_back(fmt::format("{} was trained for the {} expert, but is used for the {} one",
                                each.lora->path(), word(trained), word(expert)));
    }
  }
  return out;
}

std::vector<std::string> add_lora(const config::Config& config, nn::ModelOptions& options,
                                  SelectedModel& model, const Job& job) {
  sample::PipelineFolder& folder = model.folder;
  const bool two = folder.has_two_experts();
  std::vector<config::LoraChoice> choices = config::lora_choices(config.model);
  check(!config.model.enable_lora || !choices.empty() || model.has_adapter(),
        "[config] enable_lora is true but lora_config names no file\n  give lora_config: "
        "{{lora_model_name_or_path: [FILE], scale: [1.0]}}");
  const double scale = without_start(model, choices);
  Experts experts = opened(config, choices, two, job);
  for (size_t i = 0; i < experts.size(); ++i) {
    if (const fs::path& own = model.adapters[i]; !own.empty()) {
      experts[i].insert(experts[i].begin(),
                        {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(own)),
                         .scale = scale});
    }
  }
  const std::array<fs::path, 2> transformers{folder.transformer, folder.transformer_2};
  for (size_t i = 0; i < (two ? 2 : 1); ++i) {
    add_ranks(config, experts[i], networks::open(transformers[i]), options);
  }
  // Checked before large files are read.
  std::vector<std::string> lines;
  for (size_t i = 0; i < experts.size(); ++i) {
    if (two) {
      for (std::string& line : other_expert_lines(experts[i], static_cast<int64_t>(i))) {
        lines.push_back(std::move(line));
      }
    }
    if (!experts[i].empty()) {
      // Targets in text encoders are checked when these are loaded.
      const weights::Adapters fitted(experts[i],
                                     networks::open(transformers[i])->parameters(options));
      for (const std::string& line : fitted.report()) {
        lines.push_back(transformers[i].filename().string() + ": " + line);
      }
    }
  }
  if (!experts[0].empty()) {
    add_text(experts[0], networks::open(transformers[0]), model, lines);
  }
  std::erase_if(experts[0],
                [](const weights::Adapter& each) { return is_for_text_alone(*each.lora); });
  folder.adapters = std::move(experts[0]);
  folder.adapters_2 = std::move(experts[1]);
  return lines;
}

TextAdapters trained_text_of(const SelectedModel& model) {
  TextAdapters out = model.text_adapters;
  if (!model.adapters[0].empty()) {
    const std::vector<weights::Adapter> own{
        {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(model.adapters[0]))}};
    out.first = weights::for_text(own, weights::LoraMember::TEXT_ENCODER);
    out.second = weights::for_text(own, weights::LoraMember::TEXT_ENCODER_2);
  }
  return out;
}

void plan_lora(const config::Config& config, const networks::Network& network,
               nn::ModelOptions& options, const Job& job) {
  for (const auto& adapters : opened(config, config::lora_choices(config.model), true, job)) {
    add_ranks(config, adapters, network, options);
    // Throws an Error if a file is for another model.
    const weights::Adapters fitted(adapters, network->parameters(options));
  }
}

}  // namespace kinema::model_source
