#include "kinema/text/bpe.h"

#include <functional>
#include <queue>

#include "kinema/core/error.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

/// GPT-2's character for each byte: printable Latin-1 characters are themselves, the others map to
/// U+0100 and following in their order.
std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> out;
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    append_utf8(out[byte], printable ? byte : next++);
  }
  return out;
}

uint64_t pair_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32U | static_cast<uint64_t>(right);
}

/// One token of a word during merging; neighbours by index, -1 at the ends.
struct Unit {
  int64_t id = 0;
  int64_t before = -1;
  int64_t behind = -1;
  bool gone = false;
};

/// Two neighbours that can merge: the smallest rank first, then the leftmost.
struct Candidate {
  int64_t rank = 0;
  int64_t place = 0;
  int64_t id = 0;
  auto operator<=>(const Candidate&) const = default;
};

}  // namespace

Bpe::Bpe(std::vector<std::string> vocabulary, const std::vector<Merge>& merges,
         std::string_view word_end, int64_t unknown)
    : vocabulary_(std::move(vocabulary)) {
  check(unknown >= 0 && unknown < size(), "[text] the unknown token is {} of a vocabulary of {}",
        unknown, size());
  check(size() <= int64_t{1} << 31, "[text] a vocabulary has {} tokens, more than 2^31", size());
  for (int64_t id = 0; id < size(); ++id) {
    check(token(id).empty() || ids_.emplace(token(id), id).second,
          "[text] the vocabulary has `{}` twice, as {} and {}", token(id), find(token(id)), id);
  }
  const auto id_of = [&](const std::string& text, size_t rank) {
    const int64_t id = find(text);
    check(id >= 0, "[text] merge {} needs `{}`, which the vocabulary does not have", rank + 1,
          text);
    return id;
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const Merged made{static_cast<int64_t>(rank), id_of(left + right, rank)};
    merges_.insert_or_assign(pair_of(id_of(left, rank), id_of(right, rank)), made);
  }
  const std::array<std::string, 256> characters = byte_characters();
  const auto or_unknown = [&](int64_t id) { return id >= 0 ? id : unknown; };
  for (size_t byte = 0; byte < characters.size(); ++byte) {
    inner_[byte] = or_unknown(find(characters[byte]));
    last_[byte] = or_unknown(find(characters[byte] + std::string(word_end)));
  }
}

int64_t Bpe::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

const Bpe::Merged* Bpe::merged(int64_t left, int64_t right) const {
  const auto found = merges_.find(pair_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::encode(std::string_view word, std::vector<int64_t>& ids) const {
  const auto count = static_cast<int64_t>(word.size());
  std::vector<Unit> units(word.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(word[static_cast<size_t>(i)]);
    const bool last = i + 1 == count;
    units[static_cast<size_t>(i)] = {
        .id = last ? last_[byte] : inner_[byte], .before = i - 1, .behind = last ? -1 : i + 1};
  }
  const auto unit = [&](int64_t place) -> Unit& { return units[static_cast<size_t>(place)]; };
  // A candidate stays in the queue after its units have changed, and is then skipped.
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int64_t place) {
    if (place >= 0 && unit(place).behind >= 0) {
      if (const Merged* made = merged(unit(place).id, unit(unit(place).behind).id)) {
        queue.push({made->rank, place, made->id});
      }
    }
  };
  for (int64_t i = 0; i < count; ++i) {
    offer(i);
  }
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    Unit& left = unit(next.place);
    if (left.gone || left.behind < 0) {
      continue;
    }
    Unit& right = unit(left.behind);
    const Merged* made = merged(left.id, right.id);
    if (made == nullptr || made->id != next.id) {
      continue;
    }
    left.id = next.id;
    right.gone = true;
    left.behind = right.behind;
    if (right.behind >= 0) {
      unit(right.behind).before = next.place;
    }
    offer(left.before);
    offer(next.place);
  }
  for (int64_t i = 0; i >= 0 && i < count; i = unit(i).behind) {
    ids.push_back(unit(i).id);
  }
}

}  // namespace kinema::text
