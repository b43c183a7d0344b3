#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::world {

/// What a process says to process 0 when it comes: a line of JSON.
struct Hello {
  static constexpr size_t kMostBytes = 4096;

  int64_t rank = 0;
  int64_t size = 1;     ///< of the run, as this process was told
  std::string address;  ///< where it listens
  std::string token;    ///< a random number of its own, by which it is known when it comes again
};

/// What all know when they have met.
struct Met {
  std::string secret;                  ///< of this run: who does not know it is not let in
  std::vector<std::string> addresses;  ///< `tcp://10.0.0.2:41234`, where each listens, by rank
};

/// What process 0 says in return: how they have met, or why they have not.
struct Answer {
  static constexpr size_t kMostBytes = 1 << 20;  // that of a thousand addresses has 40 thousand

  Met met;
  std::string error;
};

/// As a line with its end.
std::string line_of(const Hello& hello);
std::string line_of(const Answer& answer);

/// Nothing for what no process of this version says: anybody may speak to an open port.
std::optional<Hello> parse_hello(std::string_view line);
std::optional<Answer> parse_answer(std::string_view line);

}  // namespace kinema::world
