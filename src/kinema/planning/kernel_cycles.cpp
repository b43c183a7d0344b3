#include "kinema/planning/kernel_cycles.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/planning/child_text.h"
#include "kinema/planning/compile_job.h"

namespace kinema::planning {
namespace {

namespace fs = std::filesystem;

/// The largest number after `estimated_cycles:` in the files of a folder: the kernel's. An
/// operation around it has fewer.
std::optional<double> largest_cycles(const fs::path& folder) {
  constexpr std::string_view kKey = "estimated_cycles: ";
  std::optional<double> out;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string text = child_text(file.path());
    for (size_t at = text.find(kKey); at != std::string::npos; at = text.find(kKey, at)) {
      at += kKey.size();
      int64_t value = 0;
      std::from_chars(text.data() + at, text.data() + text.size(), value);
      out = std::max(out.value_or(0), static_cast<double>(value));
    }
  }
  return out;
}

/// Heads that are computed together: a device may have two cores.
constexpr int64_t kHeads = 2;

class Measure {
 public:
  Measure(const kernels::TileCandidate& trial, const KernelCompiler& compiler)
      : trial_(trial), compiler_(compiler) {}

  /// For `kHeads` tiles of heads.
  double operator()(int64_t outer, int64_t inner) {
    const io::TemporaryFolder profile("plan");
    CompileJob job{
        .target = compiler_.target,
        .plugin = compiler_.plugin,
        .program = kernels::tile_program(trial_, compiler_.target.chip.kind, kHeads, outer, inner)};
    job.environment["LIBTPU_INIT_ARGS"] =
        "--xla_jf_dump_static_llo_profile_to=" + profile.path().string();
    const CompileResult result = compile_in_child(job, compiler_.program, compiler_.stop);
    seconds = result.compile_seconds;
    const std::optional<double> cycles = largest_cycles(profile.path());
    check(cycles.has_value(), "[plan] the compiler for {} reports no cycles of {}",
          compiler_.target.name, kernels::name_of(trial_.pass));
    return *cycles;
  }

  double seconds = 0;

 private:
  const kernels::TileCandidate& trial_;
  const KernelCompiler& compiler_;
};

}  // namespace

KernelCycles kernel_cycles(const kernels::TileCandidate& trial, const KernelCompiler& compiler) {
  constexpr int64_t kFew = 2;
  constexpr int64_t kMore = 5;
  const int64_t outer = trial.outer();
  const int64_t inner = trial.inner();
  Measure measure(trial, compiler);
  double all = 0;
  if (inner > kMore) {
    const double few = measure(1, kFew);
    const double step = (measure(1, kMore) - few) / (kMore - kFew);
    all = static_cast<double>(outer) * (few + static_cast<double>(inner - kFew) * step);
  } else {
    const double one = measure(1, inner);
    all = outer == 1 ? one : one + static_cast<double>(outer - 1) * (measure(2, inner) - one);
  }
  const int64_t tiles = trial.work.heads / trial.work.heads_per_tile;
  return {all * static_cast<double>(tiles) / kHeads, measure.seconds};
}

}  // namespace kinema::planning
