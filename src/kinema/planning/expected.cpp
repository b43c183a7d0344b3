#include "kinema/planning/expected.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "kinema/kernels/gpu/cost.h"
#include "kinema/kernels/tpu/cost.h"
#include "kinema/planning/traffic.h"

namespace kinema::planning {
namespace {

using pjrt::HloInstruction;
using pjrt::HloModule;
using pjrt::HloShape;

/// The fraction of the published bandwidth that large copies reach: 3.02 to 3.09 of 3.35 TB/s were
/// measured on H100. Assumed for TPUs too.
constexpr double kMemoryShare = 0.9;
/// The fraction of the published peak that large bf16 products reach: 780 of 989 TFLOP/s on H100
/// (gist.github.com/Chillee/2ec89696db8b7ed1c24461159e325405). Assumed for other GPUs too.
constexpr double kProductShare = 0.79;

double elements(const HloShape& shape) {
  const HloShape* array = &shape;
  while (!array->parts.empty()) {
    array = array->parts.data();
  }
  return static_cast<double>(array->elements());
}

/// The number after `"name":"` in a configuration; 0 if it is missing.
double number_after(const std::string& config, std::string_view name) {
  const size_t at = config.find(name);
  if (at == std::string::npos) {
    return 0;
  }
  const size_t digit = config.find_first_of("0123456789", at + name.size());
  int64_t value = 0;
  if (digit != std::string::npos) {
    std::from_chars(config.data() + digit, config.data() + config.size(), value);
  }
  return static_cast<double>(value);
}

/// The contracted axes of the first operand of a library's product.
std::vector<int64_t> contracted_axes(const HloInstruction& one) {
  if (one.opcode == "dot") {
    return one.contracted;
  }
  constexpr std::string_view kKey = "\"lhs_contracting_dimensions\":[";
  const size_t at = one.backend_config.find(kKey);
  if (at == std::string::npos) {
    return {};
  }
  std::vector<int64_t> axes;
  for (size_t i = at + kKey.size(); i < one.backend_config.size() && one.backend_config[i] != ']';
       ++i) {
    if (const char c = one.backend_config[i]; c >= '0' && c <= '9') {
      axes.push_back(c - '0');
    }
  }
  return axes;
}

bool is_convolution(const HloInstruction& one) { return one.target.starts_with("__cudnn$conv"); }

bool is_product(const HloInstruction& one) {
  return one.opcode == "dot" || one.target.starts_with("__cublas$") || is_convolution(one);
}

/// FLOPs of cuDNN's call. Each output of the forward convolution is a sum over a kernel of one
/// output channel; kernels are [o, h, w, c] or [o, c, h, w].
double convolution_flops(const Place& at) {
  const HloInstruction& one = at.instruction();
  if (one.operands.size() < 2) {
    return 0;
  }
  const auto given = [&](size_t i) -> const HloShape& {
    return at.computation->instructions[one.operands[i]].shape;
  };
  const HloShape& result = one.shape.parts.empty() ? one.shape : one.shape.parts.front();
  const bool to_kernel = one.target.ends_with("BackwardFilter");
  const bool to_input = one.target.ends_with("BackwardInput");
  const HloShape& kernel = to_kernel ? result : given(1);
  const HloShape& made = to_kernel ? given(1) : to_input ? given(0) : result;
  const int64_t channels = kernel.dims.empty() ? 0 : kernel.dims.front();
  return channels == 0 ? 0 : 2 * elements(made) * elements(kernel) / static_cast<double>(channels);
}

double product_flops(const Place& at) {
  const HloInstruction& one = at.instruction();
  if (is_convolution(one)) {
    return convolution_flops(at);
  }
  if (one.operands.empty()) {
    return 0;
  }
  const HloShape& lhs = at.computation->instructions[one.operands[0]].shape;
  double summed = 1;
  for (const int64_t axis : contracted_axes(one)) {
    summed *= axis < static_cast<int64_t>(lhs.dims.size())
                  ? static_cast<double>(lhs.dims[static_cast<size_t>(axis)])
                  : 1.0;
  }
  return 2 * elements(one.shape) * summed;
}

double product_rate(const Chip& chip, const Place& at) {
  const HloShape& lhs = at.computation->instructions[at.instruction().operands[0]].shape;
  const double rate = lhs.type == "s8"             ? chip.int8_rate
                      : lhs.type.starts_with("f8") ? chip.float8_rate
                      : lhs.type == "f32"          ? 0.5
                                                   : 1.0;
  return kProductShare * chip.flops * rate;
}

std::optional<kernels::KernelCost> attention_cost(const Place& at, const Chip& chip) {
  const HloInstruction& one = at.instruction();
  if (one.target == "tpu_custom_call") {
    return kernels::tpu_kernel_cost(one.backend_config, chip.name);
  }
  return one.opcode == "custom-call" && chip.family == Family::CUDA
             ? kernels::gpu_kernel_cost(*at.computation, one, chip.name)
             : std::nullopt;
}

/// The fraction of the link's published rate that copies between pinned host memory and a device
/// reach: usually 25 to 26 of 32 GB/s over PCIe 4.0.
constexpr double kHostShare = 0.8;

class Clock {
 public:
  Clock(const HloModule& program, const Chip& chip) : program_(program), chip_(chip) {}

  void run(const Place& at) {
    const HloInstruction& one = at.instruction();
    start(at);
    moved_ += at.times * moving(at);
    if (!collective_kind(one.opcode).empty()) {
      const double took =
          at.times * collective(at).interconnect_bytes / chip_.interconnect_bandwidth;
      if (const HloInstruction* start = start_of(at)) {
        Started& begun = started_[start];
        begun.took += took;
        begun.done_at = now() + begun.took;
      } else {
        out_.waiting_seconds += took;
      }
    } else if (const HostMove move = host_move(program_, at); move.bytes > 0) {
      host_copy(at, move);
    } else if (one.opcode == "copy-start") {
      const double took = at.times * moving(at);
      started_[&one] = {.done_at = now() + took, .took = took};
    } else if (const HloInstruction* start = awaited(at)) {
      finish(start);
    } else {
      work(at);
    }
  }
  ExpectedTime take() {
    // Concurrent copies use the same bandwidth.
    out_.busy_seconds = std::max(out_.busy_seconds, moved_);
    return std::move(out_);
  }

 private:
  struct Started {
    double done_at = 0;
    double took = 0;
  };

  double now() const { return out_.busy_seconds + out_.waiting_seconds; }

  double moving(const Place& at) const {
    return hbm_bytes(program_, at) / (chip_.memory_bandwidth * kMemoryShare);
  }

  /// Adds the time to start a kernel: it starts only after the previous one has ended.
  void start(const Place& at) {
    if (chip_.kernel_start == 0 || !is_launched(at)) {
      return;
    }
    const double took = at.times * chip_.kernel_start;
    out_.starts += at.times;
    out_.start_seconds += took;
    out_.busy_seconds += took;
  }

  /// The link copies one after the other in each direction; the cores wait for copies that are not
  /// asynchronous.
  void host_copy(const Place& at, const HostMove& move) {
    const HloInstruction& one = at.instruction();
    double& free_at = link_free_at_[move.reads ? 0 : 1];
    const double begin = std::max(now(), free_at);
    const double took = at.times * move.bytes / (chip_.host_bandwidth * kHostShare);
    free_at = begin + took;
    const bool starts = one.opcode == "copy-start" || one.opcode == "async-start";
    const HloInstruction* start = starts ? &one : at.inside;
    if (start != nullptr) {
      started_[start] = {.done_at = free_at, .took = free_at - now()};
    } else {
      out_.waiting_seconds += free_at - now();
    }
  }

  /// Adds the wait for the part of a copy that is not done yet.
  void finish(const HloInstruction* start) {
    const auto found = started_.find(start);
    if (found != started_.end()) {
      out_.waiting_seconds += std::clamp(found->second.done_at - now(), 0.0, found->second.took);
      started_.erase(found);
    }
  }

  /// True for an attention kernel.
  bool kernel(const Place& at) {
    const auto cost = attention_cost(at, chip_);
    if (!cost) {
      return false;
    }
    const double peak = cost->flops / chip_.flops;
    const double seconds = std::max(peak / cost->peak_share, moving(at));
    out_.busy_seconds += at.times * seconds;
    auto sum = std::ranges::find(out_.kernels, cost->name, &ExpectedTime::Kernel::name);
    if (sum == out_.kernels.end()) {
      sum = out_.kernels.insert(sum, {.name = cost->name});
    }
    if (!cost->note.empty()) {
      out_.note = cost->note;
    }
    sum->count += at.times;
    sum->flops += at.times * cost->flops;
    sum->seconds += at.times * seconds;
    sum->peak_seconds += at.times * peak;
    return true;
  }

  void work(const Place& at) {
    const HloInstruction& one = at.instruction();
    if (kernel(at)) {
      return;
    }
    if (!at.fused) {
      beside_ = moving(at);
      const double cycles = number_after(one.backend_config, "\"estimated_cycles\":");
      const double computing = chip_.family == Family::TPU ? cycles / chip_.clock : 0.0;
      out_.busy_seconds += at.times * std::max(beside_, computing);
    }
    if (chip_.family == Family::CUDA && is_product(one)) {
      // Inside a fusion, it overlaps with the fusion's memory accesses.
      const double computing = product_flops(at) / product_rate(chip_, at);
      out_.busy_seconds += at.times * std::max(0.0, computing - beside_);
      beside_ = std::max(0.0, beside_ - computing);
    }
  }

  const HloModule& program_;
  const Chip& chip_;
  ExpectedTime out_;
  std::map<const HloInstruction*, Started> started_;
  std::array<double, 2> link_free_at_{};  // from the host, to the host
  double moved_ = 0;
  double beside_ = 0;  // seconds of memory accesses with which products may overlap
};

}  // namespace

bool is_attention_kernel(const Place& at, const Chip& chip) {
  return attention_cost(at, chip).has_value();
}

ExpectedTime expected_time(const HloModule& program, const Chip& chip) {
  if (chip.flops == 0) {
    return {};
  }
  Clock clock(program, chip);
  walk(program, [&](const Place& at) { clock.run(at); });
  return clock.take();
}

io::Json to_json(const ExpectedTime& expected) {
  io::Json kernels = io::Json::array({});
  for (const ExpectedTime::Kernel& each : expected.kernels) {
    kernels.append(io::Json::object()
                       .set("name", each.name)
                       .set("count", each.count)
                       .set("flops", each.flops)
                       .set("seconds", each.seconds)
                       .set("peak_seconds", each.peak_seconds));
  }
  return io::Json::object()
      .set("busy_seconds", expected.busy_seconds)
      .set("waiting_seconds", expected.waiting_seconds)
      .set("starts", expected.starts)
      .set("start_seconds", expected.start_seconds)
      .set("kernels", std::move(kernels))
      .set("note", expected.note);
}

ExpectedTime read_expected_time(const io::Json& json) {
  ExpectedTime out{.busy_seconds = json.at("busy_seconds").as_number(),
                   .waiting_seconds = json.at("waiting_seconds").as_number(),
                   .starts = json.at("starts").as_number(),
                   .start_seconds = json.at("start_seconds").as_number(),
                   .note = json.at("note").as_string()};
  for (const io::Json& each : json.at("kernels").items()) {
    out.kernels.push_back({.name = each.at("name").as_string(),
                           .count = each.at("count").as_number(),
                           .flops = each.at("flops").as_number(),
                           .seconds = each.at("seconds").as_number(),
                           .peak_seconds = each.at("peak_seconds").as_number()});
  }
  return out;
}

}  // namespace kinema::planning
