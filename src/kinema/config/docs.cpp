#include "kinema/config/docs.h"

#include <fmt/format.h>

#include "kinema/config/keys.h"

namespace kinema::config {
namespace {

constexpr std::string_view kHead = R"(# Configuration keys

Made by `kinema config --docs`. A configuration is a YAML file with these keys, flat; `key=value` words on the command
line win over it, and what neither gives has the default. Names and defaults are MaxDiffusion's, so its Wan files
run as they are; keys of our own are those that MaxDiffusion does not have. `base: other.yml` in a file reads that file first.

A variable `KINEMA_KEY_NAME`, as KINEMA_KEY_MAX_TRAIN_STEPS, wins over the file and loses to the command line.

An unknown key is an error that names the nearest known one. `kinema config FILE` prints what a file comes to.

A run that goes on from a checkpoint compares its configuration with that of the run as it was: what *must match* is
refused where it differs, what *may change* is printed, old and new value, and for the others it does not matter.

"Not yet" marks what is accepted and has no effect so far: one line says so when it is set. Where it would change the
result, the command refuses it.
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
    out += "; not beside pretrained weights";
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
  out += "\n## Without meaning here\n\n| key | why |\n|---|---|\n";
  for (const IgnoredKey& each : ignored_keys()) {
    out += fmt::format("| `{}` | {} |\n", each.key, each.reason);
  }
  return out;
}

}  // namespace kinema::config
