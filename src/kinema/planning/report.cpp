#include "kinema/planning/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "kinema/graph/body.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema::planning {
namespace {

// The fraction of memory that XLA's allocator takes on GPUs by default.
constexpr double kGpuShare = 0.75;

double bytes(int64_t count) { return static_cast<double>(count); }

double interconnect_bytes(const Traffic& traffic) {
  double sum = 0;
  for (const auto& [kind, each] : traffic.collectives) {
    sum += each.interconnect_bytes;
  }
  return sum;
}

std::string flops_text(double flops) {
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  return flops >= kTera ? fmt::format("{:.1f} TFLOP", flops / kTera)
                        : fmt::format("{:.3f} GFLOP", flops / kGiga);
}

std::string seconds_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.2f} s", seconds)
                      : fmt::format("{:.3f} ms", seconds * 1000.0);
}

std::string mesh_text(const Report& report) {
  std::vector<std::string> axes;
  for (const auto& [name, size] : report.mesh) {
    axes.push_back(fmt::format("{}={}", name, size));
  }
  return axes.empty() ? "one device" : fmt::format("{}", fmt::join(axes, " "));
}

std::string flags_text(const pjrt::CompileOptions& options) {
  std::vector<std::string> all;
  for (const auto& [name, value] : options.flags) {
    all.push_back(fmt::format(
        "{}={}", name, std::visit([](const auto& v) { return fmt::format("{}", v); }, value)));
  }
  return all.empty() ? "the compiler's own" : fmt::format("{}", fmt::join(all, " "));
}

class Lines {
 public:
  template <typename... Args>
  void add(const char* name, fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), "{:<14} {}\n", name,
                   fmt::format(format, std::forward<Args>(args)...));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_memory(const Report& report, Lines& lines) {
  const pjrt::CompiledMemory& m = report.compiled.memory;
  lines.add("arguments", "{}", bytes_text(bytes(m.arguments)));
  lines.add("temporaries", "{}", bytes_text(bytes(m.temporary)));
  lines.add("output", "{}, {} of it in donated arguments", bytes_text(bytes(m.outputs)),
            bytes_text(bytes(m.aliased)));
  lines.add("program", "{}", bytes_text(bytes(m.code)));
  if (report.offloaded_bytes > 0) {
    lines.add("idle expert", "{}", bytes_text(bytes(report.offloaded_bytes)));
  }
  if (report.offloaded_host_bytes > 0) {
    lines.add("idle expert", "{} of the host's memory, for all devices",
              bytes_text(bytes(report.offloaded_host_bytes)));
  }
  if (report.host_bytes() > 0) {
    lines.add("host memory", "{}", bytes_text(bytes(report.host_bytes())));
  }
  const int64_t left = report.limit() - report.total();
  lines.add("total", "{}{}", bytes_text(bytes(report.total())),
            report.limit() == 0 ? ""
            : left >= 0 ? fmt::format(" of {}: fits, {} left", bytes_text(bytes(report.limit())),
                                      bytes_text(bytes(left)))
                        : fmt::format(" of {}: does not fit, {} too much",
                                      bytes_text(bytes(report.limit())), bytes_text(bytes(-left))));
}

/// `98.12 GiB of 95.73 GiB`
std::string excess_text(const Report& report) {
  return fmt::format("{} of {}", bytes_text(bytes(report.total())),
                     bytes_text(bytes(report.limit())));
}

/// `blocks/attn1/self_attn, 40 steps bf16[40,1,75600,5120], 28.84 GiB on all devices together`
std::string large_value_text(const LargeValue& value) {
  return fmt::format("{} {}, {} on all devices together", value.place, to_string(value.shape),
                     bytes_text(bytes(value.shape.bytes())));
}

std::string remedy_text(const Remedy& remedy) {
  return fmt::format("{}: {}{}", remedy.change, remedy.fits ? "fits" : "does not fit",
                     remedy.total > 0 ? ", " + bytes_text(bytes(remedy.total)) : "");
}

/// Adds the details of a program that does not fit, other than its memory.
void add_excess(const Report& report, Lines& lines) {
  const char* name = "largest";
  for (const LargeValue& value : report.largest) {
    lines.add(std::exchange(name, ""), "{}", large_value_text(value));
  }
  name = "tried";
  for (const Remedy& remedy : report.tried) {
    lines.add(std::exchange(name, ""), "{}", remedy_text(remedy));
  }
  name = "not tried";
  for (const std::string& change : report.untried) {
    lines.add(std::exchange(name, ""), "{}", change);
  }
}

void add_expected(const ExpectedTime& expected, Lines& lines) {
  if (expected.seconds() <= 0) {
    return;
  }
  lines.add("expected", "{}, {} of it waiting for other devices and copies",
            seconds_text(expected.seconds()), seconds_text(expected.waiting_seconds));
  for (const ExpectedTime::Kernel& each : expected.kernels) {
    lines.add("", "{} {} x, {}: {:.0f} % of peak", each.name, each.count,
              seconds_text(each.seconds), 100 * each.peak_seconds / each.seconds);
  }
  if (expected.starts > 0) {
    lines.add("", "starts of kernels {} x, {}", expected.starts,
              seconds_text(expected.start_seconds));
  }
  if (!expected.note.empty()) {
    lines.add("", "{}", expected.note);
  }
}

/// `of 160 all-to-all: 120 (6.49 GiB) overlap with attention`, one line per kind of collective.
void add_overlap(const Report& report, Lines& lines) {
  if (report.target.chip.family == Family::CPU) {
    return;
  }
  const char* name = "overlap";
  for (const auto& [kind, sum] : report.compiled.overlap) {
    const double count = sum.attention.count + sum.other.count + sum.exposed.count;
    std::vector<std::string> parts;
    const auto add = [&](const CollectiveOverlap::Part& part, const char* what) {
      if (part.count > 0) {
        parts.push_back(fmt::format("{} ({}) {}", part.count, bytes_text(part.bytes), what));
      }
    };
    add(sum.attention, "overlap with attention");
    add(sum.other, "with other compute");
    add(sum.exposed, "not overlapped");
    lines.add(name, "of {} {}: {}", count, kind, fmt::join(parts, ", "));
    name = "";
  }
}

void add_work(const Report& report, Lines& lines) {
  const double devices = bytes(report.target.devices);
  lines.add("matmul FLOPs", "{}{}", flops_text(report.flops.total() / devices),
            report.model_flops > 0 ? fmt::format(" ({} by the model's formula)",
                                                 flops_text(report.model_flops / devices))
                                   : "");
  const Traffic& traffic = report.compiled.traffic;
  lines.add("HBM traffic", "{}", bytes_text(traffic.hbm_bytes));
  if (traffic.host_bytes > 0) {
    const Chip& chip = report.target.chip;
    lines.add("to/from host", "{}{}", bytes_text(traffic.host_bytes),
              chip.host_link.empty() ? ""
                                     : fmt::format(" over {}, {:.0f} GB/s each way", chip.host_link,
                                                   chip.host_bandwidth / 1e9));
  }
  for (const auto& [kind, sum] : traffic.collectives) {
    lines.add(kind.c_str(), "{} x, {}", sum.count, bytes_text(sum.bytes));
  }
  add_overlap(report, lines);
  if (traffic.unknown_loops > 0) {
    lines.add("", "loops of unknown length, counted as one step: {}", traffic.unknown_loops);
  }
  const Roofline roofline = report.roofline();
  if (roofline.seconds() > 0) {
    lines.add("time", "at least {}, by {} (compute {}, HBM {}, interconnect {}{})",
              seconds_text(roofline.seconds()), roofline.bound(),
              seconds_text(roofline.compute_seconds), seconds_text(roofline.hbm_seconds),
              seconds_text(roofline.interconnect_seconds),
              roofline.host_seconds > 0
                  ? fmt::format(", host memory {}", seconds_text(roofline.host_seconds))
                  : "");
  }
  add_expected(report.compiled.expected, lines);
}

io::Json memory_json(const Report& report) {
  const pjrt::CompiledMemory& m = report.compiled.memory;
  return io::Json::object()
      .set("arguments", m.arguments)
      .set("temporaries", m.temporary)
      .set("output", m.outputs)
      .set("donated", m.aliased)
      .set("program", m.code)
      .set("host", report.host_bytes())
      .set("idle_expert", report.offloaded_bytes)
      .set("idle_expert_host", report.offloaded_host_bytes)
      .set("total", report.total())
      .set("limit", report.limit());
}

/// The model path of a node's result.
std::string place_of(const Node& node, size_t result) {
  if (node.op == &kInput) {
    return node.get<InputAttrs>().name;
  }
  if (node.op == &kScan) {  // the result of its body
    const Body& body = *node.get<std::shared_ptr<Body>>();
    const Tensor inside = body.outputs[result];
    const std::string made = place_of(inside.node(), static_cast<size_t>(inside.result()));
    return (made.empty() ? fmt::format("{}/input", node.scope->empty() ? "loop" : *node.scope)
                         : made) +
           (result < body.carries ? "" : fmt::format(", {} steps", body.length));
  }
  if (node.op == &kWithSharding) {
    return place_of(node.input(0).node(), static_cast<size_t>(node.input(0).result()));
  }
  return fmt::format("{}{}{}", *node.scope, node.scope->empty() ? "" : "/",
                     node.op == &kNamed ? node.get<NamedAttrs>().name : node.op->name);
}

void collect(const Graph& graph, std::span<const Tensor> outputs, std::vector<LargeValue>& all) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Tensor x : outputs) {
    needed[static_cast<size_t>(x.node().id)] = true;
  }
  for (auto id = static_cast<int64_t>(needed.size()) - 1; id >= 0; --id) {
    const Node& node = graph.nodes()[static_cast<size_t>(id)];
    if (!needed[static_cast<size_t>(id)]) {
      continue;
    }
    for (const Tensor x : node.inputs) {
      needed[static_cast<size_t>(x.node().id)] = true;
    }
    if (const auto* body = std::any_cast<std::shared_ptr<Body>>(&node.attrs)) {
      collect(*(*body)->graph, (*body)->outputs, all);
    }
    // Inputs of bodies are values of the enclosing graph. Operations that are free to recompute,
    // and views of other values, are fused with their consumers.
    if (node.op == &kInput ? graph.parent() != nullptr : node.op->free_to_recompute) {
      continue;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      all.push_back({.shape = node.results[i], .place = place_of(node, i)});
    }
  }
}

}  // namespace

double Roofline::seconds() const {
  return std::max({compute_seconds, hbm_seconds, interconnect_seconds, host_seconds});
}

const char* Roofline::bound() const {
  if (host_seconds == seconds() && host_seconds > 0) {
    return "host memory";
  }
  if (compute_seconds >= hbm_seconds && compute_seconds >= interconnect_seconds) {
    return "compute";
  }
  return hbm_seconds >= interconnect_seconds ? "HBM" : "interconnect";
}

int64_t Report::limit() const {
  if (!refused.empty() && compiled.memory_limit > 0) {
    return compiled.memory_limit;
  }
  if (target.chip.family == Family::CUDA) {
    return static_cast<int64_t>(target.chip.memory_bytes * kGpuShare);
  }
  return compiled.memory_limit;
}

int64_t Report::host_bytes() const {
  const pjrt::CompiledMemory& m = compiled.memory;
  // Results in host memory replace arguments in host memory.
  return std::max(m.host_arguments, m.host_outputs) + m.host_temporary;
}

Roofline Report::roofline() const {
  const Chip& chip = target.chip;
  if (chip.flops == 0) {
    return {};
  }
  const double as_wide = flops.wide + flops.int8 / chip.int8_rate + flops.float8 / chip.float8_rate;
  const double host = std::max(compiled.traffic.host_reads,
                               compiled.traffic.host_bytes - compiled.traffic.host_reads);
  return {
      .compute_seconds = as_wide / bytes(target.devices) / chip.flops,
      .hbm_seconds = compiled.traffic.hbm_bytes / chip.memory_bandwidth,
      .interconnect_seconds = interconnect_bytes(compiled.traffic) / chip.interconnect_bandwidth,
      .host_seconds = host / chip.host_bandwidth};
}

std::string bytes_text(double bytes) {
  constexpr double kKiB = 1024.0;
  if (bytes >= kKiB * kKiB * kKiB * kKiB) {
    return fmt::format("{:.2f} TiB", bytes / (kKiB * kKiB * kKiB * kKiB));
  }
  if (bytes >= kKiB * kKiB * kKiB / 10) {
    return fmt::format("{:.2f} GiB", bytes / (kKiB * kKiB * kKiB));
  }
  if (bytes >= kKiB * kKiB / 10) {
    return fmt::format("{:.2f} MiB", bytes / (kKiB * kKiB));
  }
  return bytes >= kKiB ? fmt::format("{:.1f} KiB", bytes / kKiB) : fmt::format("{} B", bytes);
}

std::string to_text(const Report& report) {
  Lines lines;
  lines.add("plan", "{} for {}", report.what, report.target.name);
  lines.add("model", "{}", report.model);
  lines.add("inputs", "{}", report.inputs);
  const Chip& chip = report.target.chip;
  lines.add("devices", "{} {}{}", report.target.devices, chip.kind,
            chip.source.empty() ? "" : fmt::format(" (peaks: {})", chip.source));
  lines.add("mesh", "{}", mesh_text(report));
  if (!report.layout.empty()) {
    lines.add("batch", "{}", report.layout);
  }
  lines.add("remat", "{}", report.remat);
  for (const auto& [call, kernel] : report.attention) {
    lines.add(call == report.attention.front().call ? "attention" : "", "{}: {}",
              kernels::description(call), kernel);
  }
  lines.add("flags", "{}", flags_text(report.options));
  lines.add("per device", "");
  if (!report.refused.empty()) {
    lines.add("arguments", "{}", bytes_text(bytes(report.compiled.memory.arguments)));
    lines.add("temporaries", "at least {}", bytes_text(bytes(report.compiled.memory.temporary)));
    lines.add("total", "at least {}: does not fit", excess_text(report));
    add_excess(report, lines);
    return lines.take();
  }
  add_memory(report, lines);
  if (!report.fits()) {
    add_excess(report, lines);
  }
  add_work(report, lines);
  lines.add("compiled in", "{:.1f} s, with {} of this machine's memory ({} to build the program)",
            report.compiled.compile_seconds, bytes_text(bytes(report.compiled.peak_rss)),
            bytes_text(bytes(report.peak_rss)));
  if (!report.saved.empty()) {
    lines.add("saved as", "{}", report.saved);
  }
  return (report.tiles.empty() ? "" : to_text(report.tiles) + "\n") + lines.take();
}

io::Json to_json(const Report& report) {
  io::Json mesh = io::Json::object();
  for (const auto& [name, size] : report.mesh) {
    mesh.set(name, size);
  }
  io::Json flags = io::Json::object();
  for (const auto& [name, value] : report.options.flags) {
    flags.set(name, std::visit([](const auto& v) { return io::Json(v); }, value));
  }
  io::Json collectives = io::Json::object();
  for (const auto& [kind, sum] : report.compiled.traffic.collectives) {
    collectives.set(kind, io::Json::object().set("count", sum.count).set("bytes", sum.bytes));
  }
  io::Json attention = io::Json::object();
  for (const auto& [call, kernel] : report.attention) {
    attention.set(kernels::description(call), kernel);
  }
  std::vector<io::Json> largest;
  for (const LargeValue& value : report.largest) {
    largest.push_back(io::Json::object()
                          .set("place", value.place)
                          .set("shape", to_string(value.shape))
                          .set("bytes", value.shape.bytes()));
  }
  std::vector<io::Json> tried;
  for (const Remedy& remedy : report.tried) {
    tried.push_back(io::Json::object()
                        .set("change", remedy.change)
                        .set("fits", remedy.fits)
                        .set("total", remedy.total));
  }
  std::vector<io::Json> untried(report.untried.begin(), report.untried.end());
  const double devices = bytes(report.target.devices);
  const Roofline roofline = report.roofline();
  return io::Json::object()
      .set("target", report.target.name)
      .set("devices", report.target.devices)
      .set("program", report.what)
      .set("model", report.model)
      .set("inputs", report.inputs)
      .set("batch", report.layout)
      .set("mesh", std::move(mesh))
      .set("remat_policy", report.remat)
      .set("attention", std::move(attention))
      .set("flags", std::move(flags))
      .set("fits", report.fits())
      .set("refused", report.refused.empty() ? io::Json() : io::Json(report.refused))
      .set("largest", io::Json::array(std::move(largest)))
      .set("tried", io::Json::array(std::move(tried)))
      .set("not_tried", io::Json::array(std::move(untried)))
      .set("bytes", memory_json(report))
      .set("flops", report.flops.total() / devices)
      .set("model_flops", report.model_flops / devices)
      .set("hbm_traffic", report.compiled.traffic.hbm_bytes)
      .set("host_traffic", report.compiled.traffic.host_bytes)
      .set("collectives", std::move(collectives))
      .set("overlap", to_json(report.compiled.overlap))
      .set("unknown_loops", report.compiled.traffic.unknown_loops)
      .set("roofline", io::Json::object()
                           .set("seconds", roofline.seconds())
                           .set("compute", roofline.compute_seconds)
                           .set("hbm", roofline.hbm_seconds)
                           .set("interconnect", roofline.interconnect_seconds)
                           .set("host", roofline.host_seconds))
      .set("expected", to_json(report.compiled.expected))
      .set("tiles", report.tiles.empty() ? io::Json() : to_json(report.tiles))
      .set("compile_seconds", report.compiled.compile_seconds)
      .set("build_seconds", report.build_seconds)
      .set("host_memory", std::max(report.compiled.peak_rss, report.peak_rss))
      .set("compiler", report.compiled.platform_version)
      .set("fingerprint", report.compiled.fingerprint)
      .set("save_executable", report.saved);
}

std::string verdict(const Report& report) {
  std::vector<std::string> not_fitting;
  std::string remedy;
  for (const Remedy& tried : report.tried) {
    not_fitting.push_back(tried.change);
    if (tried.fits) {
      remedy = fmt::format("{} fits{}", tried.change,
                           tried.total > 0 ? ": " + bytes_text(bytes(tried.total)) : "");
    }
  }
  if (remedy.empty() && !not_fitting.empty()) {
    remedy = fmt::format("nor does it with {}; fewer pixels or frames, or more devices take less",
                         fmt::join(not_fitting, ", nor with "));
  } else if (remedy.empty() && !report.untried.empty()) {
    remedy = fmt::format("not tried, but these take less: {}", fmt::join(report.untried, "; "));
  } else if (remedy.empty()) {
    remedy = "fewer pixels or frames, or more devices take less";
  }
  return fmt::format("[plan] the {} does not fit {}: {} a device\n  {}", report.what,
                     report.target.name, excess_text(report), remedy);
}

std::vector<LargeValue> largest_values(const Graph& graph, std::span<const Tensor> outputs,
                                       size_t count) {
  std::vector<LargeValue> all;
  collect(graph, outputs, all);
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const LargeValue& v) { return v.shape.bytes(); });
  std::vector<LargeValue> out;
  for (LargeValue& each : all) {
    // A value and its conversion or transposition are one for the reader.
    const bool known = std::ranges::any_of(
        out, [&](const LargeValue& v) { return v.place == each.place && v.shape == each.shape; });
    if (!known && out.size() < count) {
      out.push_back(std::move(each));
    }
  }
  return out;
}

}  // namespace kinema::planning
