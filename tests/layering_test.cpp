// Every `#include "room/..."` in a room must name that room or one that it may depend on.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// The rooms that each room may include, besides itself.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"allocator", {}},
      {"core", {}},
      {"io", {"core"}},
      {"records", {"core", "io"}},
      {"media", {"core", "io", "records"}},
      {"remote", {"core", "io", "records"}},
      {"http", {"core", "io"}},
      {"config", {"core", "io", "mesh"}},
      {"flags", {"core", "io"}},
      {"world", {"core", "io"}},
      {"mesh", {"core", "io", "graph"}},
      {"pjrt", {"core"}},
      {"graph", {"core"}},
      {"cluster", {"core", "pjrt", "world"}},
      {"runtime", {"core", "flags", "mesh", "pjrt", "graph", "kernels", "world", "cluster"}},
      {"nn", {"core", "graph", "mesh", "kernels"}},
      {"kernels", {"core", "graph", "pjrt"}},
      {"models", {"core", "io", "graph", "mesh", "nn"}},
      {"model_files", {"core", "io", "nn", "models"}},
      {"adapters", {"core", "io", "nn"}},
      {"weights",
       {"core", "io", "pjrt", "mesh", "runtime", "nn", "models", "model_files", "adapters"}},
      {"schedulers", {"core", "graph"}},
      {"networks",
       {"core", "io", "graph", "mesh", "nn", "models", "model_files", "weights", "schedulers"}},
      {"text", {"core", "io", "records"}},
      {"data", {"core", "io", "records", "media", "text"}},
      {"encoders",
       {"core", "io", "media", "pjrt", "runtime", "nn", "models", "model_files", "weights",
        "networks", "text", "data"}},
      {"replay", {"core", "io"}},
      {"environments", {"core", "io"}},
      {"agent_step", {"core", "graph", "nn", "models", "optimizers"}},
      {"preparation", {"core", "io", "records", "world", "networks", "data", "encoders"}},
      {"checkpoints", {"core", "io", "remote", "world"}},
      {"optimizers", {"core", "graph", "kernels", "nn"}},
      {"training",
       {"core", "io", "records", "pjrt", "graph", "runtime", "nn", "weights", "schedulers",
        "networks", "data", "optimizers"}},
      {"metrics", {"core", "io", "records", "training"}},
      {"sample",
       {"core", "io", "media", "pjrt", "graph", "mesh", "runtime", "nn", "model_files", "weights",
        "schedulers", "networks", "data", "encoders"}},
      {"verification",
       {"core", "io",       "records",     "media",    "pjrt",       "graph",    "runtime",
        "nn",   "models",   "model_files", "weights",  "schedulers", "networks", "text",
        "data", "encoders", "optimizers",  "training", "sample",     "replay",   "agent_step"}},
      {"planning", {"core", "io", "remote", "pjrt", "graph", "runtime", "kernels"}},
      {"inspection",
       {"core", "io", "records", "media", "model_files", "weights", "networks", "text", "data",
        "checkpoints", "training", "sample"}},
      {"job", {"core", "world"}},
      {"agents",
       {"core", "io", "media", "flags", "pjrt", "graph", "mesh", "runtime", "nn", "models",
        "checkpoints", "optimizers", "metrics", "environments", "replay", "agent_step", "planning",
        "job"}},
      {"stores", {"core", "io", "remote", "runtime", "checkpoints", "sample", "job"}},
      {"datasets",
       {"core", "io", "remote", "networks", "data", "encoders", "preparation", "job", "stores"}},
      {"resolve",
       {"core",        "io",         "records",     "media",       "remote",     "flags",
        "world",       "pjrt",       "graph",       "mesh",        "config",     "kernels",
        "runtime",     "nn",         "model_files", "networks",    "text",       "data",
        "encoders",    "schedulers", "preparation", "checkpoints", "optimizers", "training",
        "metrics",     "sample",     "planning",    "job",         "stores",     "datasets",
        "model_source"}},
      {"reports", {"core", "io", "world", "cluster", "checkpoints", "metrics", "resolve"}},
      {"plans",
       {"core", "io", "pjrt", "graph", "mesh", "kernels", "runtime", "nn", "weights", "training",
        "sample", "verification", "planning", "job", "model_source", "resolve"}},
      {"jobs", {"core",       "io",       "records",  "media",        "remote",       "flags",
                "world",      "pjrt",     "mesh",     "runtime",      "nn",           "model_files",
                "weights",    "networks", "text",     "data",         "preparation",  "checkpoints",
                "optimizers", "training", "metrics",  "sample",       "verification", "planning",
                "job",        "stores",   "datasets", "model_source", "resolve",      "reports",
                "plans"}},
      {"serve",
       {"core", "io", "media", "remote", "http", "data", "checkpoints", "metrics", "reports"}},
      {"api", {"core", "config", "runtime", "resolve", "plans", "jobs"}},
      {"command", {"core"}},
      {"manual", {"config", "planning", "command"}},
      {"cli",
       {"allocator", "core",        "io",       "media",   "flags",   "world",    "config",
        "runtime",   "checkpoints", "training", "metrics", "sample",  "planning", "inspection",
        "job",       "agents",      "stores",   "resolve", "reports", "plans",    "jobs",
        "command",   "manual",      "http",     "serve",   "remote"}},
      {"python", {"core", "graph", "config", "runtime", "job", "jobs"}},
      {"model_source",
       {"core", "io", "media", "pjrt", "graph", "mesh", "config", "kernels", "nn", "model_files",
        "weights", "networks", "data", "encoders", "checkpoints", "training", "sample", "job",
        "stores"}},
  };
  return table;
}

/// The rooms named by `#include "room/..."` lines of one file.
std::vector<std::string> included_rooms(const fs::path& file) {
  static const std::regex include(R"re(^\s*#\s*include\s+"kinema/([a-z0-9_]+)/)re");
  std::vector<std::string> rooms;
  std::ifstream in(file);
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, match, include)) {
      rooms.push_back(match[1]);
    }
  }
  return rooms;
}

/// The room of a path in src/kinema; files directly in it are the room `api`.
std::string room_of(const fs::path& path) {
  return path.has_parent_path() ? path.begin()->string() : "api";
}

bool is_source(const fs::path& file) {
  return file.extension() == ".h" || file.extension() == ".cpp";
}

TEST(Layering, EveryIncludePointsToAnEarlierRoom) {
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src/kinema";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (!is_source(entry.path())) {
      continue;
    }
    ++files;
    const std::string room = room_of(fs::relative(entry.path(), src));
    SCOPED_TRACE(entry.path().string());
    ASSERT_TRUE(allowed().contains(room)) << "room `" << room << "` is not in the table";
    for (const std::string& other : included_rooms(entry.path())) {
      // A path that does not begin with one of our rooms belongs to a library ("xla/...").
      if (other != room && allowed().contains(other)) {
        EXPECT_TRUE(allowed().at(room).contains(other))
            << room << " may not include " << other << "/";
      }
    }
  }
  EXPECT_GT(files, 10) << "the sources were not found under " << src;
}

// A new family of networks is a file like networks/wan.cpp, a line in networks/open.cpp and one in
// model_files/family.cpp; weights/model_kinds.cpp also has the file names of other models. Add new
// families to this list.
TEST(Layering, OnlyNetworksKnowsWhichFamiliesThereAre) {
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src/kinema";
  static const std::regex family(
      R"re(\b(wan|flux|unet|zimage)::|models/(wan|flux|unet|zimage)/|"(Wan|Flux|ZImage|UNet|StableDiffusion)\w*(Model|Pipeline)")re");
  static const std::set<std::string> kUsers{
      "networks/flux.cpp",      "networks/unet.cpp",         "networks/unet_config.cpp",
      "networks/unet_config.h", "networks/unet_control.cpp", "networks/wan.cpp",
      "networks/zimage.cpp",    "model_files/family.cpp",    "weights/model_kinds.cpp"};
  std::set<std::string> users;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const std::string path = fs::relative(entry.path(), src).string();
    if (!is_source(entry.path()) || path.starts_with("models/")) {
      continue;
    }
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (std::regex_search(text, family)) {
      users.insert(path);
    }
  }
  EXPECT_EQ(users, kUsers);
}

TEST(Layering, RoomsIncludePublicHeadersOfOthersOnly) {
  std::set<std::string> headers;
  std::set<std::string> rooms;
  std::ifstream list(fs::path(KINEMA_BINARY_DIR) / "public_headers.txt");
  for (std::string line; std::getline(list, line);) {
    headers.insert(line);
    rooms.insert(room_of(line.substr(std::string("kinema/").size())));
  }
  ASSERT_GT(headers.size(), 100U);
  static const std::regex include(R"re(^\s*#\s*include\s+"(kinema/([a-z0-9_]+)[/.][^"]+)")re");
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src/kinema";
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (!is_source(entry.path())) {
      continue;
    }
    const std::string room = room_of(fs::relative(entry.path(), src));
    std::ifstream in(entry.path());
    std::smatch match;
    for (std::string line; std::getline(in, line);) {
      if (std::regex_search(line, match, include) && match[2] != room && rooms.contains(match[2])) {
        EXPECT_TRUE(headers.contains(match[1]))
            << entry.path() << " includes " << match[1]
            << ", which is not among the HEADERS of its room's kinema_module";
      }
    }
  }
}

TEST(Layering, RoomsIncludeAllThatTheTableAllows) {
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src/kinema";
  std::map<std::string, std::set<std::string>> included;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (is_source(entry.path())) {
      const std::string room = room_of(fs::relative(entry.path(), src));
      for (const std::string& other : included_rooms(entry.path())) {
        included[room].insert(other);
      }
    }
  }
  for (const auto& [room, rooms] : allowed()) {
    for (const std::string& other : rooms) {
      EXPECT_TRUE(included[room].contains(other))
          << room << " includes nothing of " << other << "/: take it out of its row";
    }
  }
}

// std::regex matches recursively, a stack frame per character: a name of 50,000 letters in a
// downloaded file would end the process. Plain searches give the same result without a deep stack.
TEST(Layering, NothingMatchesByRegex) {
  static const std::regex include(R"re(^\s*#\s*include\s+<(regex|regex\.h|boost/regex.*)>)re");
  int files = 0;
  for (const char* folder : {"src", "fuzz", "bench", "examples", "tools"}) {
    const fs::path root = fs::path(KINEMA_SOURCE_DIR) / folder;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (!is_source(entry.path())) {
        continue;
      }
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        EXPECT_FALSE(std::regex_search(line, include)) << entry.path() << " includes <regex>";
      }
    }
  }
  EXPECT_GT(files, 100) << "the sources were not found";
}

// Compiling one file of a room alone then shows whether its header is self-contained.
TEST(Layering, AFileIncludesItsOwnHeaderFirst) {
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const fs::path header = fs::path(entry.path()).replace_extension(".h");
    if (entry.path().extension() != ".cpp" || !fs::exists(header)) {
      continue;
    }
    ++files;
    std::ifstream in(entry.path());
    std::string first;
    while (std::getline(in, first) && !first.starts_with("#include")) {
    }
    EXPECT_EQ(first, "#include \"" + fs::relative(header, src).string() + "\"") << entry.path();
  }
  EXPECT_GT(files, 100) << "the sources were not found";
}

// Functions return a new configuration instead, so that a name means one set of values.
TEST(Layering, NoFunctionChangesAConfigurationThatItIsGiven) {
  static const std::regex changes(R"re((^|[^a-z_])config::(Config|Loaded)\s*&)re");
  static const std::regex constant(R"re(const config::(Config|Loaded)\s*&)re");
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src/kinema";
  int references = 0;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (!is_source(entry.path()) || room_of(fs::relative(entry.path(), src)) == "config") {
      continue;
    }
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      const auto count = [&](const std::regex& which) {
        return std::distance(std::sregex_iterator(line.begin(), line.end(), which), {});
      };
      references += static_cast<int>(count(constant));
      EXPECT_EQ(count(changes), count(constant)) << entry.path() << ": " << line;
    }
  }
  EXPECT_GT(references, 50) << "the sources were not found";
}

// The rooms `model_source` and `resolve` turn keys into values; whoever works with values cannot
// depend on a key. `cli` and `python` read and show configurations, `manual` documents the keys,
// `api` is kinema.h.
TEST(Layering, OnlyModelSourceAndResolveKnowKeys) {
  static const std::set<std::string> kReaders{"config", "model_source", "resolve", "cli",
                                              "manual", "api",          "python"};
  static const std::regex name(R"re(\bconfig::|kinema/config/)re");
  const fs::path src = fs::path(KINEMA_SOURCE_DIR) / "src/kinema";
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (!is_source(entry.path()) || kReaders.contains(room_of(fs::relative(entry.path(), src)))) {
      continue;
    }
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      EXPECT_FALSE(std::regex_search(line, name)) << entry.path() << ": " << line;
    }
  }
}

TEST(Layering, TheTableItselfHasNoCycle) {
  std::set<std::string> placed;
  while (placed.size() < allowed().size()) {
    const size_t before = placed.size();
    for (const auto& [room, rooms] : allowed()) {
      bool ready = true;
      for (const std::string& other : rooms) {
        ready = ready && placed.contains(other);
      }
      if (ready) {
        placed.insert(room);
      }
    }
    ASSERT_GT(placed.size(), before) << "some rooms depend on each other in a cycle";
  }
}

}  // namespace
