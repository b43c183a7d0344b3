#include "kinema/runtime/pieces.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/graph/body.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/piece_program.h"

namespace kinema::runtime {
namespace {

/// The block of a node: `blocks.3` for `blocks.3/attn1/to_q` and for `grad/blocks.3`.
std::string block_of(const std::string& scope) {
  constexpr std::string_view kGradient = "grad/";
  const size_t from = scope.starts_with(kGradient) ? kGradient.size() : 0;
  return scope.substr(0, scope.find('/', from));
}

/// True for a loop over blocks or over parts of a batch, not for one within a block.
bool is_loop(const Node& node) { return node.op == &kScan && block_of(*node.scope) == *node.scope; }

bool is_leaf(const Node& node) { return node.inputs.empty() && node.op != &kInput; }

Tensor result_of(const Node& node, size_t i) {
  return const_cast<Node&>(node).result(static_cast<int64_t>(i));
}

std::vector<TensorKey> keys_of(std::span<const Tensor> tensors) {
  std::vector<TensorKey> keys;
  for (const Tensor x : tensors) {
    keys.push_back(key_of(x));
  }
  return keys;
}

}  // namespace

/// The pieces of one graph: of the program, or of a loop's body. The graph need not outlive them:
/// after compilation its values are only keys.
struct Pieces::Level {
  /// A loop's node is a separate piece.
  struct Loop {
    std::unique_ptr<Level> body;
    size_t carries = 0;
    int64_t length = 0;
    bool reverse = false;
    std::map<size_t, std::unique_ptr<Program>> split, join;  // by input and by result
  };
  struct Piece {
    std::string block;
    std::vector<TensorKey> takes;
    std::vector<TensorKey> gives;
    std::vector<TensorKey> dead;  // values that are not used after it
    std::unique_ptr<Program> program;
    std::unique_ptr<Loop> loop;  // instead of a program
    // During construction:
    std::vector<const Node*> nodes;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };

  std::vector<TensorKey> takes;
  std::vector<TensorKey> gives;
  std::vector<Piece> pieces;
  // Copies of outputs that are also used elsewhere: the caller owns what it gets.
  std::map<size_t, std::unique_ptr<Program>> copies;

  Level(const Graph& graph, std::span<const Tensor> wanted, PartCompiler& compile,
        const std::map<int64_t, int64_t>& donate = {});

  std::vector<Value> run(std::vector<Value> arguments) const;
  void collect_names(std::vector<std::string>& out) const;

 private:
  void cut(const Graph& graph);
  void connect();
  void compile_piece(Piece& piece, PartCompiler& compile, const std::map<int64_t, int64_t>& donate);
  static void compile_loop(Piece& piece, PartCompiler& compile);
  static std::vector<Value> run_loop(const Loop& loop, const std::vector<Value>& arguments);

  std::vector<Tensor> outputs;  // during construction
};

Pieces::Level::Level(const Graph& graph, std::span<const Tensor> wanted, PartCompiler& compile,
                     const std::map<int64_t, int64_t>& donate)
    : takes(keys_of(graph.inputs())),
      gives(keys_of(wanted)),
      outputs(wanted.begin(), wanted.end()) {
  cut(graph);
  connect();
  for (Piece& piece : pieces) {
    if (is_loop(*piece.nodes.front())) {
      compile_loop(piece, compile);
    } else {
      compile_piece(piece, compile, donate);
    }
    piece.takes = keys_of(piece.inputs);
    piece.gives = keys_of(piece.outputs);
    piece.nodes.clear();
    piece.inputs.clear();
    piece.outputs.clear();
  }
  std::set<TensorKey> given;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].node().op == &kInput || !given.insert(key_of(outputs[i])).second) {
      Graph copy;
      const std::vector<Tensor> same{copy.input(outputs[i].shape())};
      copies[i] = compile(copy, same, "copy");
    }
  }
  outputs.clear();
}

/// Consecutive nodes of one block form a piece. Constants belong to the pieces that use them,
/// unless a loop uses them or they are outputs.
void Pieces::Level::cut(const Graph& graph) {
  std::set<const Node*> needed;
  std::set<const Node*> asked;
  for (const Tensor x : outputs) {
    needed.insert(&x.node());
    asked.insert(&x.node());
  }
  for (const Node& node : graph.nodes()) {
    for (const Tensor x : node.inputs) {
      if (is_loop(node)) {
        asked.insert(&x.node());
      }
    }
  }
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (needed.contains(&*node)) {
      for (const Tensor x : node->inputs) {
        needed.insert(&x.node());
      }
    }
  }
  for (const Node& node : graph.nodes()) {
    if (!needed.contains(&node) || node.op == &kInput ||
        (is_leaf(node) && !asked.contains(&node))) {
      continue;
    }
    const std::string block = block_of(*node.scope);
    if (pieces.empty() || is_loop(node) || is_loop(*pieces.back().nodes.front()) ||
        pieces.back().block != block) {
      pieces.emplace_back().block = block;
    }
    pieces.back().nodes.push_back(&node);
  }
}

/// Finds the values that pass from piece to piece, and their last uses.
void Pieces::Level::connect() {
  std::map<TensorKey, size_t> last;  // the piece that reads it last
  for (size_t p = 0; p < pieces.size(); ++p) {
    Piece& piece = pieces[p];
    const std::set<const Node*> own(piece.nodes.begin(), piece.nodes.end());
    std::set<TensorKey> seen;
    for (const Node* node : piece.nodes) {
      for (const Tensor x : node->inputs) {
        const bool from_outside = !own.contains(&x.node()) && !is_leaf(x.node());
        const bool of_loop = is_loop(*node);  // a loop needs all of its inputs, in order
        if (of_loop || (from_outside && seen.insert(key_of(x)).second)) {
          piece.inputs.push_back(x);
          last[key_of(x)] = p;
        }
      }
    }
  }
  std::set<TensorKey> kept;
  for (const Tensor x : outputs) {
    kept.insert(key_of(x));
  }
  for (size_t p = 0; p < pieces.size(); ++p) {
    for (const Node* node : pieces[p].nodes) {
      for (size_t i = 0; i < node->results.size(); ++i) {
        const Tensor result = result_of(*node, i);
        const auto read = last.find(key_of(result));
        const bool later = read != last.end() && read->second > p;
        if (later || kept.contains(key_of(result)) || is_loop(*node)) {
          pieces[p].outputs.push_back(result);
        }
      }
    }
  }
  for (const auto& [key, p] : last) {
    if (!kept.contains(key)) {
      pieces[p].dead.push_back(key);
    }
  }
}

void Pieces::Level::compile_piece(Piece& piece, PartCompiler& compile,
                                  const std::map<int64_t, int64_t>& donate) {
  Graph graph;
  GraphCopy copier(graph);
  std::map<int64_t, int64_t> own;  // donations by the positions in this piece
  for (size_t i = 0; i < piece.inputs.size(); ++i) {
    const Tensor x = piece.inputs[i];
    const bool is_input = x.node().op == &kInput;
    copier.add_mapping(x, graph.input(x.shape(), is_input ? x.node().get<InputAttrs>().name : ""));
    if (!is_input || std::ranges::count(piece.dead, key_of(x)) == 0) {
      continue;  // used again, or not the caller's
    }
    if (const auto found = donate.find(x.node().get<InputAttrs>().index); found != donate.end()) {
      const auto output =
          std::ranges::find(piece.outputs, outputs[static_cast<size_t>(found->second)]);
      if (output != piece.outputs.end()) {
        own[static_cast<int64_t>(i)] = output - piece.outputs.begin();
      }
    }
  }
  std::vector<Tensor> results;
  for (const Tensor x : piece.outputs) {
    results.push_back(copier(x));
  }
  piece.program = compile(graph, results, piece.block, std::move(own));
}

void Pieces::Level::compile_loop(Piece& piece, PartCompiler& compile) {
  const Node& node = *piece.nodes.front();
  const Body& body = *node.get<std::shared_ptr<Body>>();
  piece.loop = std::make_unique<Loop>();
  piece.loop->body = std::make_unique<Level>(*body.graph, body.outputs, compile);
  piece.loop->carries = body.carries;
  piece.loop->length = body.length;
  piece.loop->reverse = body.reverse;
  for (size_t i = body.carries; i < body.carries + body.xs; ++i) {
    piece.loop->split[i] = compile_split(node.shape(i), compile);
  }
  for (size_t i = body.carries; i < node.results.size(); ++i) {
    piece.loop->join[i] = compile_join(node.results[i], compile);
  }
}

std::vector<Value> Pieces::Level::run_loop(const Loop& loop, const std::vector<Value>& arguments) {
  std::map<size_t, std::vector<Value>> slices;
  for (const auto& [i, program] : loop.split) {
    slices[i] = run_program(*program, {&arguments[i], 1});
  }
  std::vector<Value> now = arguments;  // carry, slices, captures
  std::map<size_t, std::vector<Value>> stacked;
  for (const auto& [i, program] : loop.join) {
    stacked[i].resize(static_cast<size_t>(loop.length));
  }
  for (int64_t turn = 0; turn < loop.length; ++turn) {
    const auto step = static_cast<size_t>(loop.reverse ? loop.length - 1 - turn : turn);
    for (auto& [i, values] : slices) {
      now[i] = std::move(values[step]);
    }
    std::vector<Value> results = loop.body->run(now);
    for (size_t i = 0; i < results.size(); ++i) {
      (i < loop.carries ? now[i] : stacked[i][step]) = std::move(results[i]);
    }
  }
  std::vector<Value> out(now.begin(), now.begin() + static_cast<int64_t>(loop.carries));
  for (const auto& [i, program] : loop.join) {
    out.push_back(run_program(*program, stacked[i]).front());
  }
  return out;
}

std::vector<Value> Pieces::Level::run(std::vector<Value> arguments) const {
  std::map<TensorKey, Value> values;
  for (size_t i = 0; i < takes.size(); ++i) {
    values[takes[i]] = std::move(arguments[i]);
  }
  for (const Piece& piece : pieces) {
    std::vector<Value> given;
    for (const TensorKey& key : piece.takes) {
      given.push_back(values.at(key));
    }
    const trace::Scope span(piece.block.empty() ? "step" : piece.block);
    std::vector<Value> results =
        piece.loop ? run_loop(*piece.loop, given) : run_program(*piece.program, given);
    for (size_t i = 0; i < results.size(); ++i) {
      values[piece.gives[i]] = std::move(results[i]);
    }
    for (const TensorKey& key : piece.dead) {
      values.erase(key);
    }
  }
  std::vector<Value> out;
  for (const TensorKey& key : gives) {
    out.push_back(values.at(key));
  }
  for (const auto& [i, program] : copies) {
    out[i] = run_program(*program, {&out[i], 1}).front();
  }
  return out;
}

void Pieces::Level::collect_names(std::vector<std::string>& out) const {
  for (const Piece& piece : pieces) {
    if (piece.loop) {
      piece.loop->body->collect_names(out);
    } else {
      out.push_back(piece.program->name());
    }
  }
}

Pieces::Pieces(const pjrt::Client& client, const Graph& graph, std::span<const Tensor> outputs,
               const ProgramOptions& options)
    : device_id_(client.addressable_devices().front().id()) {
  check(options.emit.mesh.axes.empty(),
        "[{}] jit is false, which runs on one device, but the program is for a mesh of several\n"
        "  set jit=true, or the parallelism to 1",
        options.name);
  check(options.saved.empty(),
        "[{}] jit is false, which compiles block by block: {} holds a whole program", options.name,
        options.saved);
  PartCompiler compile(client, options, report_);
  level_ = std::make_unique<Level>(graph, outputs, compile, options.emit.donate);
  for (const Tensor x : graph.inputs()) {
    report_.memory.arguments += x.shape().bytes();
  }
}

Pieces::~Pieces() = default;

std::vector<pjrt::Buffer> Pieces::run(std::span<const pjrt::Buffer* const> arguments) const {
  std::vector<Value> given;
  for (const pjrt::Buffer* each : arguments) {
    // Owned by the caller: not freed here, and changed only if donated.
    given.push_back(Value(const_cast<pjrt::Buffer*>(each), [](pjrt::Buffer*) {}));
  }
  std::vector<pjrt::Buffer> out;
  for (const Value& value : level_->run(std::move(given))) {
    out.push_back(std::move(*value));
  }
  return out;
}

std::vector<std::string> Pieces::names() const {
  std::vector<std::string> out;
  level_->collect_names(out);
  return out;
}

}  // namespace kinema::runtime
