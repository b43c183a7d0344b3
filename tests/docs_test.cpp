// Checks that the docs show what exists: C++ blocks are compiled code, and paths exist.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

namespace kinema {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const fs::path& root() {
  static const fs::path path(KINEMA_SOURCE_DIR);
  return path;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> documents() {
  std::vector<fs::path> out;
  for (const fs::path& folder :
       {root(), root() / "docs", root() / "docs/tutorials", root() / "docs/guides",
        root() / "docs/reference", root() / "docs/internals"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") {
        out.push_back(entry.path());
      }
    }
  }
  return out;
}

/// Lines without indentation and without empty lines, joined.
std::string flattened(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) {
      out += line.substr(begin) + "\n";
    }
  }
  return out;
}

/// Every source file that a build compiles, flattened.
std::vector<std::string> compiled_sources() {
  std::vector<std::string> out;
  for (const char* folder : {"src", "tests", "examples", "fuzz", "bench"}) {
    if (!fs::is_directory(root() / folder)) {
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
      const fs::path extension = entry.path().extension();
      if (extension == ".cpp" || extension == ".h") {
        out.push_back(flattened(read(entry.path())));
      }
    }
  }
  return out;
}

TEST(Docs, ShowOnlyCodeThatIsCompiled) {
  const std::vector<std::string> sources = compiled_sources();
  const std::regex fence("```cpp\n([^`]*)```");
  int blocks = 0;
  for (const fs::path& document : documents()) {
    const std::string text = read(document);
    for (std::sregex_iterator it(text.begin(), text.end(), fence), end; it != end; ++it) {
      ++blocks;
      const std::string block = flattened((*it)[1]);
      const bool found = std::ranges::any_of(sources, [&](const std::string& source) {
        return source.find(block) != std::string::npos;
      });
      EXPECT_TRUE(found) << document << " shows code that is in no source:\n" << block;
    }
  }
  EXPECT_GT(blocks, 0);
}

TEST(Docs, NameOnlyExistingFiles) {
  const std::regex fence("```[^`]*```");
  const std::regex link(R"(\]\(([^)#:]+)\))");
  for (const fs::path& document : documents()) {
    // C++ also has brackets before parentheses.
    const std::string text = std::regex_replace(read(document), fence, "");
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const fs::path target = document.parent_path() / (*it)[1].str();
      EXPECT_TRUE(fs::exists(target)) << document << " links to " << (*it)[1];
    }
  }
}

// tests/docs/commands.py runs the commands.

TEST(Descriptions, NameEveryFamilyOfModels) {
  const auto behind = [](const fs::path& file, const std::string& word, const std::string& end) {
    const std::string text = read(root() / file);
    const size_t begin = text.find(word);
    EXPECT_NE(begin, std::string::npos) << file << " has no " << word;
    return begin == std::string::npos ? "" : text.substr(begin, text.find(end, begin) - begin);
  };
  for (const std::string& text : {behind("CMakeLists.txt", "DESCRIPTION", ")"),
                                  behind("packaging/debian/control", "Description:", "\n\n"),
                                  behind("src/kinema/cli/main.cpp", "kAbout =", ";"),
                                  behind("README.md", "# kinema", "./dev")}) {
    EXPECT_THAT(text, HasSubstr("Wan"));
    EXPECT_THAT(text, HasSubstr("Flux"));
    EXPECT_THAT(text, AnyOf(HasSubstr("SDXL"), HasSubstr("Stable Diffusion XL")));
  }
}

// The docs tell a library user which header to include.
TEST(Docs, NameTheLibrarysHeader) {
  EXPECT_THAT(read(root() / "docs" / "internals" / "library.md"),
              HasSubstr("#include <kinema/kinema.h>"));
}

TEST(DocsConcepts, ShowsAGradientAsStableHlo) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 3}}, "x");
  const Tensor loss = sum(x * x);
  const std::vector<Tensor> dx = gradients(loss, std::vector<Tensor>{x});
  const std::string program = emit(graph, dx);

  EXPECT_THAT(program, HasSubstr("stablehlo.multiply"));
}

}  // namespace
}  // namespace kinema
