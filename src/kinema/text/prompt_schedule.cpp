#include "kinema/text/prompt_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace kinema::text {
namespace {

// Deeper brackets are text: the functions below call themselves for each level.
constexpr int kDeepest = 64;

struct Node;
using Nodes = std::vector<Node>;

/// Text, a prompt that changes after a step, or prompts that take turns.
struct Node {
  std::string text;
  std::vector<Nodes> options = {};   // empty: text
  std::optional<int64_t> when = {};  // of two options; nothing: they take turns
};

/// Text and nodes between brackets, with the separators among them.
struct Content {
  Nodes nodes;
  std::vector<std::pair<char, size_t>> separators;  // `:` or `|`, and the node before which it is

  void add(std::string_view text) {
    const bool joins = !nodes.empty() && nodes.back().options.empty() &&
                       (separators.empty() || separators.back().second < nodes.size());
    if (joins) {
      nodes.back().text += text;
    } else {
      nodes.push_back({.text = std::string(text)});
    }
  }

  void add(Content inner) {
    // Separators of brackets that are text are text too.
    size_t next = 0;
    for (size_t i = 0; i <= inner.nodes.size(); ++i) {
      for (; next < inner.separators.size() && inner.separators[next].second == i; ++next) {
        add(std::string_view(&inner.separators[next].first, 1));
      }
      if (i < inner.nodes.size() && inner.nodes[i].options.empty()) {
        add(inner.nodes[i].text);
      } else if (i < inner.nodes.size()) {
        nodes.push_back(std::move(inner.nodes[i]));
      }
    }
  }

  /// The nodes between the separators.
  std::vector<Nodes> parts() && {
    std::vector<Nodes> out(separators.size() + 1);
    size_t part = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      while (part < separators.size() && separators[part].second <= i) {
        ++part;
      }
      out[part].push_back(std::move(nodes[i]));
    }
    return out;
  }
};

class Reader {
 public:
  Reader(std::string_view text, int64_t steps) : text_(text), steps_(steps) {}

  Nodes read() {
    Content out;
    while (at_ < text_.size()) {
      out.add(content('\0', 0));
      if (at_ < text_.size()) {
        out.add(text_.substr(at_++, 1));  // a bracket without a partner
      }
    }
    return std::move(out.nodes);
  }

 private:
  /// Up to `close`, which stays, or the end.
  Content content(char close, int depth) {
    Content out;
    while (at_ < text_.size() && text_[at_] != close) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        out.add(text_.substr(at_, 2));
        at_ += 2;
      } else if ((c == '[' || c == '(') && depth < kDeepest) {
        ++at_;
        bracket(c, depth, out);
      } else if (c == ':' || c == '|') {
        out.separators.emplace_back(c, out.nodes.size());
        ++at_;
      } else {
        const size_t end = std::min(text_.find_first_of("\\[]():|", at_ + 1), text_.size());
        out.add(text_.substr(at_, end - at_));
        at_ = end;
      }
    }
    return out;
  }

  /// The content of a bracket that was opened, and its end.
  void bracket(char open, int depth, Content& out) {
    const char close = open == '[' ? ']' : ')';
    Content inner = content(close, depth + 1);
    const bool closed = at_ < text_.size();
    if (closed) {
      ++at_;
      if (open == '[' && changes(inner)) {
        out.nodes.push_back(changing(std::move(inner)));
        return;
      }
    }
    out.add(std::string_view(&open, 1));
    out.add(std::move(inner));
    if (closed) {
      out.add(std::string_view(&close, 1));
    }
  }

  /// The step in the last part: `0.5` of all steps, or `10`.
  std::optional<int64_t> step_of(const Content& content) const {
    const size_t from = content.separators.back().second;
    if (from + 1 != content.nodes.size() || !content.nodes[from].options.empty()) {
      return std::nullopt;
    }
    std::string_view number = content.nodes[from].text;
    const size_t first = number.find_first_not_of(" \t\n\r");
    number = first == std::string_view::npos ? "" : number.substr(first);
    number = number.substr(0, number.find_last_not_of(" \t\n\r") + 1);
    number = number.substr(number.starts_with('+') ? 1 : 0);
    double value = 0;
    const char* const end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, value);
    if (number.empty() || error != std::errc() || stop != end || !std::isfinite(value)) {
      return std::nullopt;
    }
    if (number.find('.') != std::string_view::npos) {
      value *= static_cast<double>(steps_);
    }
    return static_cast<int64_t>(std::clamp(value, 0.0, static_cast<double>(steps_)));
  }

  bool changes(const Content& content) const {
    const auto& all = content.separators;
    const auto bars = std::ranges::count(all, '|', [](const auto& each) { return each.first; });
    if (bars > 0) {
      return bars == std::ssize(all);
    }
    return (all.size() == 1 || all.size() == 2) && step_of(content).has_value();
  }

  Node changing(Content content) const {
    Node out;
    if (content.separators.front().first == ':') {
      out.when = step_of(content);
    }
    out.options = std::move(content).parts();
    if (out.when) {
      out.options.pop_back();
      if (out.options.size() == 1) {
        out.options.insert(out.options.begin(), Nodes());
      }
    }
    return out;
  }

  std::string_view text_;
  int64_t steps_;
  size_t at_ = 0;
};

/// The last steps of texts, among 1 to `steps`.
void collect(const Nodes& nodes, int64_t steps, std::set<int64_t>& out) {
  for (const Node& node : nodes) {
    if (node.when && *node.when >= 1) {
      out.insert(*node.when);
    }
    for (int64_t step = 1; !node.options.empty() && !node.when && step <= steps; ++step) {
      out.insert(step);
    }
    for (const Nodes& option : node.options) {
      collect(option, steps, out);
    }
  }
}

void write(const Nodes& nodes, int64_t step, std::string& out) {
  for (const Node& node : nodes) {
    if (node.options.empty()) {
      out += node.text;
    } else if (node.when) {
      write(node.options[step <= *node.when ? 0 : 1], step, out);
    } else {
      write(node.options[static_cast<size_t>(step - 1) % node.options.size()], step, out);
    }
  }
}

}  // namespace

std::vector<TextUntil> prompt_schedule(std::string_view prompt, int64_t steps) {
  const Nodes nodes = Reader(prompt, steps).read();
  std::set<int64_t> last_steps{steps};
  collect(nodes, steps, last_steps);
  std::vector<TextUntil> out;
  for (const int64_t step : last_steps) {
    std::string text;
    write(nodes, step, text);
    if (!out.empty() && out.back().text == text) {
      out.back().last_step = step;
    } else {
      out.push_back({.last_step = step, .text = std::move(text)});
    }
  }
  return out;
}

}  // namespace kinema::text
