#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/graph.h"
#include "kinema/mesh/placement.h"
#include "kinema/nn/dropout.h"
#include "kinema/nn/quantized.h"

namespace kinema::nn {

/// How a parameter starts when training from scratch.
struct Init {
  enum class Kind { ZEROS, CONSTANT, NORMAL, TRUNCATED_NORMAL, UNIFORM, XAVIER_UNIFORM };
  Kind kind = Kind::ZEROS;
  /// CONSTANT: the value; NORMAL: standard deviation; TRUNCATED_NORMAL: that of the normal
  /// distribution before values beyond two deviations are drawn again; UNIFORM: bound;
  /// XAVIER_UNIFORM: gain.
  double scale = 0.0;
  /// If not empty, one value per row, added to row i of the last but one axis of a layer. For a
  /// layer with one axis, added to the i-th of equal parts.
  std::vector<double> row_offsets = {};

  static Init zeros() { return {}; }
  static Init ones() { return {.kind = Kind::CONSTANT, .scale = 1.0}; }
  static Init normal(double deviation) { return {.kind = Kind::NORMAL, .scale = deviation}; }
  /// Uniform in +-bound.
  static Init uniform(double bound) { return {.kind = Kind::UNIFORM, .scale = bound}; }
  /// Uniform in +-gain sqrt(6 / (fan_in + fan_out)); the fans of [out, in...] flattened to [out,
  /// in].
  static Init xavier(double gain = 1.0) { return {.kind = Kind::XAVIER_UNIFORM, .scale = gain}; }
};

/// One parameter as it is stored on the device.
struct ParamSpec {
  /// The checkpoint's key (diffusers naming). With `layers` > 0, `{}` replaces the layer number.
  std::string name;
  /// Stored shape, dtype included; stacked parameters have a leading axis of size `layers`.
  Shape shape;
  /// > 0: one tensor holds the layers 0 .. layers-1 of a scanned stack.
  int64_t layers = 0;
  /// Logical axis per dimension of one layer ("" = none), for the sharding rules.
  std::vector<std::string> axes;
  Init init;
  /// False: frozen.
  bool trained = true;
  /// Multiplies the learning rate.
  double rate = 1.0;
  /// The memory that it is in between programs.
  Memory memory = Memory::DEVICE;

  /// The checkpoint's key of one layer; `name` if the parameter is not stacked.
  std::string key(int64_t layer) const;
  /// The number of checkpoint tensors that it holds: `layers`, or 1.
  int64_t count() const { return layers > 0 ? layers : 1; }
  /// The shape of one layer.
  Shape layer_shape() const;
  /// The logical axis of each dimension as stored.
  std::vector<std::string> logical_axes() const;
  /// Part of an adapter (see Params::low_rank): checkpoints do not contain it.
  bool is_low_rank() const;
  /// The scales of a weight that is stored as codes (see Params::stored_scale): checkpoints contain
  /// the weight only.
  bool is_stored_scale() const { return name.ends_with(kStoredScale); }
  /// The name of the weight that these scales belong to.
  std::string_view weight_of_scale() const {
    return std::string_view(name).substr(0, name.size() - std::string_view("_scale").size());
  }
  static constexpr std::string_view kStoredScale = ".weight_scale";
  /// Its sharding over a mesh: the same for all layers of a stack.
  Sharding sharding(const mesh::Placement& placement) const;
  /// The parameter as a program argument, with `prefix` before its name.
  Tensor input(Graph& graph, const mesh::Placement& placement,
               const std::string& prefix = "") const;
};

/// The name that all layers of a stack share, from one layer's name: `{}` replaces the number.
/// Other names are returned unchanged.
std::string stacked_name(std::string_view key);

/// How an adapter that is trained, or applied without merging it, changes the weight of its layer.
enum class AdapterKind : uint8_t {
  LORA,  // a low-rank product (arXiv:2106.09685)
  DORA,  // the same, and rows rescaled to trained norms (arXiv:2402.09353)
  LOHA,  // the product by elements of two low-rank products (arXiv:2108.06098)
  LOKR,  // a Kronecker product, the second factor of which is a low-rank product (arXiv:2309.14859)
};

/// The sizes of a linear layer's adapter.
struct AdapterForm {
  AdapterKind kind = AdapterKind::LORA;
  int64_t rank = 0;  // 0: the layer has no adapter
  // LOKR: the sizes of the first factor, and whether the second is stored as one matrix.
  int64_t w1_rows = 1;
  int64_t w1_columns = 1;
  bool whole_w2 = false;
};

/// A node of the parameter tree: weights are opened by the checkpoint's own key path, `(params /
/// "attn1" / "to_q").weight("weight", {d, d}, ...)`.
class Params {
 public:
  /// The implementation of the tree: records specs, or returns the tensors of a graph.
  class Source {
   public:
    virtual ~Source() = default;
    virtual Tensor parameter(const std::string& key, const Dims& dims,
                             const std::vector<std::string>& axes, const Init& init) = 0;
    /// The rank of the adapter of the linear layer at this key; 0: it has none.
    virtual int64_t low_rank(const std::string& key) const = 0;
    /// The sizes of that adapter, for a weight [out, in].
    virtual AdapterForm adapter_form(const std::string& key, int64_t out, int64_t in) const = 0;
    /// Dropout of the adapters' inputs while they are trained.
    virtual Dropout low_rank_dropout() const { return {}; }
    /// How the product at this key is quantized; empty: not at all.
    virtual std::optional<QuantizedProduct> quantized(const std::string& key) = 0;
    /// Whether the weight of the linear layer at this key is stored as codes.
    virtual bool is_stored_quantized(const std::string& key) const = 0;
  };

  /// `separator` joins the parts of a name: a dot in diffusers and torch, a slash in JAX programs.
  Params(Source& source, std::string prefix, char separator = '.')
      : source_(&source), prefix_(std::move(prefix)), separator_(separator) {}

  Params operator/(std::string_view name) const;
  /// The parameter `prefix.name`, in torch's layout (linear weights [out, in]).
  Tensor weight(std::string_view name, const Dims& dims, const std::vector<std::string>& axes,
                const Init& init) const;
  /// The rank r of an adapter B A of the linear layer here (arXiv:2106.09685), which has the
  /// parameters `lora_A.weight` [r, in], `lora_B.weight` [out, r] and `lora_scale` [r]; 0 if it has
  /// none.
  int64_t low_rank() const { return source_->low_rank(prefix_); }
  /// The adapter of the linear layer here, with a weight [out, in]: see LinearAdapter for its
  /// parameters.
  AdapterForm adapter_form(int64_t out, int64_t in) const {
    return source_->adapter_form(prefix_, out, in);
  }
  /// Dropout of that adapter's input, and the place that selects its mask: layers of a stack share
  /// the stack's name.
  Dropout low_rank_dropout() const { return source_->low_rank_dropout(); }
  std::string place() const { return stacked_name(prefix_); }
  /// How the product here (of a linear layer or of attention) is quantized.
  std::optional<QuantizedProduct> quantized() const { return source_->quantized(prefix_); }
  /// `weight_scale` [out], F32, if the weight of the linear layer here is stored as codes: the
  /// weight is the code times the scale of its output. Else empty.
  std::optional<Tensor> stored_scale(int64_t out, const std::string& axis) const;

 private:
  Source* source_;
  std::string prefix_;
  char separator_;
};

/// Ranks of adapters by linear layer, and what they have in common. The key is the parameters'
/// name: `proj_out`, or `blocks.{}.attn1.to_q` for every layer of a stack, whether stacked or not.
struct LowRanks : std::map<std::string, int64_t, std::less<>> {
  using map::map;
  AdapterKind kind = AdapterKind::LORA;
  int64_t kronecker_factor = -1;  // of LOKR, see kronecker_sizes
  bool operator==(const LowRanks&) const = default;
};

/// Records the parameters that constructors open, without a graph: returns empty tensors.
class SpecCollector : public Params::Source {
 public:
  /// `dtype` is the element type that a key is stored in.
  explicit SpecCollector(std::function<DType(const std::string& key)> dtype,
                         LowRanks low_ranks = {})
      : dtype_(std::move(dtype)), low_ranks_(std::move(low_ranks)) {}

  /// Parameters that are opened after this call belong to a stack of `layers` layers (0: to none);
  /// their keys have `{}` instead of the layer number.
  void set_layers(int64_t layers) { layers_ = layers; }
  Tensor parameter(const std::string& key, const Dims& dims, const std::vector<std::string>& axes,
                   const Init& init) override;
  int64_t low_rank(const std::string& key) const override;
  AdapterForm adapter_form(const std::string& key, int64_t out, int64_t in) const override;
  std::optional<QuantizedProduct> quantized(const std::string& key) override;
  bool is_stored_quantized(const std::string& key) const override;
  std::vector<ParamSpec> take() { return std::move(specs_); }
  /// Keys that were requested with Params::quantized: all products of a network.
  const std::vector<std::string>& products() const { return products_; }

 private:
  std::function<DType(const std::string&)> dtype_;
  LowRanks low_ranks_;
  int64_t layers_ = 0;
  std::vector<ParamSpec> specs_;
  std::vector<std::string> products_;
};

/// How the product at a key is quantized; empty: not at all.
using QuantizedProducts = std::function<std::optional<QuantizedProduct>(const std::string& key)>;

/// Returns the tensors of a graph by key; throws an Error for an unknown key or another shape.
class Binder : public Params::Source {
 public:
  explicit Binder(QuantizedProducts quantized = {}) : quantized_(std::move(quantized)) {}
  /// Specs and their tensors, in the same order. Stacked specs are skipped: they are bound slice by
  /// slice, with `add`.
  Binder(std::span<const ParamSpec> specs, std::span<const Tensor> tensors,
         QuantizedProducts quantized = {});

  void add(const std::string& key, Tensor tensor) { tensors_[key] = tensor; }
  Tensor parameter(const std::string& key, const Dims& dims, const std::vector<std::string>& axes,
                   const Init& init) override;
  int64_t low_rank(const std::string& key) const override;
  AdapterForm adapter_form(const std::string& key, int64_t out, int64_t in) const override;
  Dropout low_rank_dropout() const override { return low_rank_dropout_; }
  /// Dropout of the layers that are bound after this call; a layer of a stack has its own
  /// (Dropout::at).
  void set_low_rank_dropout(Dropout dropout) { low_rank_dropout_ = dropout; }
  std::optional<QuantizedProduct> quantized(const std::string& key) override {
    return quantized_ ? quantized_(key) : std::nullopt;
  }
  bool is_stored_quantized(const std::string& key) const override {
    return tensors_.contains(key + std::string(ParamSpec::kStoredScale));
  }

 private:
  std::map<std::string, Tensor> tensors_;
  Dropout low_rank_dropout_;
  QuantizedProducts quantized_;
};

}  // namespace kinema::nn
