#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "kinema/networks/open.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/forward.h"
#include "kinema/verification/session.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

/// `NAME.scale0.5.output`, or `base.output`.
struct LoraOutput {
  std::string file;  // empty: without
  double scale = 0;
};

std::optional<LoraOutput> read_name(const std::string& tensor) {
  constexpr std::string_view kOutput = ".output";
  if (!tensor.ends_with(kOutput)) {
    return std::nullopt;  // an input
  }
  const std::string name = tensor.substr(0, tensor.size() - kOutput.size());
  const size_t at = name.rfind(".scale");
  if (at == std::string::npos) {
    return LoraOutput{};
  }
  LoraOutput out{.file = name.substr(0, at)};
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + at + 6, end, out.scale);
  return read.ec == std::errc() && read.ptr == end ? std::optional(out) : std::nullopt;
}

std::vector<weights::Adapter> adapters_of(const Case& c, const LoraOutput& output) {
  if (output.file.empty()) {
    return {};
  }
  const auto path = c.folder() / "lora" / (output.file + ".safetensors");
  return {{.lora = std::make_shared<const weights::Lora>(weights::Lora::open(path)),
           .scale = output.scale}};
}

}  // namespace

std::vector<Row> lora_rows(const Case& c, Session& session) {
  const ForwardInputs inputs = ForwardInputs::of(c);
  const Limit limit{.absolute = kForwardAbsolute, .relative = kForwardRelative};
  std::vector<Row> rows;
  for (const std::string& tensor : c.names("")) {
    const std::optional<LoraOutput> output = read_name(tensor);
    if (!output) {
      continue;
    }
    for (const Session::Form& form : session.forms()) {
      for (const bool applied : {false, true}) {
        if (applied && output->file.empty()) {
          continue;
        }
        const std::string name = c.name() + form.suffix + (applied ? " (applied)" : "");
        try {
          const std::vector<weights::Adapter> adapters = adapters_of(c, *output);
          nn::ModelOptions options = form.options;
          if (applied) {
            options.low_ranks =
                weights::low_ranks(adapters, networks::open(c.model())->parameters(options));
          }
          const auto values = run_forward(c.model(), inputs, {}, options, session, adapters);
          rows.push_back(compare(name, tensor, values.at("output"), c.tensor(tensor), limit));
        } catch (const Error& error) {
          rows.push_back(failed(name, tensor, error.what()));
        }
      }
    }
  }
  return rows;
}

}  // namespace kinema::verification
