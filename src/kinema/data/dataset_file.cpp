#include "kinema/data/dataset_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/data/joined_clips.h"
#include "kinema/io/toml.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// Keys of one part, from the outermost table to the innermost.
using Keys = std::map<std::string, const Json*>;

/// A key of the run in kohya's and musubi's files, and kinema's key for it; empty: it has none.
struct NotRead {
  std::string_view key;
  std::string_view instead;
};
constexpr std::array<NotRead, 25> kNotRead = {{
    {"batch_size", "per_device_batch_size"},
    {"cache_directory", "dataset_save_location"},
    {"cache_info", "dataset_save_location"},
    {"caption_encoding", "always UTF-8"},
    {"debug_dataset", "kinema inspect --preview shows samples"},
    {"frame_extraction", "random_start"},
    {"frame_sample", "random_start"},
    {"frame_stride", "frame_stride of the run"},
    {"max_data_loader_n_workers", "decode_threads"},
    {"max_frames", "num_frames"},
    {"max_token_length", "max_sequence_length"},
    {"network_multiplier", "scale in lora_config"},
    {"num_workers", "decode_threads"},
    {"persistent_data_loader_workers", ""},
    {"resize_interpolation", "always area or Lanczos"},
    {"seed", "seed of the run"},
    {"skip_cache", "dataset_save_location"},
    {"skip_existing", "dataset_save_location"},
    {"skip_image_resolution", "no picture is left out for its size"},
    {"source_fps", "target_fps"},
    {"target_frames", "num_frames"},
    {"vae_batch_size", ""},
    {"validation_seed", "seed of the run"},
    {"validation_split", "eval_split"},
    {"video_loss_weight", ""},
}};

/// A key that may only have a value which changes nothing, and what to do instead.
struct Refused {
  std::string_view key;
  std::string_view instead;
};
constexpr std::array<Refused, 9> kRefused = {{
    {"caption_dropout_every_n_epochs", "caption_dropout=FRACTION leaves captions out"},
    {"caption_dropout_rate", "caption_dropout=FRACTION leaves captions out, of all data sets"},
    {"control_directory",
     "metadata.jsonl names the control of each picture: {\"file_name\": "
     "\"a.png\", \"text\": ..., \"control\": \"before/a.png\"}"},
    {"custom_attributes", "take it away: scripts of others read it"},
    {"face_crop_aug_range", "center_crop=false crops anywhere"},
    {"random_crop", "center_crop=false crops all data sets anywhere"},
    {"secondary_separator", "only caption_separator separates tags"},
    {"token_warmup_min", "captions have all tags from the first step on"},
    {"token_warmup_step", "captions have all tags from the first step on"},
}};

/// True if a value asks for nothing: false, 0, an empty text, list or table, token_warmup_min = 1.
bool asks_for_nothing(const std::string& key, const Json& value) {
  switch (value.kind()) {
    case Json::Kind::Null:
      return true;
    case Json::Kind::Bool:
      return !value.as_bool();
    case Json::Kind::Integer:
      return value.as_int() == (key == "token_warmup_min" ? 1 : 0);
    case Json::Kind::Number:
      return value.as_number() == 0.0;
    case Json::Kind::String:
      return value.as_string().empty();
    case Json::Kind::Array:
      return value.items().empty();
    case Json::Kind::Object:
      return value.members().empty();
  }
  return false;
}

class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path), document_(io::read_toml(path)) {
    const Keys general = with({}, document_.find("general"));
    const Json* sets = document_.find("datasets");
    check(sets != nullptr && sets->is_array() && !sets->items().empty(),
          "[data] {} has no [[datasets]]", path.string());
    for (const auto& [key, value] : document_.members()) {
      check(key == "general" || key == "datasets",
            "[data] {} has `{}`, expected [general] and [[datasets]]", path.string(), key);
    }
    for (size_t i = 0; i < sets->items().size(); ++i) {
      const Json& set = sets->items()[i];
      const std::string where = fmt::format("{}: datasets[{}]", path.string(), i);
      check(set.is_object(), "[data] {} is {}, expected a table", where, set.describe());
      const Keys outer = with(general, &set);
      const Json* subsets = set.find("subsets");
      if (subsets == nullptr) {
        add(outer, where);
        continue;
      }
      for (size_t j = 0; j < subsets->items().size(); ++j) {
        add(with(outer, &subsets->items()[j]), fmt::format("{}.subsets[{}]", where, j));
      }
    }
    check(!out_.parts.empty(), "[data] {}: num_repeats is 0 in all data sets", path.string());
    const auto is_regularization = [](const DatasetPart& part) {
      return part.rules.regularization;
    };
    check(!std::ranges::all_of(out_.parts, is_regularization),
          "[data] {}: is_reg is true in all data sets, expected one with what is learned",
          path.string());
    if (!not_read_.empty()) {
      out_.notes.push_back(
          fmt::format("{}: not read: {}", path.filename().string(), fmt::join(not_read_, ", ")));
    }
  }

  DatasetFile take() { return std::move(out_); }

 private:
  static Keys with(Keys keys, const Json* table) {
    if (table != nullptr) {
      for (const auto& [key, value] : table->members()) {
        if (key != "subsets") {
          keys[key] = &value;
        }
      }
    }
    return keys;
  }

  void add(const Keys& keys, const std::string& where) {
    DatasetPart part{.where = where};
    for (const auto& [key, value] : keys) {
      if (!take_place(key, *value, part) && !take_size(key, *value, part.sizes) &&
          !take_caption(key, *value, part)) {
        check_other(key, *value, where);
      }
    }
    check(!part.folder.empty() || !part.list.empty(),
          "[data] {} names no clips, expected image_dir, image_directory, video_directory, "
          "metadata_file, image_jsonl_file or video_jsonl_file",
          where);
    check(part.folder.empty() || part.list.empty() || keys.contains("metadata_file"),
          "[data] {} has a folder and a list, expected one of them", where);
    check(part.repeats >= 0, "[data] {}: num_repeats is {}, expected at least 0", where,
          part.repeats);
    if (!part.sizes.automatic.value_or(false)) {  // other keys of buckets have no effect
      part.sizes.upscale.reset();
      part.sizes.step.reset();
      part.sizes.min_side.reset();
      part.sizes.max_side.reset();
    }
    if (part.repeats > 0) {
      out_.parts.push_back(std::move(part));
    }
  }

  bool take_place(const std::string& key, const Json& value, DatasetPart& part) const {
    // musubi has pictures beside clips, as clips of one frame.
    if (key == "image_directory" || key == "image_jsonl_file") {
      part.sizes.frames = 1;
    }
    if (key == "image_dir" || key == "image_directory" || key == "video_directory") {
      part.folder = found(value.as_string());
    } else if (key == "metadata_file" || key == "image_jsonl_file" || key == "video_jsonl_file") {
      part.list = found(value.as_string());
    } else if (key == "num_repeats") {
      part.repeats = value.as_int();
    } else if (key == "flip_aug") {
      part.rules.flip = value.as_bool();
    } else if (key == "color_aug") {
      part.rules.color_change = value.as_bool();
    } else if (key == "alpha_mask") {
      part.rules.alpha_mask = value.as_bool();
    } else if (key == "is_reg") {
      part.rules.regularization = value.as_bool();
    } else if (key == "conditioning_data_dir") {
      part.masks = value.as_string().empty() ? fs::path() : found(value.as_string());
    } else {
      return false;
    }
    return true;
  }

  static int64_t side(const Json& value) {
    const int64_t out = value.as_int();
    check(out > 0 && out <= 1 << 20, "[data] {} is {}, expected 1 to {}", value.where(), out,
          1 << 20);
    return out;
  }

  static bool take_size(const std::string& key, const Json& value, SizeChanges& sizes) {
    if (key == "resolution") {
      const bool is_pair = value.is_array() && value.items().size() == 2;
      check(is_pair || value.kind() == Json::Kind::Integer,
            "[data] {} is {}, expected a number or [width, height]", value.where(),
            value.describe());
      sizes.width = side(is_pair ? value.items()[0] : value);
      sizes.height = side(is_pair ? value.items()[1] : value);
    } else if (key == "enable_bucket") {
      sizes.automatic = value.as_bool();
    } else if (key == "bucket_no_upscale") {
      sizes.upscale = !value.as_bool();
    } else if (key == "bucket_reso_steps") {
      sizes.step = side(value);
    } else if (key == "min_bucket_reso") {
      sizes.min_side = side(value);
    } else if (key == "max_bucket_reso") {
      sizes.max_side = side(value);
    } else {
      return false;
    }
    return true;
  }

  static bool take_caption(const std::string& key, const Json& value, DatasetPart& part) {
    CaptionChanges& captions = part.captions;
    if (key == "class_tokens") {
      part.class_words = value.as_string();
    } else if (key == "caption_extension") {
      const std::string& given = value.as_string();
      part.caption_extension = given.empty() || given.front() == '.' ? given : "." + given;
    } else if (key == "caption_prefix") {
      part.caption_prefix = value.as_string();
    } else if (key == "caption_suffix") {
      part.caption_suffix = value.as_string();
    } else if (key == "shuffle_caption") {
      captions.shuffle = value.as_bool();
    } else if (key == "enable_wildcard") {
      captions.wildcards = value.as_bool();
    } else if (key == "caption_tag_dropout_rate") {
      captions.dropout = value.as_number();
    } else if (key == "caption_separator") {
      captions.separator = value.as_string();
    } else if (key == "keep_tokens") {
      captions.keep = value.as_int();
    } else if (key == "keep_tokens_separator") {
      captions.keep_separator = value.as_string();
    } else {
      return false;
    }
    return true;
  }

  void check_other(const std::string& key, const Json& value, const std::string& where) {
    if (const auto* other = std::ranges::find(kNotRead, key, &NotRead::key);
        other != kNotRead.end()) {
      not_read_.insert(other->instead.empty() ? key : fmt::format("{} ({})", key, other->instead));
      return;
    }
    const auto* refused = std::ranges::find(kRefused, key, &Refused::key);
    check(refused != kRefused.end(),
          "[data] {} has `{}`, which is not a key of kohya's or musubi's", where, key);
    check(asks_for_nothing(key, value), "[data] {}: {} is {}, which is not supported\n  {}", where,
          key, value.brief(), refused->instead);
  }

  /// A path of the working directory, or of the file's folder.
  fs::path found(const std::string& name) const {
    std::error_code ignored;
    const fs::path beside = path_.parent_path() / name;
    return !fs::exists(name, ignored) && fs::exists(beside, ignored) ? beside : fs::path(name);
  }

  const fs::path& path_;
  Json document_;
  DatasetFile out_;
  std::set<std::string> not_read_;
};

/// The clips of one dataset. Errors start with `where`, its place in the file.
std::unique_ptr<ClipSet> clips_of(const fs::path& folder, const ListOptions& options,
                                  const std::string& where) {
  try {
    return folder_clips(folder, options);
  } catch (const Error& error) {
    if (where.empty()) {
      throw;
    }
    constexpr std::string_view kRoom = "[data] ";
    const std::string_view what = error.what();
    fail("[data] {}: {}", where, what.substr(what.starts_with(kRoom) ? kRoom.size() : 0));
  }
}

}  // namespace

CaptionRules CaptionChanges::applied_to(CaptionRules rules) const {
  // kohya's wildcards include lines.
  rules.any_line = any_line.value_or(wildcards.value_or(rules.any_line));
  rules.wildcards = wildcards.value_or(rules.wildcards);
  rules.shuffle = shuffle.value_or(rules.shuffle);
  rules.dropout = dropout.value_or(rules.dropout);
  rules.separator = separator.value_or(rules.separator);
  rules.keep = keep.value_or(rules.keep);
  rules.keep_separator = keep_separator.value_or(rules.keep_separator);
  return rules;
}

bool is_dataset_file(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  std::error_code ignored;
  return extension == ".toml" && fs::is_regular_file(path, ignored);
}

DatasetFile read_dataset_file(const fs::path& path) { return Reader(path).take(); }

std::unique_ptr<ClipSet> dataset_clips(DatasetFile file, const ListOptions& options,
                                       const ClipFormat& format) {
  std::vector<JoinedPart> parts;
  for (DatasetPart& part : file.parts) {
    ListOptions own = options;
    if (!part.rules.sizes.empty()) {
      own.images = takes_pictures(part.rules.sizes, format);
    }
    own.caption_extension = part.caption_extension;
    own.class_words = part.class_words;
    own.class_folders = part.folders;
    own.subfolders = part.folders;
    own.list = part.list;
    if (part.no_masks || !part.masks.empty()) {
      own.mask_folder = part.masks;
    }
    fs::path folder = part.folder.empty() ? part.list.parent_path() : part.folder;
    if (folder.empty()) {
      folder = ".";
    }
    SetRules rules = std::move(part.rules);
    rules.name = folder.string();
    parts.push_back({.clips = clips_of(folder, own, part.where),
                     .own = std::move(rules),
                     .repeats = part.repeats,
                     .caption_prefix = std::move(part.caption_prefix),
                     .caption_suffix = std::move(part.caption_suffix),
                     .rules = [changes = part.captions](CaptionRules rules) {
                       return changes.applied_to(std::move(rules));
                     }});
  }
  return joined_clips(std::move(parts), std::move(file.notes));
}

}  // namespace kinema::data
