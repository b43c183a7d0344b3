#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/models/wan/block.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::wan {

/// Blocks in a row, with parameters `PREFIX.0.`, `PREFIX.1.`, ... or stacked ones, `PREFIX.{}.`.
struct BlockRow {
  std::string_view prefix;  // `blocks`
  int64_t layers = 0;
  int64_t first_layer = 0;  // among all blocks of the network

  std::string key(int64_t layer) const { return std::string(prefix) + "." + std::to_string(layer); }
  std::string stacked_key() const { return std::string(prefix) + ".{}"; }
};

/// The parameters of a network and how to compute with them.
struct BlockParameters {
  std::span<const nn::ParamSpec> specs;
  std::span<const Tensor> values;
  nn::Binder& binder;
  const TransformerConfig& config;
  const nn::ModelOptions& options;
};

/// What another network adds to the tokens [b, s, d] after some of the blocks.
struct Residuals {
  std::vector<int64_t> layers = {};  // ascending
  /// Of which they are made, [number of layers, ...] each.
  std::vector<Tensor> values = {};
  /// The residual of these tokens, from its number among the layers, which is 0 with scan_layers,
  /// and its part of the values. Empty: the part itself.
  std::function<Tensor(Tensor x, int64_t number, std::span<const Tensor> part)> of = {};

  Tensor operator()(Tensor x, int64_t number, std::span<const Tensor> part) const {
    return of ? of(x, number, part) : part.front();
  }
};

using NetworkTap = std::function<void(const std::string& name, Tensor value)>;

/// The layers of a row as a loop over stacked parameters computes them.
class StackedRow {
 public:
  /// `given.keys`, if there are any, have a leading axis of layers.
  StackedRow(const BlockRow& row, const BlockParameters& parameters,
             const Conditioning& given = {});

  /// What the loop goes over: [layers, ...] each.
  const std::vector<Tensor>& values() const { return values_; }
  /// What the layer with these values is given: its own dropout and keys.
  Conditioning given(std::span<const Tensor> values) const;
  /// Layer(params, config) with these values.
  template <typename Layer>
  Layer layer(std::span<const Tensor> values, const nn::Dropout& low_rank_dropout = {}) const {
    nn::Binder binder(quantized_);
    binder.set_low_rank_dropout(low_rank_dropout);
    for (size_t i = 0; i < keys_.size(); ++i) {
      binder.add(keys_[i], values[i]);
    }
    return Layer(nn::Params(binder, key_), config_);
  }

 private:
  std::string key_;
  const TransformerConfig& config_;
  Conditioning given_;
  nn::QuantizedProducts quantized_;
  std::vector<std::string> keys_;
  std::vector<Tensor>
      values_;  // parameters, then the layers' numbers if there is dropout, then keys
  bool has_numbers_ = false;
};

/// What layer `i` of a row is given, where it has its own parameters.
Conditioning given_to_layer(int64_t i, const BlockRow& row, const BlockParameters& parameters,
                            const Conditioning& given);

/// Runs the row on tokens x [b, s, d], and adds each residual after its block. `given.keys` have a
/// leading axis of layers. Without scan_layers, `tap` is called with `blockN` (before a residual is
/// added) and `blockN.PART`; with taps nothing is rematerialized.
Tensor run_blocks(Tensor x, const BlockRow& row, const BlockParameters& parameters,
                  const Conditioning& given, const Residuals& residuals, const NetworkTap& tap);

/// The row's keys and values of this text and image, each with a leading axis of layers.
CrossKeys cross_keys_of(const BlockRow& row, const BlockParameters& parameters, Tensor text,
                        Tensor image);

/// Keys of two rows along the axis of layers, and those of one row of them.
CrossKeys joined(const CrossKeys& first, const CrossKeys& second);
CrossKeys keys_of(const BlockRow& row, const CrossKeys& all);

}  // namespace kinema::wan
