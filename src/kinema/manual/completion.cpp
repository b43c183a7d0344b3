#include "kinema/manual/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <map>
#include <set>

#include "kinema/config/keys.h"
#include "kinema/config/scalar.h"
#include "kinema/planning/chip.h"

namespace kinema::manual {
namespace {

using Words = std::vector<std::string>;

/// All subcommands of `command` by path: "flags", "flags check".
void collect(const command::CommandText& command, const std::string& path,
             std::map<std::string, const command::CommandText*>& out) {
  for (const command::CommandText& each : command.commands) {
    const std::string name = path.empty() ? each.name : path + " " + each.name;
    out[name] = &each;
    collect(each, name, out);
  }
}

Words names_of(const std::vector<command::CommandText>& commands) {
  Words out;
  for (const command::CommandText& each : commands) {
    out.push_back(each.name);
  }
  return out;
}

Words options_of(const command::CommandText& command) {
  Words out;
  for (const command::OptionText& option : command.options) {
    out.insert(out.end(), option.names.begin(), option.names.end());
  }
  return out;
}

/// The values of each key with few values, and of plan's `target`.
std::map<std::string, Words> values() {
  std::map<std::string, Words> out;
  for (const config::KeyValue& each : config::describe(config::Config{})) {
    if (each.type == "true or false") {
      out[std::string(each.key)] = {"true", "false"};
    }
    for (const std::string_view word : config::words(each.field.one_of)) {
      if (!word.empty()) {
        out[std::string(each.key)].emplace_back(word);
      }
    }
  }
  for (const planning::Chip& chip : planning::chips()) {
    out["target"].push_back(chip.name + ":");
  }
  out["mode"] = {"train", "generate"};
  return out;
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

/// The first line of a help text, for a list of choices.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

constexpr std::string_view kBash =
    R"bash(# bash completion for kinema; made by `kinema completion bash`.
_kinema_next() {  # the commands or options after a command
  case $1 in
@NEXT@  esac
}

_kinema_values() {
  case $1 in
@VALUES@  esac
}

_kinema() {
  local word=${COMP_WORDS[COMP_CWORD]} command= named= key= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    named=${command:+$command }${COMP_WORDS[i]}
    [ -n "$(_kinema_next "$named")" ] || break
    command=$named
  done
  # `=` is a word of its own to bash.
  if [ "$word" = = ]; then
    key=${COMP_WORDS[COMP_CWORD - 1]} word=
  elif [ "$COMP_CWORD" -gt 1 ] && [ "${COMP_WORDS[COMP_CWORD - 1]}" = = ]; then
    key=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [ -n "$key" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_kinema_values "$key")" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_kinema_next "$command")" -- "$word")
  fi
  case ${COMPREPLY[0]:-} in *[:=]) compopt -o nospace 2>/dev/null ;; esac
  # Files where nothing else is known to go.
  if [ ${#COMPREPLY[@]} = 0 ] && [ -n "$command" ]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
  fi
  return 0
}
complete -F _kinema kinema
)bash";

constexpr std::string_view kZsh = R"zsh(#compdef kinema
# zsh completion for kinema; made by `kinema completion zsh`.
_kinema_values() {
  case $1 in
@VALUES@    *) _files ;;
  esac
}

_kinema_words() {  # keys of the configuration, and files
  if [[ $PREFIX == *=* ]]; then
    local key=${PREFIX%%=*}
    compset -P '*='
    _kinema_values $key
    return
  fi
  local -a keys=(
@KEYS@  )
  _describe -t keys key keys -S = -q
  _files
}

_kinema() {
  local -a commands=(
@COMMANDS@  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
@ARGUMENTS@  esac
}

if [[ $funcstack[1] = _kinema ]]; then _kinema "$@"; else compdef _kinema kinema; fi
)zsh";

std::string filled(std::string_view script, const std::map<std::string, std::string>& parts) {
  std::string out(script);
  for (const auto& [name, text] : parts) {
    const std::string mark = "@" + name + "@";
    out.replace(out.find(mark), mark.size(), text);
  }
  return out;
}

/// Escapes colons and brackets, which `_arguments` and `_describe` interpret.
std::string zsh_help(const std::string& text) {
  std::string out;
  for (const char c : first_line(text)) {
    out +=
        c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return out;
}

std::string zsh_arguments(const command::CommandText& command) {
  std::string out = "_arguments";
  for (const command::OptionText& option : command.options) {
    for (const std::string& name : option.names) {
      out += " " + shell_quoted(fmt::format("{}[{}]{}", name, zsh_help(option.help),
                                            option.value.empty() ? "" : ":value:_files"));
    }
  }
  if (!command.commands.empty()) {
    out += " " +
           shell_quoted(fmt::format("1:command:({})", fmt::join(names_of(command.commands), " ")));
  }
  return out + (takes_keys(command) ? " '*:word:_kinema_words'" : " '*:file:_files'");
}

}  // namespace

bool takes_keys(const command::CommandText& text) {
  for (const command::OptionText& option : text.options) {
    if (option.names.empty() && option.value.find("key=value") != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> argument_names(const command::CommandText& text) {
  const auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  const auto is_word = [&](char c) {
    return is_part(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::set<std::string> out;
  for (const command::OptionText& option : text.options) {
    if (!option.names.empty() || !takes_keys(text)) {
      continue;
    }
    const std::string& help = option.help;
    for (size_t end = help.find('='); end != std::string::npos; end = help.find('=', end + 1)) {
      size_t begin = end;
      while (begin > 0 && is_part(help[begin - 1])) {
        --begin;
      }
      if (begin < end && (begin == 0 || !is_word(help[begin - 1]))) {
        out.insert(help.substr(begin, end - begin));
      }
    }
  }
  return {out.begin(), out.end()};
}

std::string bash_completion(const command::CommandText& kinema) {
  std::map<std::string, const command::CommandText*> commands;
  collect(kinema, "", commands);
  commands[""] = &kinema;
  Words keys;
  for (const config::KeyValue& each : config::describe(config::Config{})) {
    keys.push_back(std::string(each.key) + "=");
  }
  std::string next;
  for (const auto& [name, command] : commands) {
    Words words = names_of(command->commands);
    std::ranges::move(options_of(*command), std::back_inserter(words));
    for (const std::string& word : argument_names(*command)) {
      words.push_back(word + "=");
    }
    fmt::format_to(std::back_inserter(next), "    {}) echo {}{} ;;\n", shell_quoted(name),
                   fmt::join(words, " "), takes_keys(*command) ? " $_kinema_keys" : "");
  }
  std::string value_cases;
  for (const auto& [key, words] : values()) {
    fmt::format_to(std::back_inserter(value_cases), "    {}) echo {} ;;\n", key,
                   shell_quoted(fmt::format("{}", fmt::join(words, " "))));
  }
  return fmt::format("_kinema_keys={}\n", shell_quoted(fmt::format("{}", fmt::join(keys, " ")))) +
         filled(kBash, {{"NEXT", next}, {"VALUES", value_cases}});
}

std::string zsh_completion(const command::CommandText& kinema) {
  std::string commands;
  std::string arguments;
  for (const command::CommandText& each : kinema.commands) {
    commands += fmt::format("    {}\n", shell_quoted(each.name + ":" + zsh_help(each.help)));
    arguments += fmt::format("    {}) {} ;;\n", each.name, zsh_arguments(each));
  }
  std::string keys;
  for (const config::KeyValue& each : config::describe(config::Config{})) {
    keys += fmt::format(
        "    {}\n",
        shell_quoted(fmt::format("{}:{}", each.key, zsh_help(std::string(each.field.help)))));
  }
  std::string value_cases;
  for (const auto& [key, words] : values()) {
    value_cases += fmt::format("    {}) compadd -- {} ;;\n", key, fmt::join(words, " "));
  }
  return filled(
      kZsh,
      {{"VALUES", value_cases}, {"KEYS", keys}, {"COMMANDS", commands}, {"ARGUMENTS", arguments}});
}

}  // namespace kinema::manual
