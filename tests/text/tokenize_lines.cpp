// tokenize_lines FOLDER: the ids of lines by the Qwen tokenizer in a folder. A line comes in as the
// number of its bytes, 4 of them and the lowest first, and its bytes; its ids go out as their
// number and the ids, 4 bytes each. For tests/peers/tokenizer.py.
#include <array>
#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <string>

#include "kinema/text/qwen_tokenizer.h"

namespace {

void put(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(value >> shift);
  }
}

void tokenize(const char* folder) {
  const auto tokenizer = kinema::text::QwenTokenizer::open(folder);
  std::array<char, 4> size{};
  std::string line;
  std::string out;
  while (std::cin.read(size.data(), size.size())) {
    uint32_t bytes = 0;
    for (int i = 3; i >= 0; --i) {
      bytes = bytes << 8 | static_cast<uint8_t>(size.at(static_cast<size_t>(i)));
    }
    line.resize(bytes);
    std::cin.read(line.data(), bytes);
    const auto ids = tokenizer.encode(line, std::numeric_limits<int32_t>::max()).ids;
    out.clear();
    put(out, static_cast<uint32_t>(ids.size()));
    for (const int64_t id : ids) {
      put(out, static_cast<uint32_t>(id));
    }
    std::cout.write(out.data(), static_cast<std::streamsize>(out.size()));
  }
  std::cout.flush();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_lines FOLDER < LINES > IDS\n";
    return 2;
  }
  try {
    std::ios::sync_with_stdio(false);
    tokenize(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
