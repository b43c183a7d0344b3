#include "kinema/verification/verify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/verification/case.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"

namespace kinema::verification {
namespace {

using CaseRows = std::vector<Row> (*)(const Case& c, Session& session);

/// The code for a case of this name; null when there is none yet.
CaseRows rows_for(const std::string& name) {
  static const std::map<std::string, CaseRows> known{
      {"transformer", forward_rows},
      {"transformer_edge", forward_rows},
      {"transformer_i2v", forward_rows},
      {"transformer_ti2v", forward_rows},
      {"transformer_grad", gradient_rows},
      {"train", train_rows},
      {"train_weighted", train_rows},
      {"experts", expert_rows},
      {"sched", scheduler_rows},
      {"variants", variant_rows},
      {"dataset", dataset_rows},
      {"tokenizer", tokenizer_rows},
      {"umt5", umt5_rows},
      {"lora", lora_rows},
      {"lora_train", lora_training_rows},
      {"lora_train_bf16_base", lora_training_rows},
      {"lora_formats", lora_format_rows},
      {"image", image_rows},
      {"flux_transformer", image_forward_rows},
      {"flux_transformer_schnell", image_forward_rows},
      {"flux_transformer_edge", image_forward_rows},
      {"flux_transformer_grad", image_gradient_rows},
      {"sdxl_unet", image_forward_rows},
      {"sdxl_unet_odd", image_forward_rows},
      {"sdxl_unet_grad", image_gradient_rows},
      {"flux_sched", flux_schedule_rows},
      {"sdxl_sched", sdxl_schedule_rows},
      {"flux_objective", flux_objective_rows},
      {"sdxl_objective", sdxl_objective_rows},
      {"flux_train", image_train_rows},
      {"flux_train_weighted", image_train_rows},
      {"flux_lora_train", image_train_rows},
      {"sdxl_train", image_train_rows},
      {"sdxl_lora_train", image_train_rows},
      {"sdxl_train_snr", image_train_rows},
      {"flux_lora", image_lora_rows},
      {"sdxl_lora", image_lora_rows},
      {"flux_single", flux_single_rows},
      {"sdxl_single", sdxl_single_rows},
      {"flux_vae", kl_autoencoder_rows},
      {"sdxl_vae", kl_autoencoder_rows},
      {"clip_tokenizer", clip_tokenizer_rows},
      {"clip_tokenizer_pad", clip_tokenizer_rows},
      {"t5_tokenizer", t5_tokenizer_rows},
      {"flux_clip", clip_text_rows},
      {"sdxl_clip2", clip_text_rows},
      {"flux_t5", t5_rows},
      {"vae", vae_rows},
      {"vae22", vae_rows},
  };
  if (name.starts_with("pipeline_")) {
    return pipeline_rows;
  }
  if (name.starts_with("flux_pipeline") || name.starts_with("sdxl_pipeline")) {
    return image_pipeline_rows;
  }
  if (name.starts_with("quant_")) {
    return name.starts_with("quant_model_") ? quantized_model_rows : quantized_rows;
  }
  if (name.starts_with("dreamer_")) {
    return dreamer_rows;
  }
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second;
}

std::vector<Row> run_case(const std::filesystem::path& folder, const std::string& name,
                          Session& session) {
  const CaseRows rows = rows_for(name);
  if (rows == nullptr) {
    return {unsupported(name)};
  }
  try {
    std::vector<Row> made = rows(Case(folder, name), session);
    return made.empty() ? std::vector<Row>{failed(name, "", "the case holds nothing to compare")}
                        : made;
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception& error) {
    // One damaged file or one program that does not compile must not hide the other cases.
    return {failed(name, "", error.what())};
  }
}

/// Cases that share a session, by their position in the list of names. The pipelines share
/// programs; the others have none in common.
using Unit = std::vector<size_t>;

std::vector<Unit> units_of(const std::vector<std::string>& names) {
  // The longest first, so that no thread is left alone with them at the end.
  std::vector<Unit> training;
  std::vector<Unit> others;
  Unit pipelines;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].starts_with("pipeline_")) {
      pipelines.push_back(i);
    } else {
      const bool trains = names[i].starts_with("train") || names[i] == "experts";
      (trains ? training : others).push_back({i});
    }
  }
  training.insert(training.end(), others.begin(), others.end());
  if (!pipelines.empty()) {
    training.push_back(pipelines);
  }
  return training;
}

/// Runs the units on several threads: compiling takes most of the time and uses one core a program.
class Runner {
 public:
  Runner(std::filesystem::path folder, std::vector<std::string> names, const pjrt::Client& client,
         const Options& options)
      : folder_(std::move(folder)),
        names_(std::move(names)),
        client_(client),
        options_(options),
        units_(units_of(names_)),
        rows_(names_.size()) {}

  std::vector<Row> operator()() {
    const int threads = options_.threads > 0 ? options_.threads : std::min(processor_threads(), 4);
    for_each_in_parallel(units_.size(), threads, [this](size_t unit) { work(units_[unit]); });
    std::vector<Row> all;
    for (const std::vector<Row>& rows : rows_) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }

 private:
  void work(const Unit& unit) {
    Session session(client_, options_);
    for (const size_t i : unit) {
      rows_[i] = run_case(folder_, names_[i], session);
      if (options_.on_case) {
        const std::scoped_lock lock(mutex_);
        options_.on_case(rows_[i]);
      }
    }
  }

  std::filesystem::path folder_;
  std::vector<std::string> names_;
  const pjrt::Client& client_;
  const Options& options_;
  std::vector<Unit> units_;
  std::vector<std::vector<Row>> rows_;  // by case; each written by one thread
  std::mutex mutex_;                    // of on_case
};

}  // namespace

Report run(const std::filesystem::path& folder, const pjrt::Client& client,
           const Options& options) {
  const std::vector<std::string> all = case_names(folder);
  std::vector<std::string> names = all;
  std::erase_if(names, [&](const std::string& name) {
    const auto has = [&](const std::string& part) { return name.find(part) != std::string::npos; };
    return !has(options.filter) || std::ranges::any_of(options.skip, has);
  });
  constexpr size_t kShown = 8;
  const auto shown = std::span(all).first(std::min(all.size(), kShown));
  check(!names.empty(), "[verify] no case in {} has `{}` in its name\n  there are {}: {}{}",
        folder.string(), options.filter, all.size(), fmt::join(shown, ", "),
        all.size() > kShown ? ", ..." : "");
  return {Runner(folder, std::move(names), client, options)()};
}

}  // namespace kinema::verification
