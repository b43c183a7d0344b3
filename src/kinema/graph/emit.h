#pragma once

#include <fmt/core.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/graph/graph.h"

namespace kinema {

/// Replaces the emission of a node by a kernel of the target. Returns true if it wrote one.
using Lowering = std::function<bool(const Node& node, Emitter& out)>;

struct EmitOptions {
  /// Input index -> index of the output that reuses its buffer (`tf.aliasing_output`).
  std::map<int64_t, int64_t> donate;
  /// The program's devices.
  MeshAxes mesh;
  std::vector<Sharding> output_shardings;  // empty, or one per output
  /// Indices of outputs that go to host memory.
  std::set<int64_t> host_outputs;
  /// The device has a host memory space: offloaded values go to `pinned_host`, and arguments have
  /// the memory of Graph::input.
  bool host_offload = false;
  /// XLA's tile format of one-byte elements in host memory; empty: the compiler's default. See
  /// kTpuByteTiles.
  std::string host_byte_tiles;
  /// Scans over F32 arguments that are converted (parameters to the network's dtype) convert each
  /// step's slice, so that there is never a converted copy of the whole stack. If false, the stack
  /// is converted before the loop, which is less work if memory is not scarce.
  bool convert_in_loops = false;
  /// float8 arguments, except donated ones, are u8 in the program, and loops slice the stacks among
  /// them as bits: XLA's CPU compiler cannot slice float8, and would convert a whole stack to
  /// float16 before the loop. The buffers are the same.
  bool float8_as_bits = false;
  /// Accelerators, whose memory is small, set host_offload and convert_in_loops; CPUs set
  /// float8_as_bits. A program that is compiled ahead of a run must use the same value as the run.
  void for_accelerator(bool yes) {
    host_offload = convert_in_loops = yes;
    float8_as_bits = !yes;
  }
  Lowering lowering;
};

/// The program as StableHLO text: function `main` from the graph's inputs to `outputs`. Only nodes
/// that an output depends on are written; unused inputs stay in the signature. Locations contain
/// the model path.
std::string emit(const Graph& graph, std::span<const Tensor> outputs,
                 const EmitOptions& options = {});

/// TPUs slice a stack of bytes in host memory in tiles of 8 rows; the default tile has 32 rows.
/// With the default, each step would copy the whole stack to the device and change its layout.
/// Uploads must use this layout too (pjrt/host_layout.h).
inline constexpr const char* kTpuByteTiles = "T(8,128)(4,1)";

/// `#sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>`
std::string sharding_text(const Sharding& sharding);

/// The source of one step's slice of a loop's stack: `stack[index]`, index an s32 scalar.
struct StackedSlice {
  std::string stack;
  Shape shape;  // of the stack
  std::string index;
};

/// The writer for an op's `emit`.
class Emitter {
 public:
  explicit Emitter(const EmitOptions& options) : options_(options) {}

  const EmitOptions& options() const { return options_; }
  /// `%12` or, for result 1 of a node with several, `%12#1`.
  const std::string& name(Tensor x) const;
  /// The number of operands, among the nodes being written, that refer to `x`, plus outputs.
  int64_t uses(Tensor x) const;
  /// From now on `x` is written as `text`.
  void bind(Tensor x, std::string text);
  /// Records that a bound tensor is a copy of this slice, which a kernel may read instead.
  void bind_slice(Tensor x, StackedSlice slice);
  /// The slice recorded by bind_slice, or null.
  const StackedSlice* slice_of(Tensor x) const;
  /// Records that `text` is the bits of a bound float8 tensor: U8 of the same shape.
  void bind_bits(Tensor x, std::string text) { bits_[{&x.node(), x.result()}] = std::move(text); }
  /// The name recorded by bind_bits, or null.
  const std::string* bits(Tensor x) const;
  /// `x` bitcast to another type of the same width.
  std::string bitcast(const std::string& x, const Shape& from, const Shape& to);
  /// Records the memory of a bound tensor.
  void bind_memory(Tensor x, Memory memory) { memories_[{&x.node(), x.result()}] = memory; }
  Memory memory(Tensor x) const;
  /// Writes a move of a value to host memory or to device memory, and returns the result's name.
  std::string move(const std::string& x, const Shape& shape, bool to_host);
  /// A name not used before, `%13`.
  std::string fresh();
  /// Appends one line, indented.
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    raw_line(fmt::format(format, std::forward<Args>(args)...));
  }
  /// ` loc("blocks/attn1/to_q")` of a node, or an empty string.
  std::string location(const Node& node) const;
  /// Writes `"mlir"(operands) {attributes} : (types) -> types` for a node and binds its results.
  void generic(const Node& node, const std::string& mlir, const std::string& attributes = "");
  /// Writes a node without a lowering: with its op's `mlir` or `emit`.
  void plain(const Node& node);
  /// Writes those nodes of a body that `outputs` depend on; its inputs must be bound.
  void body(const Graph& graph, std::span<const Tensor> outputs);
  void indent(int64_t by) { indent_ += by; }
  /// Keeps a graph alive whose nodes were written.
  void keep(std::shared_ptr<const Graph> graph) { kept_.push_back(std::move(graph)); }
  /// The number of manual regions (graph/manual.h) around the current position.
  int64_t manual_depth() const { return manual_depth_; }
  void enter_manual(int64_t by) { manual_depth_ += by; }
  std::string take() { return std::move(text_); }

 private:
  void raw_line(const std::string& text);

  const EmitOptions& options_;
  std::map<std::pair<const Node*, int64_t>, std::string> names_;
  std::map<std::pair<const Node*, int64_t>, int64_t> uses_;
  std::map<std::pair<const Node*, int64_t>, StackedSlice> slices_;
  std::map<std::pair<const Node*, int64_t>, std::string> bits_;
  std::map<std::pair<const Node*, int64_t>, Memory> memories_;
  std::vector<std::shared_ptr<const Graph>> kept_;
  std::string text_;
  int64_t next_ = 0;
  int64_t indent_ = 1;
  int64_t manual_depth_ = 0;
};

}  // namespace kinema
