#include "kinema/config/datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

using io::Json;

constexpr int64_t kMostPixels = int64_t{1} << 40;
constexpr int64_t kMostSide = 1 << 20;
constexpr int64_t kMostRepeats = 1'000'000;
constexpr int64_t kMostTags = 1'000'000;

/// An integer of [low, high].
int64_t integer(const Json& value, int64_t low, int64_t high) {
  const int64_t out = value.as_int();
  check(out >= low && out <= high, "[config] {} is {}, expected {} to {}", value.where(), out, low,
        high);
  return out;
}

double positive(const Json& value) {
  const double out = value.as_number();
  check(std::isfinite(out) && out > 0, "[config] {} is {}, expected a number above 0",
        value.where(), value.brief());
  return out;
}

double fraction(const Json& value) {
  const double out = value.as_number();
  check(out >= 0 && out <= 1, "[config] {} is {}, expected 0 to 1", value.where(), value.brief());
  return out;
}

struct Key {
  std::string_view name;
  void (*read)(const Json& value, DatasetEntry& out);
};

/// `member` as an integer of [low, high].
template <auto member, int64_t low, int64_t high>
void read_integer(const Json& value, DatasetEntry& out) {
  out.*member = integer(value, low, high);
}
template <auto member>
void read_bool(const Json& value, DatasetEntry& out) {
  out.*member = value.as_bool();
}
template <auto member>
void read_text(const Json& value, DatasetEntry& out) {
  out.*member = value.as_string();
}

void read_extension(const Json& value, DatasetEntry& out) {
  const std::string& given = value.as_string();
  out.caption_extension = given.empty() || given.front() == '.' ? given : "." + given;
}

void read_lines(const Json& value, DatasetEntry& out) {
  const std::string& given = value.as_string();
  check(given == "joined" || given == "any", "[config] {} is `{}`, expected joined or any",
        value.where(), given);
  out.caption_any_line = given == "any";
}

using Entry = DatasetEntry;
constexpr std::array kKeys = {
    Key{"path", read_text<&Entry::path>},
    Key{"metadata", read_text<&Entry::metadata>},
    Key{"weight", [](const Json& value, Entry& out) { out.weight = positive(value); }},
    Key{"repeats", read_integer<&Entry::repeats, 1, kMostRepeats>},
    Key{"height", read_integer<&Entry::height, 1, kMostSide>},
    Key{"width", read_integer<&Entry::width, 1, kMostSide>},
    Key{"buckets", [](const Json& value, Entry& out) { out.buckets = read_buckets(value); }},
    Key{"bucket_area", read_integer<&Entry::bucket_area, 1, kMostPixels>},
    Key{"bucket_step", read_integer<&Entry::bucket_step, 1, 1024>},
    Key{"bucket_min", read_integer<&Entry::bucket_min, 1, kMostSide>},
    Key{"bucket_max", read_integer<&Entry::bucket_max, 1, kMostSide>},
    Key{"bucket_upscale", read_bool<&Entry::bucket_upscale>},
    Key{"random_flip", read_bool<&Entry::random_flip>},
    Key{"color_aug", read_bool<&Entry::color_aug>},
    Key{"alpha_mask", read_bool<&Entry::alpha_mask>},
    Key{"mask_dir", read_text<&Entry::mask_dir>},
    Key{"regularization", read_bool<&Entry::regularization>},
    Key{"caption", read_text<&Entry::caption>},
    Key{"caption_extension", read_extension},
    Key{"caption_prefix", read_text<&Entry::caption_prefix>},
    Key{"caption_suffix", read_text<&Entry::caption_suffix>},
    Key{"caption_lines", read_lines},
    Key{"caption_wildcards", read_bool<&Entry::caption_wildcards>},
    Key{"caption_shuffle_tags", read_bool<&Entry::caption_shuffle_tags>},
    Key{"caption_tag_dropout",
        [](const Json& value, Entry& out) { out.caption_tag_dropout = fraction(value); }},
    Key{"caption_separator", read_text<&Entry::caption_separator>},
    Key{"caption_keep_tags", read_integer<&Entry::caption_keep_tags, 0, kMostTags>},
    Key{"caption_keep_separator", read_text<&Entry::caption_keep_separator>}};

/// A remedy for a mistyped key; empty if no key is similar.
std::string suggestion(std::string_view given) {
  const auto nearest = *std::ranges::min_element(
      kKeys, {}, [&](const Key& key) { return edit_distance(given, key.name); });
  return is_near(given, nearest.name) ? fmt::format("\n  the nearest is `{}`", nearest.name) : "";
}

DatasetEntry read_entry(const Json& given, const std::string& where) {
  check(given.is_object(),
        "[config] {} is {}, expected the keys of a data set, like {{path: photos, weight: 2}}",
        where, given.describe());
  DatasetEntry out;
  for (const auto& [name, value] : given.members()) {
    const auto* key = std::ranges::find(kKeys, std::string_view(name), &Key::name);
    check(key != kKeys.end(), "[config] {} has `{}`, which is not a key of a data set{}", where,
          name, suggestion(name));
    key->read(value, out);
  }
  check(!out.path.empty() || !out.metadata.empty(),
        "[config] {} has no path: give the folder of its clips or pictures", where);
  check(out.height.has_value() == out.width.has_value(),
        "[config] {} has only one of height and "
        "width",
        where);
  check(out.weight == 0 || out.repeats == 1,
        "[config] {} has weight {:g} and repeats {}: with weights, repeats change nothing", where,
        out.weight, out.repeats);
  return out;
}

}  // namespace

std::vector<DatasetEntry> read_datasets(const DataConfig& config) {
  const Json json = Json::parse(config.datasets.json, "datasets");
  if (json.is_null()) {
    return {};
  }
  check(json.is_array(), "[config] datasets is {}, expected a list like [{{path: photos}}]",
        json.describe());
  std::vector<DatasetEntry> out;
  for (size_t i = 0; i < json.items().size(); ++i) {
    out.push_back(read_entry(json.items()[i], fmt::format("datasets[{}]", i)));
  }
  const auto weighted =
      std::ranges::count_if(out, [](const DatasetEntry& each) { return each.weight > 0; });
  check(weighted == 0 || weighted == std::ssize(out),
        "[config] datasets: {} of {} entries have a weight, expected all or none", weighted,
        out.size());
  check(out.empty() || !std::ranges::all_of(out, &DatasetEntry::regularization),
        "[config] datasets: all entries are regularization pictures, expected others too");
  return out;
}

}  // namespace kinema::config
