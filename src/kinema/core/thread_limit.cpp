#include "kinema/core/thread_limit.h"

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "kinema/core/address_space.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"

namespace kinema {

void check_thread_limit(int threads, std::string_view who) {
  std::latch over(1);
  std::vector<std::jthread> made;
  made.reserve(static_cast<size_t>(threads));
  try {
    while (static_cast<int>(made.size()) < threads) {
      made.push_back(start_thread([&over] { over.wait(); }, [](const std::exception_ptr&) {}));
    }
  } catch (const Error&) {
    // The limit is reached; the check below reports it.
  }
  const std::string remedy = static_cast<int>(made.size()) == threads ? "" : thread_remedy();
  over.count_down();
  check(static_cast<int>(made.size()) == threads,
        "[threads] this process can make {} more threads, but {} needs about {}, and ends the "
        "process without them\n  {}",
        made.size(), who, threads, remedy);
}

}  // namespace kinema
