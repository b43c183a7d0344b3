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

/// Replaces the plain emission of a node by a kernel of the target: returns true when it wrote one.
using Lowering = std::function<bool(const Node& node, Emitter& out)>;

struct EmitOptions {
  /// Input index -> output index whose buffer it may take over (`tf.aliasing_output`).
  std::map<int64_t, int64_t> donate;
  /// The program's devices.
  MeshAxes mesh;
  std::vector<Sharding> output_shardings;  // empty, or one per output
  /// Indices of outputs that go to memory of the host.
  std::set<int64_t> host_outputs;
  /// The device has a host memory space: offloaded values go to `pinned_host`, and arguments wait
  /// where Graph::input says.
  bool host_offload = false;
  /// Tiles of what lies in memory of the host in one byte an element, in XLA's words; empty: the
  /// compiler's own. See kTpuByteTiles.
  std::string host_byte_tiles;
  /// A scan over F32 arguments in another dtype (parameters, in the dtype that the network works
  /// in) converts each step's slice, so that there is never a converted copy of them all; else they
  /// are converted before the loop, which is less work where memory is not short.
  bool convert_in_loops = false;
  /// Arguments of float8, donated ones excepted, are u8 in the text, and loops slice those
  /// that are stacks as bits. XLA's CPU compiler slices no float8: it would make float16 of a whole
  /// stack before the loop. Buffers are the same.
  bool float8_as_bits = false;
  /// Accelerators, whose own memory is small: host_offload and convert_in_loops. CPUs:
  /// float8_as_bits. A program that is compiled ahead of a run must use the same value as the run.
  void for_accelerator(bool yes) {
    host_offload = convert_in_loops = yes;
    float8_as_bits = !yes;
  }
  Lowering lowering;
};

/// The program as StableHLO text: function `main` from the graph's inputs to `outputs`. Only nodes
/// that an output needs are written; inputs keep their order even where unused. Locations carry the
/// model path.
std::string emit(const Graph& graph, std::span<const Tensor> outputs,
                 const EmitOptions& options = {});

/// TPUs slice a stack of bytes in memory of the host in tiles of 8 rows, where such arguments have
/// 32: of another kind, the whole stack would be brought to the device and laid out anew, at each
/// step. What is uploaded there has to lie so, too (pjrt/host_layout.h).
inline constexpr const char* kTpuByteTiles = "T(8,128)(4,1)";

/// `#sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>`
std::string sharding_text(const Sharding& sharding);

/// Where one step's slice of a loop's stacked value lies: `stack[index]`, index an s32 scalar.
struct StackedSlice {
  std::string stack;
  Shape shape;  // of the stack
  std::string index;
};

/// What an op's `emit` writes with.
class Emitter {
 public:
  explicit Emitter(const EmitOptions& options) : options_(options) {}

  const EmitOptions& options() const { return options_; }
  /// `%12` or, for result 1 of a node with several, `%12#1`.
  const std::string& name(Tensor x) const;
  /// How many operands of the nodes being written refer to `x`; outputs count too.
  int64_t uses(Tensor x) const;
  /// Makes `x` print as `text` from here on.
  void bind(Tensor x, std::string text);
  /// Says of a bound tensor that it is a copy of this slice, which a kernel may read in its place.
  void bind_slice(Tensor x, StackedSlice slice);
  /// What bind_slice said, or null.
  const StackedSlice* slice_of(Tensor x) const;
  /// Says of a bound tensor of float8 that `text` are its bits, U8 in its shape.
  void bind_bits(Tensor x, std::string text) { bits_[{&x.node(), x.result()}] = std::move(text); }
  /// What bind_bits said, or null.
  const std::string* bits(Tensor x) const;
  /// `x` as another type of as many bits.
  std::string bitcast(const std::string& x, const Shape& from, const Shape& to);
  /// Says of a bound tensor that it lies in memory of the host.
  void bind_memory(Tensor x, Memory memory) { memories_[{&x.node(), x.result()}] = memory; }
  Memory memory(Tensor x) const;
  /// Writes the move of a value to memory of the host or to the device's, and returns its name.
  std::string move(const std::string& x, const Shape& shape, bool to_host);
  /// A name not used before, `%13`.
  std::string fresh();
  /// Appends one line, indented.
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    raw_line(fmt::format(format, std::forward<Args>(args)...));
  }
  /// ` loc("blocks/attn1/to_q")` of a node, or nothing.
  std::string location(const Node& node) const;
  /// Writes `"mlir"(operands) {attributes} : (types) -> types` for a node and binds its results.
  void generic(const Node& node, const std::string& mlir, const std::string& attributes = "");
  /// Writes a node as its op says.
  void plain(const Node& node);
  /// Writes the nodes of a body that `outputs` need; its inputs must be bound.
  void body(const Graph& graph, std::span<const Tensor> outputs);
  void indent(int64_t by) { indent_ += by; }
  /// A graph whose nodes were written must live as long as this.
  void keep(std::shared_ptr<const Graph> graph) { kept_.push_back(std::move(graph)); }
  /// How many manual regions (graph/manual.h) surround what is being written.
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
