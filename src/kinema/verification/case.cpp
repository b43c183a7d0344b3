#include "kinema/verification/case.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::verification {

namespace fs = std::filesystem;

Case::Case(fs::path folder, std::string name)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      about_(io::Json::read(folder_ / "io" / (name_ + ".json"))),
      file_(io::SafetensorsFile::open(folder_ / "io" / (name_ + ".safetensors"))) {}

fs::path Case::model() const { return folder_ / about_.at("model").as_string(); }

std::vector<std::string> Case::names(std::string_view prefix) const {
  std::vector<std::string> out;
  for (const io::TensorView& tensor : file_.tensors()) {
    if (tensor.name.starts_with(prefix)) {
      out.push_back(tensor.name);
    }
  }
  return out;
}

std::vector<std::string> Case::names_before(std::string_view end, std::string_view prefix) const {
  std::vector<std::string> out = names(prefix);
  std::erase_if(out, [&](const std::string& name) { return !name.ends_with(end); });
  for (std::string& name : out) {
    name.resize(name.size() - end.size());
  }
  return out;
}

const io::Json* given(const io::Json& object, std::string_view key) {
  const io::Json* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::vector<std::string> strings(const io::Json& list) {
  std::vector<std::string> out;
  for (const io::Json& each : list.items()) {
    out.push_back(each.as_string());
  }
  return out;
}

std::vector<std::string> case_names(const fs::path& folder) {
  const fs::path io = folder / "io";
  std::error_code ignored;
  check(fs::is_directory(io, ignored),
        "[verify] {}, expected a folder of reference cases, with a folder io and the models\n"
        "  tests/golden of the source tree is one; --filter NAME takes some of its cases",
        fs::exists(folder, ignored)
            ? fmt::format("`{}` holds no reference cases: it has no folder io", folder.string())
            : fmt::format("there is no `{}`", folder.string()));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(io)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".json" || path.extension() == ".safetensors") {
      names.insert(path.stem().string());
    }
  }
  check(!names.empty(), "[verify] {} holds no case (NAME.json with NAME.safetensors)", io.string());
  return {names.begin(), names.end()};
}

}  // namespace kinema::verification
