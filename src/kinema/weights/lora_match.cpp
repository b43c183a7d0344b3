#include "kinema/weights/lora_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/weights/harmless_parts.h"

namespace kinema::weights {
namespace {

/// [out, rank, 1...] times [rank, in...]: the shape of the product.
Dims product_dims(const Lora::Target& target) {
  Dims dims = target.down->shape.dims;
  dims[0] = target.up->shape.dims[0];
  return dims;
}

/// Linear weights may be stored as 1x1 convolutions.
Dims without_trailing_ones(Dims dims, size_t rank) {
  while (dims.size() > rank && dims.back() == 1) {
    dims.pop_back();
  }
  return dims;
}

}  // namespace

Dims in_file(Dims dims, model_files::Cut cut) {
  if (cut == model_files::Cut::TRANSPOSED && dims.size() == 2) {
    std::swap(dims[0], dims[1]);
  }
  return dims;
}

Matcher::Matcher(const Adapter& adapter, const Shapes& shapes)
    : lora_(*adapter.lora), unmatched_(adapter.unmatched), shapes_(shapes) {
  if (adapter.member == LoraMember::NETWORK) {
    for (const std::string& key : lora_.unknown()) {
      leave_out(key, key, {});
    }
  }
}

Matcher::Keys Matcher::match(const std::string& module, const Lora::Target& target) {
  Keys keys;
  if (target.changes_weight()) {
    const std::string weight = shapes_.contains(module) ? module : module + ".weight";
    bool fits = true;
    if (target.down != nullptr) {
      fits = fit({target.down, target.up, target.alpha}, weight, product_dims(target));
    }
    if (target.method != nullptr) {
      fits = fit_method(target, weight);
    }
    if (target.diff != nullptr) {
      fits = fit({target.diff}, weight, target.diff->shape.dims) && fits;
    }
    keys.weight = fits ? weight : "";
  }
  const std::string bias = module + ".bias";
  bool fits = target.up_bias != nullptr || target.diff_bias != nullptr;
  for (const io::TensorView* view : {target.up_bias, target.diff_bias}) {
    if (view != nullptr) {
      fits = fit({view}, bias, view->shape.dims) && fits;
    }
  }
  keys.bias = fits ? bias : "";
  return keys;
}

std::string Matcher::summary() const {
  if (skipped_.empty()) {
    return fmt::format("all {} keys matched", matched_.size());
  }
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : kinds_) {
    kinds.push_back(fmt::format("{} of {}", count, kind));
  }
  return fmt::format("{} of {} keys matched, {} skipped ({})", matched_.size(),
                     matched_.size() + skipped_.size(), skipped_.size(), fmt::join(kinds, ", "));
}

void Matcher::finish() const {
  if (!misfits_.empty()) {
    fail("[lora] {}: {}{}: it was made for another model", lora_.path(), misfits_[0],
         misfits_.size() == 1 ? "" : fmt::format(" ({} more differ too)", misfits_.size() - 1));
  }
  check(missing_.empty(),
        "[lora] {}: {} of {} keys fit no parameter of the model, `{}` for one; the other {} do\n"
        "  lora_unmatched=skip uses the others alone",
        lora_.path(), missing_.size(), missing_.size() + matched_.size() + skipped_.size(),
        missing_.empty() ? "" : missing_.begin()->substr(0, 200), matched_.size());
  const bool has_text = !lora_.targets(LoraMember::TEXT_ENCODER).empty() ||
                        !lora_.targets(LoraMember::TEXT_ENCODER_2).empty();
  check(!matched_.empty() || skipped_.empty() || has_text,
        "[lora] {}: none of its {} keys fits a parameter of the model", lora_.path(),
        skipped_.size());
}

void Matcher::leave_out(const std::string& key, const std::string& name,
                        const std::string& misfit) {
  const std::string_view kind =
      unmatched_ == Unmatched::REFUSE ? "" : harmless_kind(name, !misfit.empty());
  if (kind.empty() && unmatched_ != Unmatched::SKIP) {
    if (misfit.empty()) {
      missing_.insert(key);
    } else if (std::ranges::find(misfits_, misfit) == misfits_.end()) {
      misfits_.push_back(misfit);  // once for the tensors of a pair
    }
  } else if (skipped_.insert(key).second) {
    ++kinds_[std::string(!kind.empty()    ? kind
                         : misfit.empty() ? "modules that the model does not have"
                                          : "weights of another size")];
  }
}

bool Matcher::fit_method(const Lora::Target& target, const std::string& key) {
  const auto found = shapes_.find(key);
  std::string misfit;
  if (found != shapes_.end()) {
    const Dims dims = in_file(found->second.dims, target.cut);
    const adapters::WeightSize given = target.method->size(target.parts);
    const auto differs = [](int64_t a, int64_t b) { return a != 0 && a != b; };
    const auto word = [](int64_t size) { return size == 0 ? "any" : std::to_string(size); };
    const int64_t columns =
        dims.size() < 2 ? 0 : Shape{DType::F32, dims}.elements() / std::max<int64_t>(dims[0], 1);
    if (dims.size() < 2 || differs(target.rows, dims[0]) || differs(given.columns, columns) ||
        differs(given.inputs, dims[1])) {
      misfit = fmt::format(
          "`{}` is for a weight of {} rows and {} columns but the model's `{}` is {}",
          (*std::ranges::find_if(target.parts, [](auto* view) { return view != nullptr; }))->name,
          word(target.rows), word(given.columns == 0 ? given.inputs : given.columns), key,
          to_string(found->second.dims));
    }
  }
  for (const io::TensorView* tensor : target.parts) {
    if (tensor == nullptr || tensor == target.diff_bias) {
      continue;
    }
    if (found == shapes_.end() || !misfit.empty()) {
      leave_out(tensor->name, key, misfit);
    } else {
      matched_.insert(tensor->name);
    }
  }
  return found != shapes_.end() && misfit.empty();
}

bool Matcher::fit(std::initializer_list<const io::TensorView*> tensors, const std::string& key,
                  const Dims& dims) {
  const auto found = shapes_.find(key);
  std::string misfit;
  if (found != shapes_.end()) {
    const Dims& wanted = found->second.dims;
    if (without_trailing_ones(dims, wanted.size()) != wanted) {
      misfit = fmt::format("`{}` is for a {} but the model's `{}` is {}", (*tensors.begin())->name,
                           to_string(without_trailing_ones(dims, wanted.size())), key,
                           to_string(wanted));
    }
  }
  for (const io::TensorView* tensor : tensors) {
    if (tensor == nullptr) {
      continue;
    }
    if (found == shapes_.end() || !misfit.empty()) {
      leave_out(tensor->name, key, misfit);
    } else {
      matched_.insert(tensor->name);
    }
  }
  return found != shapes_.end() && misfit.empty();
}

}  // namespace kinema::weights
