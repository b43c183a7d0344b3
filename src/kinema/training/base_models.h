#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/networks/inner_model.h"
#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/training/learned_rows.h"
#include "kinema/weights/lora.h"

namespace kinema::training {

/// The files of a text encoder, and which model to read from a file with several.
struct TextModelFile {
  std::filesystem::path path;
  std::string part;
};

/// The models with which a training begins.
struct BaseModels {
  std::filesystem::path network;               // empty: initialised
  std::map<std::string, TextModelFile> texts;  // by networks::ModelSpecs::part
  /// Merged into their weights.
  std::vector<weights::Adapter> merged = {};
  /// Words whose rows are trained, with their initial values; empty: none.
  std::vector<WordRows> words = {};
  LearnedRows learned_rows = {};
  /// The files of a ControlNet that is trained; an empty path: a new one, whose encoder is a copy
  /// of the network's.
  std::optional<std::filesystem::path> control = {};
};

/// The adapters for a model of networks::by_model.
std::vector<weights::Adapter> adapters_for(std::span<const weights::Adapter> all,
                                           const std::string& part);

/// Calls `load` for each model (networks::by_model), and joins the results in the order of `specs`.
std::vector<runtime::Array> load_each(
    std::span<const nn::ParamSpec> specs,
    const std::function<std::vector<runtime::Array>(const networks::ModelSpecs&)>& load);

/// The parameters of the network, of its text encoders and of its ControlNet: from their files,
/// with parameters of adapters from `start` or initialised (weights::load_adapted).
std::vector<runtime::Array> load_base(const BaseModels& base,
                                      std::span<const weights::Adapter> start, uint64_t seed,
                                      std::span<const nn::ParamSpec> specs,
                                      const runtime::Devices& devices);

}  // namespace kinema::training
