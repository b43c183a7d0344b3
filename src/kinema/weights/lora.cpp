#include "kinema/weights/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/core/pattern.h"
#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/cut.h"
#include "kinema/weights/lora_key.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/peft_config.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

double scalar(const io::TensorView& view, const std::string& path) {
  check(view.shape.elements() == 1, "[lora] {}: `{}` is {} but must be one number", path, view.name,
        to_string(view.shape));
  const double value = adapters::number_of(view);
  check(std::isfinite(value), "[lora] {}: `{}` is {}", path, view.name, value);
  return value;
}

/// What the parts of a module are, before joined modules are divided.
Lora::Target target_of(const adapters::LoraParts& parts, const std::string& path) {
  const auto at = [&](adapters::LoraPart part) { return parts[static_cast<size_t>(part)]; };
  Lora::Target out{.diff_bias = at(adapters::LoraPart::DIFF_BIAS),
                   .alpha = at(adapters::LoraPart::ALPHA)};
  try {
    out.method = adapters::method_of(parts);
    if (out.method != nullptr) {
      const adapters::WeightSize size = out.method->size(parts);
      if (adapters::is_dora(parts)) {
        adapters::norms_are_of_columns(parts, size);
      }
      out.rows = size.rows;
      out.parts = parts;
      return out;
    }
  } catch (const Error& error) {
    constexpr std::string_view kRoom = "[lora] ";
    const std::string_view what = error.what();
    fail("[lora] {}: {}", path, what.substr(what.starts_with(kRoom) ? kRoom.size() : 0));
  }
  out.down = at(adapters::LoraPart::DOWN);
  out.up = at(adapters::LoraPart::UP);
  out.up_bias = at(adapters::LoraPart::UP_BIAS);
  out.diff = at(adapters::LoraPart::DIFF);
  return out;
}

void check_pair(const Lora::Target& target, const std::string& module, const std::string& path) {
  const io::TensorView* one = target.down != nullptr ? target.down : target.up;
  if (one == nullptr) {
    check(target.up_bias == nullptr && target.alpha == nullptr,
          "[lora] {}: `{}` has an alpha or a bias but no pair of down and up to go with it", path,
          module);
    return;
  }
  check(target.down != nullptr && target.up != nullptr,
        "[lora] {}: `{}` has no other half (lora_A and lora_B, or lora_down and lora_up)", path,
        one->name);
  const Dims& down = target.down->shape.dims;
  const Dims& up = target.up->shape.dims;
  const bool fits = down.size() >= 2 && up.size() >= 2 && down[0] == up[1] && down[0] > 0 &&
                    target.up->shape.elements() == up[0] * up[1] &&
                    target.down->shape.elements() > 0 && up[0] > 0;
  check(fits,
        "[lora] {}: `{}` is {} and `{}` is {}, expected [rank, in...] and [out, rank] of one rank",
        path, target.down->name, kinema::to_string(down), target.up->name, kinema::to_string(up));
}

std::string format_of(const LoraKey& key, const model_files::Family* family) {
  if (key.underscored) {
    return "kohya names";
  }
  return key.naming == model_files::Naming::DIFFUSERS
             ? "diffusers names"
             : fmt::format("original {}names",
                           family == nullptr ? "" : std::string(family->name) + " ");
}

bool is_text(const LoraKey& key) {
  return key.member == LoraMember::TEXT_ENCODER || key.member == LoraMember::TEXT_ENCODER_2;
}

/// The family of most keys; null if none belongs to a network. Of families with the same names, the
/// one with modules of its own among them, else the first.
const model_files::Family* find_family(std::span<const io::TensorView> tensors) {
  const model_files::Family* best = nullptr;
  int64_t most = 0;
  for (const model_files::Family& family : model_files::families()) {
    int64_t known = 0;
    bool has_own = false;
    for (const io::TensorView& tensor : tensors) {
      const auto key = read_lora_key(tensor.name, *family.names);
      if (key && !is_text(*key)) {
        ++known;
        has_own = has_own || (!family.own_modules.empty() &&
                              key->pieces.front().name.starts_with(family.own_modules));
      }
    }
    if (known > most || (known == most && has_own)) {
      most = known;
      best = &family;
    }
  }
  return best;
}

std::string plural(size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace

bool is_lora_folder(const fs::path& path) {
  std::error_code ignored;
  return (fs::exists(path / kPeftConfig, ignored) && fs::exists(path / kPeftFile, ignored)) ||
         fs::exists(path / kLoraFile, ignored);
}

Lora Lora::open(const fs::path& path, const model_files::Layout* layout) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  Lora out;
  out.path_ = path.string();
  const bool of_diffusers =
      folder && fs::exists(path / kLoraFile, ignored) && !fs::exists(path / kPeftFile, ignored);
  const fs::path file = folder ? path / (of_diffusers ? kLoraFile : kPeftFile) : path;
  const fs::path peft_config = file.parent_path() / kPeftConfig;
  check(
      !folder || of_diffusers || fs::exists(peft_config, ignored),
      "[lora] {0} has {1} without {2}, which contains its scale\n  {0}/{1} itself is applied with "
      "a scale of 1, as if lora_alpha were the rank",
      out.path_, kPeftFile, kPeftConfig);
  out.file_ = io::TensorFile::open(file);
  if (file.filename() == kPeftFile) {
    check_peft_type(peft_config, out.file_);
  }
  std::array<Groups, 4> groups;
  out.read(layout, groups);
  out.finish(groups);
  const bool of_peft = file.filename() == kPeftFile ||
                       std::ranges::any_of(out.file_.tensors(), [](const io::TensorView& tensor) {
                         return tensor.name.starts_with("base_model.model.");
                       });
  if (of_peft && fs::exists(peft_config, ignored)) {
    const Json configured = Json::read(peft_config);
    check_init(configured, "", out.path_);
    set_oft(configured, "", out.path_, out.targets_[0]);
    PatternBudget budget;
    ConfiguredAlpha alpha = read_alpha(configured, "", out.path_, budget);
    if (!configured.contains("lora_alpha") && !configured.contains("alpha")) {
      constexpr double kDefault = 8;  // of PEFT's LoraConfig
      alpha.alpha = kDefault;
    }
    for (auto& [module, target] : out.targets_[0]) {
      const int64_t own =
          target.method == nullptr ? target.rank() : target.method->rank(target.parts);
      const int64_t rank = own > 0 || target.method == nullptr ? own : alpha.rank;
      if (rank > 0 && target.alpha == nullptr) {
        target.factor = alpha.factor(module, rank, budget);
      }
    }
  }
  return out;
}

/// Finds the family and the module of each key.
void Lora::read(const model_files::Layout* layout, std::array<Groups, 4>& groups) {
  const std::optional<FoundKind> kind = detect_tensor_kind(file_.tensors());
  if (kind && kind->kind->roles != 0) {
    check_role(path_, {Role::ADAPTER}, "lora");
  }
  check(!kind || kind->kind->is(Role::ADAPTER),
        "[lora] {}: {} belongs to {}, which is not supported: {}", path_, kind ? kind->because : "",
        kind ? kind->kind->name : "", kind ? kind->kind->remedy : "");
  family_ = find_family(file_.tensors());
  const model_files::NameTable& names =
      family_ == nullptr ? *model_files::families().front().names : *family_->names;
  for (const io::TensorView& tensor : file_.tensors()) {
    const std::optional<LoraKey> key =
        read_lora_key(tensor.name, names, layout == nullptr ? model_files::Layout() : *layout);
    if (key) {
      add(tensor, *key, groups);
    } else {
      unknown_.push_back(tensor.name);
    }
    counts_by_layout_ =
        counts_by_layout_ ||
        (names.layout != nullptr && (!key || key->naming == model_files::Naming::ORIGINAL));
  }
  check(std::ranges::any_of(groups, [](const Groups& each) { return !each.empty(); }),
        "[lora] {} has no LoRA key of a known network{}", path_,
        unknown_.empty()
            ? ": it has no tensors"
            : fmt::format(" among its {} (the first is `{}`)", unknown_.size(), unknown_[0]));
}

void Lora::add(const io::TensorView& tensor, const LoraKey& key, std::array<Groups, 4>& groups) {
  const bool is_number =
      key.part == adapters::LoraPart::ALPHA || key.part == adapters::LoraPart::IA3_INPUT;
  check(is_number || is_float(tensor.shape.dtype),
        "[lora] {}: `{}` is {} but must be floating-point", path_, tensor.name,
        to_string(tensor.shape));
  std::string module;
  for (const model_files::Piece& piece : key.pieces) {
    module += (module.empty() ? "" : ", ") + piece.name;
  }
  Group& group = groups[static_cast<size_t>(key.member)][module];
  group.pieces = key.pieces;
  const io::TensorView*& slot = group.parts[static_cast<size_t>(key.part)];
  check(slot == nullptr, "[lora] {}: `{}` and `{}` are the same part of `{}`", path_,
        slot == nullptr ? "" : slot->name, tensor.name, module);
  slot = &tensor;
  const std::string format = format_of(key, is_text(key) ? nullptr : family_);
  if (std::ranges::find(formats_, format) == formats_.end()) {
    formats_.push_back(format);
  }
}

/// Checks pairs, computes the factors after all keys are read, and divides joined modules.
void Lora::finish(const std::array<Groups, 4>& groups) {
  const auto metadata = file_.metadata().find("lora_adapter_metadata");
  const Json configured = metadata == file_.metadata().end()
                              ? Json::object()
                              : Json::parse(metadata->second, path_ + " (lora_adapter_metadata)");
  PatternBudget budget;
  for (size_t member = 0; member < groups.size(); ++member) {
    const std::string prefix = metadata_prefix(configured, static_cast<LoraMember>(member));
    check_init(configured, prefix, path_);
    const ConfiguredAlpha alpha = read_alpha(configured, prefix, path_, budget);
    for (const auto& [module, group] : groups[member]) {
      Target target = target_of(group.parts, path_);
      if (target.method == nullptr) {
        check_pair(target, module, path_);
      }
      const int64_t rank =
          target.method == nullptr ? target.rank() : target.method->rank(target.parts);
      const double own_alpha = target.alpha == nullptr ? 0 : scalar(*target.alpha, path_);
      if (rank > 0) {
        target.factor = target.alpha != nullptr ? own_alpha / static_cast<double>(rank)
                                                : alpha.factor(group.pieces[0].name, rank, budget);
      }
      divide(group.pieces, target, targets_[member]);
    }
    set_oft(configured, prefix, path_, targets_[member]);
  }
  two_parts_ = !targets_[0].empty() && !targets_[1].empty();
  if (targets_[0].empty() && !targets_[1].empty()) {
    std::swap(targets_[0], targets_[1]);  // a file for the second transformer only
    only_expert_ = 1;
  }
  const auto expert = file_.metadata().find(kExpertKey);
  if (!two_parts_ && expert != file_.metadata().end()) {
    only_expert_ = expert->second == kLowNoise ? 1 : 0;
  }
}

/// A target for each diffusers module.
void Lora::divide(std::span<const model_files::Piece> pieces, const Target& whole,
                  Targets& targets) {
  for (const model_files::Piece& piece : pieces) {
    const auto [found, fresh] = targets.emplace(piece.name, part_of(whole, piece));
    const auto name_of = [](const Target& target) {
      for (const io::TensorView* view : {target.up, target.diff, target.diff_bias}) {
        if (view != nullptr) {
          return view->name;
        }
      }
      const auto own =
          std::ranges::find_if(target.parts, [](auto* view) { return view != nullptr; });
      return own == target.parts.end() ? std::string() : (*own)->name;
    };
    check(fresh, "[lora] {}: `{}` and `{}` are the same part of `{}`", path_,
          name_of(found->second), name_of(whole), piece.name);
  }
}

Lora::Target Lora::part_of(const Target& whole, const model_files::Piece& piece) {
  Target out = whole;
  const auto keep = [&](io::TensorView view) { return &made_.emplace_back(std::move(view)); };
  if (piece.cut == model_files::Cut::TRANSPOSED && whole.down != nullptr) {
    // (up down)^T = down^T up^T
    out.down = keep(*model_files::transposed_view(*whole.up, piece, path_));
    out.up = keep(*model_files::transposed_view(*whole.down, piece, path_));
  }
  if (whole.method != nullptr) {
    set_rows(piece, out);
  }
  const auto columns = [&] {
    const io::TensorView* weight = whole.down != nullptr ? whole.down : whole.diff;
    check(weight != nullptr && weight->shape.rank() == 2,
          "[lora] {}: `{}` is joined of several modules, but no weight tells how", path_,
          piece.name);
    return weight->shape.dims[1];
  };
  for (const io::TensorView** slot : {&out.up, &out.up_bias, &out.diff, &out.diff_bias}) {
    if (*slot == nullptr) {
      continue;
    }
    if (const auto rows = model_files::rows_of(**slot, piece, path_, columns)) {
      *slot = keep(model_files::rows_view(**slot, *rows));
    } else if (piece.cut == model_files::Cut::SWAPPED ||
               (piece.cut == model_files::Cut::TRANSPOSED && slot == &out.diff)) {
      *slot = keep(*model_files::transposed_view(**slot, piece, path_));
    }
  }
  return out;
}

/// The rows of a module that a method changes together with others.
void Lora::set_rows(const model_files::Piece& piece, Target& target) {
  const adapters::WeightSize size = target.method->size(target.parts);
  const std::string& name =
      (*std::ranges::find_if(target.parts, [](auto* view) { return view != nullptr; }))->name;
  const io::TensorView weight{.name = name, .shape = {DType::F32, {size.rows, size.columns}}};
  target.cut = piece.cut;
  if (size.rows == 0) {
    return;
  }
  const auto rows = model_files::rows_of(weight, piece, path_, [&] {
    check(size.inputs > 0 || size.columns > 0,
          "[lora] {}: `{}` is joined of several modules, but no weight tells how", path_,
          piece.name);
    return size.inputs > 0 ? size.inputs : size.columns;
  });
  if (!rows) {
    return;
  }
  const bool all_together =
      adapters::is_dora(target.parts) && adapters::norms_are_of_columns(target.parts, size);
  const int64_t block = all_together ? size.rows : target.method->block(target.parts);
  check(rows->first % block == 0 && rows->count % block == 0,
        "[lora] {}: `{}` changes {} rows together, but {} of them are `{}`, a module of its own\n"
        "  a file in diffusers' names has these modules separately",
        path_, name, block, rows->count, piece.name);
  target.first_row = rows->first;
  target.rows = rows->count;
}

const io::TensorView* Lora::tensor(std::string_view key) const {
  const auto found = std::ranges::find(file_.tensors(), key, &io::TensorView::name);
  return found == file_.tensors().end() ? nullptr : &*found;
}

std::string Lora::summary() const {
  std::set<int64_t> ranks;
  std::set<std::string_view> methods;
  size_t modules = 0;
  for (const Targets& targets : targets_) {
    for (const auto& [module, target] : targets) {
      ++modules;
      const int64_t rank =
          target.method != nullptr ? target.method->rank(target.parts) : target.rank();
      if (rank > 0) {
        ranks.insert(rank);
      }
      if (target.method != nullptr) {
        methods.insert(adapters::method_name(*target.method, target.parts));
      }
    }
  }
  std::string out = fmt::format("{}", fmt::join(formats_, " and "));
  if (!methods.empty()) {
    out += fmt::format(", {}", fmt::join(methods, " and "));
  }
  if (!ranks.empty()) {
    out += ranks.size() == 1 ? fmt::format(", rank {}", *ranks.begin())
                             : fmt::format(", ranks {} to {}", *ranks.begin(), *ranks.rbegin());
  }
  return out + ", " + plural(modules, "module") + (two_parts_ ? " of two experts" : "") +
         (family_ == nullptr ? " of text encoders" : fmt::format(" of {}", family_->name));
}

}  // namespace kinema::weights
