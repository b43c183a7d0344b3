#include "kinema/config/docs.h"

#include <fmt/format.h>

#include "kinema/config/keys.h"

namespace kinema::config {
namespace {

constexpr std::string_view kHead = R"(# Configuration keys

Made by `kinema config --docs`. A configuration is a flat YAML file with these keys; `key=value` arguments on the command
line override the file, and keys in neither have their defaults. Names and defaults are those of MaxDiffusion, whose Wan
files run unchanged; kinema adds keys that MaxDiffusion does not have. `base: other.yml` in a file reads that file first.

An environment variable `KINEMA_KEY_NAME`, such as KINEMA_KEY_MAX_TRAIN_STEPS, overrides the file; the command line
overrides both.

An unknown key is an error that names the most similar key. `kinema config FILE` prints the resulting configuration.

A resumed run compares its configuration with the checkpoint's: a key that *must match* is an error if its value differs;
for a key that *may change* the old and the new value are printed; other keys are not compared.

"Not yet" marks a key that is accepted but has no effect yet; a log line reports it when it is set. If it would change
the result, the command rejects it.
)";

/// Escapes bars, which would end a table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  }
  return out;
}

std::string shortened(const std::string& text) {
  constexpr size_t kLongest = 60;
  return text.size() > kLongest ? text.substr(0, kLongest - 3) + "..." : text;
}

std::string_view on_resume(OnResume what) {
  switch (what) {
    case MUST_MATCH:
      return "must match";
    case MAY_CHANGE:
      return "may change";
    case UNRELATED:
      break;
  }
  return "";
}

std::string remark(const Field& field) {
  std::string out(field.help);
  if (!field.with.empty()) {
    out += fmt::format("; only with `{}`", field.with);
  }
  if (!field.without.empty()) {
    out += "; ignored with pretrained weights";
  }
  if (field.in_store && field.help.find("gs://") == std::string_view::npos) {
    out += "; also gs:// or s3://";
  }
  if (!field.later.empty()) {
    out += fmt::format(". Not yet: {}", field.later);
  }
  return out;
}

}  // namespace

std::string markdown() {
  std::string out(kHead);
  std::string_view group;
  for (const KeyValue& each : describe(Config{})) {
    if (each.group != group) {
      group = each.group;
      out += fmt::format(
          "\n## {}\n\n| key | default | value | what it does | on a resume |\n"
          "|---|---|---|---|---|\n",
          group);
    }
    out += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", each.key, cell(shortened(each.value)),
                       cell(expectation(each.type, each.field)), cell(remark(each.field)),
                       on_resume(each.on_resume));
  }
  out += "\n## Ignored keys of MaxDiffusion\n\n| key | why |\n|---|---|\n";
  for (const IgnoredKey& each : ignored_keys()) {
    out += fmt::format("| `{}` | {} |\n", each.key, each.reason);
  }
  return out;
}

}  // namespace kinema::config
