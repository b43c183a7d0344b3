#include "kinema/io/yaml.h"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <set>
#include <sstream>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = 100'000;

std::string one_line(std::string text) {
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return text.size() > 200 ? text.substr(0, 200) + "..." : text;
}

/// yaml-cpp's message; of an open brace, which it calls a flow, in words that name it.
std::string problem_of(const YAML::Exception& error) {
  if (error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW) {
    return "a `{` is not closed by `}`\n  put text that begins with a brace in quotes";
  }
  if (error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    return "a `[` is not closed by `]`\n  put text that begins with a bracket in quotes";
  }
  return one_line(error.msg);
}

size_t count_values(const Yaml& value) {
  size_t count = 1;
  for (const Yaml& item : value.items()) {
    count += count_values(item);
  }
  for (const auto& member : value.members()) {
    count += count_values(member.value);
  }
  return count;
}

size_t count_bytes(const Yaml& value) {
  size_t bytes = value.text().size();
  for (const Yaml& item : value.items()) {
    bytes += count_bytes(item);
  }
  for (const auto& member : value.members()) {
    bytes += member.key.size() + count_bytes(member.value);
  }
  return bytes;
}

size_t depth_of(const Yaml& value) {
  size_t depth = 0;
  for (const Yaml& item : value.items()) {
    depth = std::max(depth, depth_of(item));
  }
  for (const auto& member : value.members()) {
    depth = std::max(depth, depth_of(member.value));
  }
  return depth + 1;
}

}  // namespace

// Builds the tree from yaml-cpp's events, which still distinguish plain and quoted scalars.
class YamlReader : public YAML::EventHandler {
 public:
  explicit YamlReader(std::string_view source) : source_(std::make_shared<std::string>(source)) {}

  Yaml take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Yaml value = make(Yaml::Kind::Null, mark);
    value.text_.clear();
    place(std::move(value), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Yaml value = make(Yaml::Kind::Scalar, mark);
    value.text_ = text;
    // yaml-cpp marks quoted and block scalars with the tag `!`, plain ones with `?`.
    value.quoted_ = tag != "?";
    check(tag == "?" || tag == "!" || tag == "tag:yaml.org,2002:str",
          "[yaml] {}: the tag `{}` is not supported", value.where(), one_line(tag));
    place(std::move(value), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(make(Yaml::Kind::Sequence, mark), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(make(Yaml::Kind::Mapping, mark), anchor);
  }
  void OnMapEnd() override { close(); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    const Yaml at = make(Yaml::Kind::Null, mark);
    check(found != anchors_.end(), "[yaml] {}: an alias refers to a value that contains it",
          at.where());
    // A few nested aliases can expand to billions of values, so the values of copies are counted.
    values_ += found->second.values - 1;
    alias_bytes_ += found->second.bytes;
    check(values_ <= kMaxValues && alias_bytes_ <= kMaxBytes &&
              frames_.size() + found->second.depth <= kMaxDepth,
          "[yaml] {}: with its aliases expanded the document has more than {} values, {} bytes or "
          "{} levels",
          at.where(), kMaxValues, kMaxBytes, kMaxDepth);
    place(found->second.value, 0);
  }

 private:
  struct Frame {
    Yaml value;
    YAML::anchor_t anchor;
    bool have_key = false;
    std::string key;
    int key_line = 0;
    std::set<std::string> keys;
  };
  struct Anchored {
    Yaml value;
    size_t values;
    size_t bytes;
    size_t depth;
  };

  Yaml make(Yaml::Kind kind, const YAML::Mark& mark) {
    Yaml value;
    value.kind_ = kind;
    value.line_ = mark.line + 1;
    value.source_ = source_;
    check(++values_ <= kMaxValues, "[yaml] {} has more than {} values", *source_, kMaxValues);
    return value;
  }
  void open(Yaml value, YAML::anchor_t anchor) {
    check(frames_.size() < kMaxDepth, "[yaml] {} is nested more than {} levels deep", value.where(),
          kMaxDepth);
    if (!frames_.empty() && wants_key(frames_.back())) {
      fail("[yaml] {}: a key must be a plain word or a string, not a list or mapping",
           value.where());
    }
    frames_.push_back({.value = std::move(value), .anchor = anchor});
  }
  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    place(std::move(frame.value), frame.anchor);
  }
  static bool wants_key(const Frame& frame) {
    return frame.value.kind_ == Yaml::Kind::Mapping && !frame.have_key;
  }
  void place(Yaml value, YAML::anchor_t anchor) {
    if (anchor != 0) {
      // Nested anchors: each level stores all values below it again.
      const size_t count = count_values(value);
      kept_values_ += count;
      check(kept_values_ <= 2 * kMaxValues,
            "[yaml] {}: the anchors of the document have more than {} values", value.where(),
            2 * kMaxValues);
      anchors_[anchor] = {value, count, count_bytes(value), depth_of(value)};
    }
    if (frames_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.value.kind_ == Yaml::Kind::Sequence) {
      frame.value.items_.push_back(std::move(value));
    } else if (wants_key(frame)) {
      check(value.kind_ == Yaml::Kind::Scalar, "[yaml] {}: a key must be a plain word or a string",
            value.where());
      check(frame.keys.insert(value.text_).second, "[yaml] {}: the key `{}` appears twice",
            value.where(), one_line(value.text_));
      frame.have_key = true;
      frame.key = value.text_;
      frame.key_line = value.line_;
    } else {
      frame.have_key = false;
      frame.value.members_.push_back({frame.key, frame.key_line, std::move(value)});
    }
  }

  std::shared_ptr<const std::string> source_;
  Yaml root_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  size_t values_ = 0;
  size_t alias_bytes_ = 0;
  size_t kept_values_ = 0;
};

Yaml Yaml::parse(std::string_view text, std::string_view source) {
  check(text.size() <= kMaxBytes, "[yaml] {} has {} bytes, at most {} were expected", source,
        text.size(), kMaxBytes);
  check(text.find('\0') == std::string_view::npos, "[yaml] {} is not text: it holds a zero byte",
        source);
  YamlReader reader(source);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(reader);
    Yaml root = reader.take();
    YamlReader rest(source);
    check(!parser.HandleNextDocument(rest), "[yaml] {} holds more than one document", source);
    return root;
  } catch (const YAML::Exception& error) {
    fail("[yaml] {}:{} is not YAML: {}", source, error.mark.line + 1, problem_of(error));
  }
}

Yaml Yaml::read(const std::filesystem::path& path) {
  return parse(read_text(path, kMaxBytes), path.string());
}

std::string Yaml::where() const {
  return (source_ ? *source_ : std::string("the document")) + ":" + std::to_string(line_);
}

const std::vector<Yaml::Member>& Yaml::members() const { return members_; }

const Yaml* Yaml::find(std::string_view key) const {
  for (const Member& member : members_) {
    if (member.key == key) {
      return &member.value;
    }
  }
  return nullptr;
}

}  // namespace kinema::io
