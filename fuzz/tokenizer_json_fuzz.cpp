// Any text as a folder's tokenizer.json and, behind a line of dashes, its tokenizer_config.json and
// special_tokens_map.json: an Error, or a tokenizer of T5's kind, CLIP's or Qwen's that gives ids
// inside its vocabulary.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/qwen_tokenizer.h"
#include "kinema/text/tokenizer.h"

namespace {

template <typename Tokenizer>
void read(const std::filesystem::path& folder) {
  try {
    const Tokenizer tokenizer = Tokenizer::open(folder);
    for (const char* prompt :
         {"a red ball's 12 <pad></s>", "caf\xc3\xa9 \xf0\x9f\x98\x80 <|END|>"}) {
      for (const int64_t id : tokenizer.encode(prompt, 77).ids) {
        if (id < 0 || id >= tokenizer.size()) {
          std::abort();
        }
      }
    }
  } catch (const kinema::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fs = std::filesystem;
  constexpr std::array kNames{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"};
  constexpr std::string_view kBetween = "\n---\n";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  fs::path folder;
  for (const char* name : kNames) {
    const std::string_view part = rest.substr(0, rest.find(kBetween));
    folder =
        input_file(name, reinterpret_cast<const uint8_t*>(part.data()), part.size()).parent_path();
    if (part.empty()) {
      fs::remove(folder / name);
    }
    rest.remove_prefix(std::min(rest.size(), part.size() + kBetween.size()));
  }
  const AllocationLimit limit(size);
  read<kinema::text::Tokenizer>(folder);
  read<kinema::text::ClipTokenizer>(folder);
  read<kinema::text::QwenTokenizer>(folder);
  return 0;
}
