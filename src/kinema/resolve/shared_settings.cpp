#include "kinema/resolve/shared_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/png_text.h"
#include "kinema/remote/hub.h"
#include "kinema/resolve/foreign_settings.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

bool is_picture_name(const fs::path& file) {
  static constexpr std::string_view kEndings[] = {".png", ".jpg", ".jpeg", ".webp"};
  return std::ranges::find(kEndings, file.extension().native()) != std::end(kEndings);
}

/// The keys that were not given.
std::vector<std::string> missing(const std::vector<std::string>& keys,
                                 const config::Loaded& loaded) {
  std::vector<std::string> out;
  std::ranges::copy_if(keys, std::back_inserter(out),
                       [&](const std::string& key) { return !loaded.is_set(key); });
  return out;
}

/// True for a model that is not a local path: an id of the hub, or none.
bool is_no_path(const std::string& model) {
  std::error_code ignored;
  return model.empty() || (remote::read_hub_id(model) && !fs::exists(model, ignored));
}

/// The folder of runs if the file is in `samples` of the run that it names; else empty.
fs::path folder_of_runs(const fs::path& file, const fs::path& run_name) {
  for (fs::path at = fs::absolute(file).lexically_normal().parent_path(); at != at.root_path();
       at = at.parent_path()) {
    fs::path runs = at.parent_path();
    for ([[maybe_unused]] const fs::path& part : run_name) {
      runs = runs.parent_path();
    }
    if (at.filename() == "samples" && runs / run_name == at.parent_path()) {
      return runs;
    }
  }
  return {};
}

/// The settings in a picture, with the names of those that are not read, in the form of the `.json`
/// of a video: those of kinema, of AUTOMATIC1111's web UI or of ComfyUI.
io::Json words_in_picture(const fs::path& file, SharedSettings& shared) {
  const io::MappedFile mapped = io::MappedFile::open(file);
  const std::vector<media::PngText> texts =
      mapped.parsed([&](auto bytes) { return media::read_image_texts(bytes, file.string()); });
  const auto text_of = [&](std::string_view keyword) {
    const auto found = std::ranges::find(texts, keyword, &media::PngText::keyword);
    return found == texts.end() ? nullptr : &found->text;
  };
  const std::string name = file.string();
  if (const std::string* own = text_of("kinema")) {
    return io::Json::parse(*own, fmt::format("{} (`kinema`)", name));
  }
  const auto taken = [&](ForeignSettings settings) {
    shared.not_read = std::move(settings.not_read);
    shared.model = std::move(settings.model);
    io::Json out = io::Json::object();
    out.set("settings", std::move(settings.keys));
    return out;
  };
  if (const std::string* parameters = text_of("parameters")) {
    return taken(settings_of_parameters(*parameters, name));
  }
  if (const std::string* graph = text_of("prompt")) {
    return taken(settings_of_comfyui(*graph, name));
  }
  fail(
      "[generate] {0} contains no settings of kinema, AUTOMATIC1111's web UI or ComfyUI: another "
      "program made or saved it\n"
      "  to start from a picture, give it as image_url={0} to a model that takes one",
      name);
}

}  // namespace

bool may_hold_settings(const fs::path& file) {
  return file.extension() == ".json" || is_picture_name(file);
}

SharedSettings read_shared_settings(const fs::path& file) {
  const bool is_picture = is_picture_name(file);
  SharedSettings out{.file = file};
  const io::Json json = is_picture ? words_in_picture(file, out) : io::Json::read(file);
  const io::Json* settings = json.is_object() ? json.find("settings") : nullptr;
  check(settings != nullptr && settings->is_object(),
        "[generate] {} is not {}: it has no `settings`", file.string(),
        is_picture ? "a picture of kinema" : "the .json of a video or an image");
  const std::vector<config::KeyValue> known = config::describe({});
  for (const auto& [key, value] : settings->members()) {
    const auto found = std::ranges::find(known, key, &config::KeyValue::key);
    check(found != known.end(), "[generate] {}: there is no key `{}`; {}", file.string(), key,
          config::unknown_key_hint(key));
    const std::string text = value.is_string() ? value.as_string() : value.dump(-1);
    const bool empty = text.empty() || text == "null" || text == "[]";
    switch (found->field.share) {
      case config::Share::MODEL:
        if (!is_no_path(text)) {
          out.required_keys.push_back(key);
          break;
        }
        [[fallthrough]];
      case config::Share::YES:
        out.words.push_back(fmt::format("{}={}", key, text));
        break;
      case config::Share::FILE:
        if (!empty) {
          out.required_keys.push_back(key);
        }
        break;
      case config::Share::NO:
        if (!empty) {
          out.left_out.push_back(key);
        }
        break;
    }
  }
  const io::Json* run = settings->find("run_name");
  if (run != nullptr && run->is_string() && !run->as_string().empty()) {
    if (const fs::path runs = folder_of_runs(file, run->as_string()); !runs.empty()) {
      out.words.push_back("output_dir=" + runs.string());
    }
  }
  return out;
}

std::vector<std::string> check_given(const SharedSettings& shared, const config::Loaded& loaded) {
  const std::vector<std::string> wanted = missing(shared.required_keys, loaded);
  check(
      wanted.empty(),
      "[generate] {} was made with {}: the file may be another user's, so its paths are not used\n"
      "  give {}=PATH, or a configuration with these keys (for a run's own samples, its "
      "config.yml)",
      shared.file.string(), fmt::join(wanted, ", "), wanted.empty() ? "" : wanted.front());
  std::vector<std::string> out;
  if (const std::vector<std::string> left = missing(shared.left_out, loaded); !left.empty()) {
    out.push_back(fmt::format(
        "these settings in {} are not used, because they are of the machine that made it: {}",
        shared.file.string(), fmt::join(left, ", ")));
  }
  if (!shared.not_read.empty()) {
    out.push_back(fmt::format("these settings in {} are not read: {}", shared.file.string(),
                              fmt::join(shared.not_read, ", ")));
  }
  return out;
}

}  // namespace kinema::resolve
