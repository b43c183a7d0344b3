#include <array>

#include "kinema/weights/names.h"

// T5's encoder, in transformers' names only.
namespace kinema::weights {
namespace {

constexpr Name same(std::string_view name) { return {name, name}; }

constexpr std::array kOutside{same("shared"), same("encoder.final_layer_norm")};

constexpr std::array kAttention{
    same("SelfAttention.q"), same("SelfAttention.k"), same("SelfAttention.v"),
    same("SelfAttention.o"), same("layer_norm"),
};

constexpr std::array kFeedForward{
    same("DenseReluDense.wi_0"),
    same("DenseReluDense.wi_1"),
    same("DenseReluDense.wo"),
    same("layer_norm"),
};

constexpr std::array kPlaces{
    Place{"", "", kOutside},
    Place{"encoder.block.{}.layer.0.", "encoder.block.{}.layer.0.", kAttention},
    Place{"encoder.block.{}.layer.1.", "encoder.block.{}.layer.1.", kFeedForward},
};

}  // namespace

const NameTable kT5Names{.model = "T5", .places = kPlaces};

}  // namespace kinema::weights
