#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/graph.h"
#include "kinema/io/json.h"
#include "kinema/kernels/attention_record.h"
#include "kinema/planning/compile_job.h"
#include "kinema/planning/flops.h"
#include "kinema/planning/tile_search.h"

namespace kinema::planning {

/// The lower bound from a device's published peaks: compute, HBM, interconnect and host overlap
/// perfectly, so the longest of them is the bound.
struct Roofline {
  double compute_seconds = 0;
  double hbm_seconds = 0;
  double interconnect_seconds = 0;
  double host_seconds = 0;  // to or from host memory, whichever takes longer
  double seconds() const;
  /// The longest: "compute", "HBM", "interconnect", "host memory".
  const char* bound() const;
};

/// A value of the program, for messages about memory.
struct LargeValue {
  Shape shape;  // on all devices together
  std::string place;
};

/// A change of keys that was compiled because a program does not fit.
struct Remedy {
  std::string change;  // `per_device_batch_size=0.25 gradient_accumulation_steps=4`
  int64_t total = 0;   // bytes of device memory with the change; 0 if unknown
  bool fits = false;
};

/// A planned program: the request, the compiler's result, and derived figures.
struct Report {
  Target target;
  std::string what;    // "training step", "denoising step"
  std::string model;   // "14.29 B parameters, 40 layers"
  std::string inputs;  // "1 sample of [16,21,90,160], 75600 tokens"
  std::string layout;  // "1 sample, tokens over fsdp=4, ..."; empty for one device
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::string remat;
  kernels::AttentionRecord attention;
  MatrixFlops flops;       // of matrix products and convolutions in the graph, on all devices
  double model_flops = 0;  // by the published formula, on all devices; 0: unknown
  CompileResult compiled;
  double build_seconds = 0;  // graph and text
  int64_t text_bytes = 0;
  /// Memory of the idle expert: bytes per device, and of host memory.
  int64_t offloaded_bytes = 0;
  int64_t offloaded_host_bytes = 0;
  int64_t peak_rss = 0;  // of the planning process
  std::string saved;     // path of the compiled program
  pjrt::CompileOptions options;
  std::vector<TileTable> tiles;  // the comparison of tiles; the best ones are in the program
  /// The compiler's error, if the program needs more than a device has. Then `compiled` has only
  /// arguments, temporaries (if known) and the limit.
  std::string refused;
  /// If it does not fit: the largest values, changes that were tried, and those that were not.
  std::vector<LargeValue> largest;
  std::vector<Remedy> tried;
  std::vector<std::string> untried;

  /// Bytes of device memory of a run.
  int64_t total() const { return compiled.memory.total() + offloaded_bytes; }
  /// The limit of these bytes; 0 if unknown.
  int64_t limit() const;
  bool fits() const { return refused.empty() && (limit() == 0 || total() <= limit()); }
  int64_t host_bytes() const;
  Roofline roofline() const;
};

/// Text for the console.
std::string to_text(const Report& report);
io::Json to_json(const Report& report);

/// Two lines for an error about a program that does not fit: by how much, and the remedy.
std::string verdict(const Report& report);

/// `1.25 GiB`, `3.0 MiB`, `12 B`.
std::string bytes_text(double bytes);

/// The `count` largest values on which `outputs` depend, largest first; values inside loops have
/// the size of one step.
std::vector<LargeValue> largest_values(const Graph& graph, std::span<const Tensor> outputs,
                                       size_t count);

}  // namespace kinema::planning
