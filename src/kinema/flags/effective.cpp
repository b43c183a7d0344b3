#include "kinema/flags/effective.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kinema/flags/guard.h"
#include "kinema/flags/value.h"

namespace kinema::flags {
namespace {

using Kind = State::Kind;
using Answer = ProbeAnswer::Kind;

/// What to do with a flag that does nothing or is gone.
std::string remedy(const Flag& flag) {
  constexpr std::string_view kNothing = "nothing: ";  // with the reason
  if (flag.replacement.empty()) {
    return "take it away";
  }
  if (flag.replacement.starts_with(kNothing)) {
    return fmt::format("take it away: {}", flag.replacement.substr(kNothing.size()));
  }
  return fmt::format("use {}", flag.replacement);
}

/// Reads the layers of a request one flag at a time and adds a finding for each error.
class Merge {
 public:
  explicit Merge(const Request& request) : request_(request) {
    out_.platform = request.platform;
    out_.deterministic = request.deterministic;
  }

  Effective run() {
    add_defaults();
    for (const GivenFlag& flag : request_.own) {
      push(flag.name, {.value = flag.value, .origin = flag.origin, .is_option = true});
    }
    if (request_.platform.backend == Backend::TPU) {
      add_environment(read_libtpu_init_args(request_.libtpu_init_args));
    } else if (!request_.libtpu_init_args.empty()) {
      say("unread-variable", Severity::NOTE,
          fmt::format("LIBTPU_INIT_ARGS is set, but {} does not read it", platform()), "");
    }
    add_environment(read_xla_flags(request_.xla_flags));
    for (const GivenFlag& flag : request_.given) {
      add_option(flag);
    }
    note_defaults();
    for (Finding& finding : guard(out_)) {
      out_.findings.push_back(std::move(finding));
    }
    for (Finding& finding : out_.findings) {
      finding.allowed =
          finding.severity == Severity::ERROR && std::ranges::count(request_.allow, finding.id) > 0;
    }
    std::ranges::stable_sort(out_.findings, std::ranges::greater(), &Finding::severity);
    return std::move(out_);
  }

 private:
  std::string platform() const { return request_.platform.text(); }

  void say(std::string_view id, Severity severity, std::string what, std::string remedy,
           std::vector<std::string> drop = {},
           std::vector<std::pair<Variable, std::string>> add = {}) {
    out_.findings.push_back({.id = std::string(id),
                             .severity = severity,
                             .what = std::move(what),
                             .remedy = std::move(remedy),
                             .drop = std::move(drop),
                             .add = std::move(add)});
  }

  void add_defaults() {
    for (const std::span<const Flag> flags : {tpu_flags(), xla_flags()}) {
      for (const Flag& flag : flags) {
        const State state = flag_state(flag, request_.platform);
        if (state.kind == Kind::PRESENT) {
          push(flag.name,
               {.value = std::string(state.value), .origin = std::string(Setting::kDefault)});
        }
      }
    }
  }

  void push(std::string_view name, Layer layer) {
    out_.settings[std::string(name)].layers.push_back(std::move(layer));
  }

  /// A flag without a row in the table; a probe may know it.
  bool is_doubtful(const Flag* flag) const {
    return flag == nullptr || !request_.platform.in_table();
  }

  /// The plugin's answer about a flag of the environment or an option; empty without a probe.
  std::optional<ProbeAnswer> ask(const Flag* flag, const ProbeRequest& question) {
    if (!request_.probe || !is_doubtful(flag)) {
      return std::nullopt;
    }
    return request_.probe(question);
  }

  void add_environment(const EnvironmentFlags& list) {
    out_.findings.insert(out_.findings.end(), list.findings.begin(), list.findings.end());
    std::map<std::string, const EnvironmentFlag*> earlier;
    for (const EnvironmentFlag& flag : list.flags) {
      if (std::ranges::count(list.tolerated, flag.name) == 0) {
        add_environment_flag(list.variable, flag, earlier);
      }
    }
  }

  void add_environment_flag(Variable variable, const EnvironmentFlag& given,
                            std::map<std::string, const EnvironmentFlag*>& earlier) {
    const Flag* flag = find_flag(given.name);
    const std::string_view place = to_string(variable);
    if (const EnvironmentFlag*& first = earlier[given.name]; first == nullptr) {
      first = &given;
    } else {
      say("duplicate-flag", Severity::WARNING,
          fmt::format("{} is given twice in {}; `{}` is used", given.name, place, given.word),
          fmt::format("take {} away", first->word));
    }
    if (!has_place(flag, variable, given)) {
      return;
    }
    ProbeRequest question;
    (variable == Variable::XLA_FLAGS ? question.xla_flags : question.libtpu_init_args) = given.word;
    const std::optional<ProbeAnswer> answer = ask(flag, question);
    if (!is_known(flag, given.name, place, "ends the process", answer, {given.word})) {
      return;
    }
    const Reader reader =
        variable == Variable::XLA_FLAGS ? Reader::XLA_FLAGS : Reader::LIBTPU_INIT_ARGS;
    const auto value = flag == nullptr ? given.value : canonical(*flag, given.value, reader);
    const bool refused = answer && answer->kind == Answer::BAD_VALUE;
    if (refused || !value) {
      say("bad-value", Severity::ERROR,
          fmt::format("`{}` in {} ends the process: {} takes {}", given.word, place, given.name,
                      flag == nullptr ? "other values" : expectation(*flag)),
          fmt::format("take it away or correct it"), {given.word});
      return;
    }
    push(given.name, {.value = *value, .origin = std::string(place), .word = given.word});
  }

  /// False, with a finding, for a flag that is in the wrong variable.
  bool has_place(const Flag* flag, Variable variable, const EnvironmentFlag& given) {
    const bool in_xla = variable == Variable::XLA_FLAGS;
    bool right = true;
    if (flag != nullptr) {
      right = flag->variable == Variable::BOTH || flag->variable == variable;
    } else {
      right = !in_xla || !given.name.starts_with("xla_tpu_");
    }
    if (!right) {
      say("wrong-variable", Severity::ERROR,
          fmt::format("`{}` in {} ends the process: it is a flag of {}", given.word,
                      to_string(variable), in_xla ? "libtpu" : "XLA"),
          fmt::format("move it to {}", in_xla ? "LIBTPU_INIT_ARGS" : "XLA_FLAGS"), {given.word},
          {{in_xla ? Variable::LIBTPU_INIT_ARGS : Variable::XLA_FLAGS,
            fmt::format("--{}={}", given.name, given.value)}});
    }
    return right;
  }

  /// False, with a finding, for a flag that the plugin does not know.
  bool is_known(const Flag* flag, const std::string& name, std::string_view place,
                std::string_view what_happens, const std::optional<ProbeAnswer>& answer,
                const std::vector<std::string>& drop) {
    if (answer) {
      if (answer->kind != Answer::UNKNOWN) {
        if (flag == nullptr) {
          say("not-in-table", Severity::NOTE,
              fmt::format("{} ({}) is not in the table; the plugin has it", name, place), "");
        }
        return true;
      }
      say("unknown-flag", Severity::ERROR,
          fmt::format("{} ({}) {}: {} does not have it", name, place, what_happens, platform()),
          fmt::format("take it away{}", nearest(flag, name)), drop);
      return false;
    }
    if (flag == nullptr) {
      say("unknown-flag", Severity::ERROR,
          fmt::format("{} ({}) is not known and {} if {} does not have it", name, place,
                      what_happens, platform()),
          fmt::format("take it away{}", nearest(flag, name)), drop);
      return false;
    }
    return is_present(*flag, place, what_happens, drop);
  }

  static std::string nearest(const Flag* flag, const std::string& name) {
    const std::string near = flag != nullptr ? "" : nearest_flag(name);
    return near.empty() ? "" : fmt::format("; the nearest name is {}", near);
  }

  bool is_present(const Flag& flag, std::string_view place, std::string_view what_happens,
                  const std::vector<std::string>& drop) {
    const bool is_option = what_happens != "ends the process";
    switch (flag_state(flag, request_.platform).kind) {
      case Kind::PRESENT:
        return true;
      case Kind::IGNORED:
        say("no-effect", Severity::NOTE,
            fmt::format("{} ({}) has no effect on {}", flag.name, place, platform()), remedy(flag));
        return false;
      case Kind::RENAMED:
        if (!is_option) {
          say("renamed-flag", Severity::NOTE,
              fmt::format("{} ({}) is an old name", flag.name, place), remedy(flag));
          return true;
        }
        [[fallthrough]];
      case Kind::REMOVED:
        say("removed-flag", Severity::ERROR,
            fmt::format("{} ({}) {}: {} no longer has it", flag.name, place, what_happens,
                        platform()),
            remedy(flag), drop, replaced(flag, drop));
        return false;
      case Kind::ABSENT:
        break;
    }
    say(flag.backend == Backend::TPU ? "wrong-backend" : "unknown-flag", Severity::ERROR,
        fmt::format("{} ({}) {}: {} does not have it", flag.name, place, what_happens, platform()),
        remedy(flag), drop);
    return false;
  }

  /// The replacement of a switch that a variable turned on, if the replacement is a setting.
  static std::vector<std::pair<Variable, std::string>> replaced(
      const Flag& flag, const std::vector<std::string>& drop) {
    const std::string_view text = flag.replacement;
    const Flag* with = find_flag(text.substr(0, text.find('=')));
    const bool on = !drop.empty() && (drop.front().find('=') == std::string::npos ||
                                      drop.front().ends_with("=true"));
    if (!on || with == nullptr || text.find('=') == std::string_view::npos ||
        text.find(' ') != std::string_view::npos) {
      return {};
    }
    return {{flag.variable, fmt::format("--{}", text)}};
  }

  void add_option(const GivenFlag& given) {
    const Flag* flag = find_flag(given.name);
    const auto value =
        flag == nullptr ? given.value : canonical(*flag, given.value, Reader::OPTION);
    if (!value) {
      say("bad-value", Severity::ERROR,
          fmt::format("{} ({}) is `{}` but takes {}", given.name, given.origin, given.value,
                      expectation(*flag)),
          "correct it");
      return;
    }
    const Layer option{.value = *value, .origin = given.origin, .is_option = true};
    const std::optional<ProbeAnswer> answer =
        ask(flag, {.options = {{given.name, to_option(flag, *value)}}});
    if (!is_known(flag, given.name, given.origin, "is refused", answer, {})) {
      if (flag == nullptr || flag_state(*flag, request_.platform).kind != Kind::IGNORED) {
        push(given.name, option);  // in case the user allows the error
      }
      return;
    }
    if (answer && answer->kind == Answer::BAD_VALUE) {
      say("bad-value", Severity::ERROR,
          fmt::format("{} ({}) is `{}`, which the plugin refuses: {}", given.name, given.origin,
                      given.value, answer->said),
          "correct it");
      return;
    }
    if (flag != nullptr && !flag->per_program) {
      say("wrong-variable", Severity::ERROR,
          fmt::format("{} ({}) is refused: programs have no such option", given.name, given.origin),
          fmt::format("set it in {}", to_string(flag->variable)));
      return;
    }
    push(given.name, option);
  }

  void note_defaults() {
    for (const auto& [name, setting] : out_.settings) {
      const std::vector<Layer>& layers = setting.layers;
      const bool from_profile = layers.back().origin.starts_with("profile ");
      if (layers.size() == 2 && layers.front().origin == Setting::kDefault && !from_profile &&
          layers.front().value == layers.back().value) {
        say("default-value", Severity::NOTE,
            fmt::format("{}={} ({}) is the default of {}", name, layers.back().value,
                        layers.back().origin, platform()),
            "");
      }
    }
  }

  const Request& request_;
  Effective out_;
};

}  // namespace

ProbeAnswer parse_probe_answer(const std::string& message) {
  if (message.empty()) {
    return {};
  }
  const auto has = [&](std::string_view words) { return message.find(words) != std::string::npos; };
  Answer kind = Answer::REFUSED;
  if (has("No such compile option") || has("Unknown flag") || has("Unknown command line flag")) {
    kind = Answer::UNKNOWN;
  } else if (has("Failed to parse") || has("is not a valid") || has("Illegal value") ||
             has("Flag parsing failed") || has("Missing the value")) {
    kind = Answer::BAD_VALUE;
  }
  return {.kind = kind, .said = message};
}

std::string Effective::value(std::string_view name) const {
  const auto found = settings.find(std::string(name));
  return found == settings.end() ? "" : found->second.top().value;
}

std::map<std::string, Value> Effective::options() const {
  std::map<std::string, Value> out;
  for (const auto& [name, setting] : settings) {
    if (setting.top().is_option) {
      out.emplace(name, to_option(find_flag(name), setting.top().value));
    }
  }
  return out;
}

std::vector<Finding> Effective::errors() const {
  std::vector<Finding> out;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::ERROR && !finding.allowed) {
      out.push_back(finding);
    }
  }
  return out;
}

std::vector<std::string> Effective::allowed() const {
  std::set<std::string> ids;
  for (const Finding& finding : findings) {
    if (finding.allowed) {
      ids.insert(finding.id);
    }
  }
  return {ids.begin(), ids.end()};
}

Effective resolve(const Request& request) { return Merge(request).run(); }

}  // namespace kinema::flags
