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

/// The least time that a device's published peaks allow: compute, HBM, interconnect and the host
/// overlap perfectly, so the longest of them counts.
struct Roofline {
  double compute_seconds = 0;
  double hbm_seconds = 0;
  double interconnect_seconds = 0;
  double host_seconds = 0;  // to or from memory of the host, whichever takes longer
  double seconds() const;
  /// Which of them is the longest: "compute", "HBM", "interconnect", "host memory".
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
  int64_t total = 0;   // bytes of device memory with it; 0 where the compiler does not say
  bool fits = false;
};

/// A planned program: what was asked, what the compiler made of it, what follows.
struct Report {
  Target target;
  std::string what;    // "training step", "denoising step"
  std::string model;   // "14.29 B parameters, 40 layers"
  std::string inputs;  // "1 sample of [16,21,90,160], 75600 tokens"
  std::string layout;  // "1 sample, tokens over fsdp=4, ..."; empty on one device
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::string remat;
  kernels::AttentionRecord attention;
  MatrixFlops flops;       // of matmuls and convolutions in our graph, on all devices
  double model_flops = 0;  // by the published formula, on all devices; 0: not said
  CompileResult compiled;
  double build_seconds = 0;  // graph and text
  int64_t text_bytes = 0;
  /// Of an expert whose turn the program is not: bytes of each device, and of the host's memory.
  int64_t waiting_bytes = 0;
  int64_t waiting_host_bytes = 0;
  int64_t peak_rss = 0;  // of the planning process
  std::string saved;     // path of the compiled program
  pjrt::CompileOptions options;
  std::vector<TileTable> tiles;  // what was compared before; the best are in the program
  /// Why a program that takes more than a device has was not made: the compiler's words. Of
  /// `compiled` there are then arguments, temporaries (as far as they are known) and the limit.
  std::string refused;
  /// Where it does not fit: the largest values, changes that were tried, and those that were not.
  std::vector<LargeValue> largest;
  std::vector<Remedy> tried;
  std::vector<std::string> untried;

  /// Bytes of device memory that a run takes.
  int64_t total() const { return compiled.memory.total() + waiting_bytes; }
  /// Bytes that a run may take; 0 when that is not known.
  int64_t limit() const;
  bool fits() const { return refused.empty() && (limit() == 0 || total() <= limit()); }
  int64_t host_bytes() const;
  Roofline roofline() const;
};

/// Lines for people.
std::string to_text(const Report& report);
io::Json to_json(const Report& report);

/// Of a program that does not fit, two lines for an error: by how much, and what fits in its place.
std::string verdict(const Report& report);

/// `1.25 GiB`, `3.0 MiB`, `12 B`.
std::string bytes_text(double bytes);

/// The `count` largest values that `outputs` need, largest first; values inside loops count as one
/// step's.
std::vector<LargeValue> largest_values(const Graph& graph, std::span<const Tensor> outputs,
                                       size_t count);

}  // namespace kinema::planning
