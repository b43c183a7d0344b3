#include "kinema/manual/manual.h"

#include <fmt/format.h>

#include <cctype>
#include <iterator>

#include "kinema/config/keys.h"

namespace kinema::manual {
namespace {

/// Text escaped for roff.
std::string roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) {
      out += "\\&";
    }
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    line_begins = c == '\n';
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c == ' ' ? '-' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string head(const std::string& title, int section) {
  return fmt::format(".TH {} {} \"\" \"kinema {}\" \"kinema\"\n", upper(title), section,
                     KINEMA_VERSION);
}

std::string page_of(std::string path) {
  for (char& c : path) {
    c = c == ' ' ? '-' : c;
  }
  return path;
}

std::string synopsis(const command::CommandText& command, const std::string& path) {
  std::string out = fmt::format(".B {}\n", roff(path));
  if (!command.commands.empty()) {
    out += ".I COMMAND\n";
  }
  for (const command::OptionText& option : command.options) {
    if (option.names.empty()) {
      out += fmt::format(".I {}\n", roff(option.value));
    }
  }
  return out + "[\\fIoptions\\fR]\n";
}

std::string entry(const command::OptionText& option) {
  std::string name;
  for (const std::string& each : option.names) {
    name += (name.empty() ? "" : ", ") + each;
  }
  return fmt::format(".TP\n\\fB{}\\fR{}\\fI{}\\fR\n{}\n", roff(name),
                     name.empty() || option.value.empty() ? "" : " ", roff(option.value),
                     roff(option.help));
}

constexpr std::string_view kEnvironment = R"(.SH ENVIRONMENT
.TP
.B KINEMA_CACHE
where plugins, compiled programs and copies of what stores hold are kept (XDG_CACHE_HOME/kinema, or ~/.cache/kinema)
.TP
.B KINEMA_KEY_NAME
sets a key of the configuration, between the file and the command line
.TP
.BR KINEMA_PJRT_PLUGIN ", " KINEMA_PJRT_CPU
the plugin to load, for any hardware or for the CPU
.TP
.BR HF_TOKEN ", " HF_HOME ", " HF_HUB_OFFLINE
as huggingface_hub reads them
.SH EXIT STATUS
0, or 1 with one or two lines on stderr that say what was wrong and what to do.
)";

}  // namespace

std::string manual_page(const command::CommandText& command, const std::string& path) {
  std::string out = head(path, 1);
  fmt::format_to(std::back_inserter(out), ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", page_of(path),
                 roff(command.help), synopsis(command, path));
  if (!command.footer.empty()) {
    fmt::format_to(std::back_inserter(out), ".SH DESCRIPTION\n{}\n", roff(command.footer));
  }
  if (!command.commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const command::CommandText& each : command.commands) {
      fmt::format_to(std::back_inserter(out), ".TP\n\\fB{}\\fR\n{}\n", roff(each.name),
                     roff(each.help));
    }
  }
  out += ".SH OPTIONS\n";
  for (const command::OptionText& option : command.options) {
    out += entry(option);
  }
  if (path == "kinema") {
    out += kEnvironment;
    out += ".SH SEE ALSO\n";
    for (const command::CommandText& each : command.commands) {
      fmt::format_to(std::back_inserter(out), ".BR {}\\-{} (1),\n", path, roff(each.name));
    }
    out += ".BR kinema\\-config (5)\n";
  } else {
    out += ".SH SEE ALSO\n.BR kinema (1)";
    out += takes_keys(command) ? ",\n.BR kinema\\-config (5)\n" : "\n";
  }
  return out;
}

std::string keys_manual_page() {
  std::string out = head("kinema-config", 5);
  out +=
      ".SH NAME\nkinema\\-config \\- keys of a configuration of kinema\n.SH DESCRIPTION\n"
      "A configuration is a YAML file with these keys, flat. Words like\n.I key=value\non the "
      "command line override it; other keys have their defaults.\n"
      ".B base: other.yml\nin a file reads that file first.\n.B kinema config\nprints the resolved "
      "configuration.\n";
  std::string_view group;
  for (const config::KeyValue& each : config::describe(config::Config{})) {
    if (each.group != group) {
      group = each.group;
      fmt::format_to(std::back_inserter(out), ".SH {}\n", upper(group));
    }
    fmt::format_to(std::back_inserter(out), ".TP\n\\fB{}\\fR: {}\n{} ({}).\n", each.key,
                   roff(each.value), roff(each.field.help),
                   roff(config::expectation(each.type, each.field)));
  }
  return out + ".SH SEE ALSO\n.BR kinema (1)\n";
}

}  // namespace kinema::manual
