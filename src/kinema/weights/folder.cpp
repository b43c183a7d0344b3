#include "kinema/weights/folder.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/weights/lora_key.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

/// Some checkpoints contain it, no implementation reads it.
bool is_ignored(const std::string& key) { return key.ends_with(".attn2.norm_added_q.weight"); }

std::string join(const std::vector<std::string>& problems) {
  if (problems.size() == 1) {
    return problems[0];
  }
  return fmt::format("{} ({} more tensor{} not as expected)", problems[0], problems.size() - 1,
                     problems.size() == 2 ? " is" : "s are");
}

/// The remedy where the tensors are those of a known kind of model, on a line of its own: files are
/// often put beside the config.json of a similar model, such as FLUX.1 Fill's beside FLUX.1 dev's.
std::string kind_remedy(const model_files::Checkpoint& checkpoint) {
  std::vector<io::TensorView> tensors;
  for (const auto& [key, view] : checkpoint.tensors()) {
    tensors.push_back(*view);
  }
  const std::optional<FoundKind> found = detect_tensor_kind(tensors);
  if (!found || !found->kind->is_variant()) {
    return "";
  }
  return fmt::format(
      "\n  these are the tensors of: {}. Put the config.json of that model beside the file",
      found->kind->name);
}

/// Codes of weights (S8) are quantized from floats when they are loaded.
bool is_made_of_floats(DType dtype) { return is_float(dtype) || dtype == DType::S8; }

}  // namespace

void check_tensors(const model_files::Checkpoint& checkpoint, std::span<const nn::ParamSpec> specs,
                   const std::function<bool(const std::string& key)>& ignored) {
  std::vector<std::string> problems;
  std::set<std::string> expected;
  for (const nn::ParamSpec& spec : specs) {
    if (spec.is_stored_scale()) {
      continue;
    }
    const Shape wanted = spec.layer_shape();
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      const std::string key = spec.key(layer);
      const io::TensorView* found = checkpoint.find(key);
      if (found == nullptr && spec.is_low_rank()) {
        continue;  // only an optimizer's state contains it
      }
      expected.insert(key);
      const std::string name = checkpoint.name_in_file(key);
      if (found == nullptr) {
        problems.push_back(fmt::format("`{}` {} is missing", name, to_string(wanted.dims)));
      } else if (found->shape.dims != wanted.dims) {
        problems.push_back(fmt::format("`{}` is {} but the config expects {}", name,
                                       to_string(found->shape), to_string(wanted.dims)));
      } else if (found->shape.dtype != wanted.dtype &&
                 !(is_float(found->shape.dtype) && is_made_of_floats(wanted.dtype))) {
        problems.push_back(fmt::format(
            "`{}` is {} but must be {}", name, to_string(found->shape),
            is_made_of_floats(wanted.dtype) ? "floating-point" : to_string(wanted.dtype)));
      }
    }
  }
  for (const auto& [key, view] : checkpoint.tensors()) {
    if (!expected.contains(key) && !is_ignored(key) && !(ignored && ignored(key))) {
      problems.push_back(fmt::format("`{}` {} is not part of the model that the config describes",
                                     view->name, to_string(view->shape)));
    }
  }
  if (!problems.empty()) {
    fail("[weights] {}: {}{}", checkpoint.path(), join(problems), kind_remedy(checkpoint));
  }
}

void check_folder(const std::filesystem::path& path, std::span<const nn::ParamSpec> specs) {
  check_tensors(model_files::Checkpoint::open(path), specs);
}

FileKind file_kind(const std::filesystem::path& path) {
  const model_files::Checkpoint checkpoint = model_files::Checkpoint::open(path);
  if (model_files::is_transformer(checkpoint)) {
    return FileKind::TRANSFORMER;
  }
  const bool lora =
      std::ranges::any_of(checkpoint.tensors(), [](const model_files::Checkpoint::Entry& entry) {
        return read_lora_key(entry.view->name).has_value();
      });
  return lora ? FileKind::LORA : FileKind::OTHER;
}

}  // namespace kinema::weights
