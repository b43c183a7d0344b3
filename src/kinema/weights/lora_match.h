#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {

/// The checkpoint keys of a model with the shape of one layer.
using Shapes = std::map<std::string, Shape, std::less<>>;

/// The sizes of a weight as the file's naming stores it.
Dims in_file(Dims dims, model_files::Cut cut);

/// Finds the parameters of one file's modules, and reports mismatches.
class Matcher {
 public:
  /// Both must outlive it.
  Matcher(const Adapter& adapter, const Shapes& shapes);

  /// The keys of the weight (or of the parameter itself) and of the bias; empty if unchanged.
  struct Keys {
    std::string weight;
    std::string bias;
  };
  Keys match(const std::string& module, const Lora::Target& target);

  /// No key is for this model.
  bool is_empty() const { return matched_.empty() && skipped_.empty(); }
  /// `all 64 keys matched`, or how many were skipped and of which kinds.
  std::string summary() const;
  /// Throws for the first different shape, else for the first key without a parameter, of those
  /// that are not skipped.
  void finish() const;

 private:
  /// Skips a key of the file, or notes it for the error. `name` is the parameter's, `misfit` the
  /// message if that has another shape.
  void leave_out(const std::string& key, const std::string& name, const std::string& misfit);
  /// The tensors of a method, whose sizes may be known in part.
  bool fit_method(const Lora::Target& target, const std::string& key);
  /// Tensors (the first exists) that together change a parameter by a difference of these sizes.
  bool fit(std::initializer_list<const io::TensorView*> tensors, const std::string& key,
           const Dims& dims);

  const Lora& lora_;
  const Unmatched unmatched_;
  const Shapes& shapes_;
  // Sets of names, because several modules may share a tensor.
  std::set<std::string> matched_;
  std::set<std::string> missing_;
  std::set<std::string> skipped_;
  std::map<std::string, size_t> kinds_;  // of the skipped keys
  std::vector<std::string> misfits_;     // messages
};

}  // namespace kinema::weights
