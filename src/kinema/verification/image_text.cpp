#include <algorithm>
#include <map>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/models/clip/text.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/tokenizer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/counting.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/t5.h"

// The words of networks that make images: tokens, CLIP's text side, T5 without a mask.
namespace kinema::verification {
namespace {

constexpr std::string_view kTap = "tap.";
constexpr int64_t kNoLimit = int64_t{1} << 40;

/// A text encoder for one case: a graph with its inputs' values, and the results by name.
class Encoding {
 public:
  Encoding(const Case& c, const io::ModelFolder& files, std::vector<nn::ParamSpec> specs,
           const Session::Form& form, Session& session)
      : case_(c),
        form_(form),
        session_(session),
        params_(parameter_inputs(graph_, specs)),
        buffers_(weights::load_tensors(files, specs, session.client())) {}

  std::span<const Tensor> params() const { return params_; }
  Tensor input(const HostArray& value) {
    buffers_.push_back(session_.client().to_device(value));
    return graph_.input(value.shape);
  }
  Tensor embeddings(const io::TensorView& table, const HostArray& ids) {
    return input(weights::embedding_rows(table, ids.shape.dims, ids.as<int64_t>()));
  }
  /// Under the name that the case has for it; what it has no name for is not computed.
  void output(const std::string& name, Tensor value) {
    if (case_.has(name) && std::ranges::find(names_, name) == names_.end()) {
      names_.push_back(name);
      outputs_.push_back(value);
    }
  }

  /// A row for every output, and one for every tap that is missing.
  void run(const Limits& limits, const std::string& taps, std::vector<Row>& rows) {
    const std::string name = case_.name() + form_.suffix;
    const auto results =
        session_.program(graph_, outputs_, "text").run(std::span<const pjrt::Buffer>(buffers_));
    for (size_t i = 0; i < names_.size(); ++i) {
      rows.push_back(compare(name, names_[i], results[i].to_host(), case_.tensor(names_[i]),
                             limits.of(names_[i])));
    }
    for (const std::string& tensor : case_.names(taps)) {
      // A loop over the layers offers nothing inside them; one after the other must offer all.
      if (!form_.options.scan_layers && std::ranges::find(names_, tensor) == names_.end()) {
        rows.push_back(failed(name, tensor, "the encoder offers no such value"));
      }
    }
  }

 private:
  const Case& case_;
  const Session::Form& form_;
  Session& session_;
  Graph graph_;
  std::vector<Tensor> params_;
  std::vector<pjrt::Buffer> buffers_;
  std::vector<std::string> names_;
  std::vector<Tensor> outputs_;
};

/// Tokens of each prompt, and the table `ids`, where they are cut and padded.
template <typename Tokenizer>
std::vector<Row> token_rows(const Case& c) {
  const auto tokenizer = Tokenizer::open(c.folder() / c.about().at("tokenizer").as_string());
  const HostArray want = c.tensor("ids");
  const auto width = static_cast<size_t>(want.shape.dims.back());
  HostArray table(want.shape);
  std::ranges::fill(table.as<int64_t>(), tokenizer.pad());
  const std::vector<io::Json>& prompts = c.about().at("prompts").items();
  check(table.as<int64_t>().size() == width * prompts.size(), "[verify] ids is {} for {} prompts",
        to_string(want.shape), prompts.size());
  Count ids(c, "prompts.ids");
  Count tokens(c, "prompts.tokens");
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string& name = prompts[i].at("name").as_string();
    const std::string& prompt = prompts[i].at("prompt").as_string();
    std::ranges::copy(tokenizer.encode(prompt, static_cast<int64_t>(width)).ids,
                      table.as<int64_t>().begin() + static_cast<std::ptrdiff_t>(i * width));
    // Those of the prompt itself are all there.
    const std::vector<int64_t> got = tokenizer.encode(prompt, kNoLimit).ids;
    std::vector<std::string> texts;
    for (const int64_t id : got) {
      texts.push_back(tokenizer.token(id));
    }
    ids.add(name, got, prompts[i].at("ids").as_ints());
    tokens.add(name, texts, strings(prompts[i].at("tokens")));
  }
  const Limits limits(c.about(), Limits::Which::LONGEST);
  return {ids.row, tokens.row, compare(c.name(), "ids", table, want, limits.of("ids"))};
}

}  // namespace

std::vector<Row> clip_tokenizer_rows(const Case& c, Session& /*session*/) {
  return token_rows<text::ClipTokenizer>(c);
}

std::vector<Row> t5_tokenizer_rows(const Case& c, Session& /*session*/) {
  return token_rows<text::Tokenizer>(c);
}

std::vector<Row> clip_text_rows(const Case& c, Session& session) {
  const io::ModelFolder files = io::ModelFolder::open(c.model());
  const clip::TextConfig config = weights::parse_clip_text_config(files.config());
  weights::check_clip_text_tensors(files, config);
  const std::string prefix = weights::clip_text_prefix(files);
  const Limits limits(c.about(), Limits::Which::LONGEST);
  const HostArray ids = c.tensor("ids");
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    const clip::TextOptions options{.precision = form.options.precision,
                                    .scan_layers = form.options.scan_layers};
    Encoding encoding(c, files, clip::text_parameters(config, prefix, options), form, session);
    clip::TextInputs inputs{
        .embeddings = encoding.embeddings(weights::clip_text_embedding(files), ids),
        .ids = encoding.input(ids)};
    inputs.tap = [&](const std::string& name, Tensor value) {
      encoding.output(std::string(kTap) + name, value);
    };
    const clip::TextOutputs out =
        clip::text_states(encoding.params(), config, prefix, options, inputs);
    encoding.output("last_hidden_state", out.last);
    encoding.output("penultimate", out.hidden);
    encoding.output("pooled", out.pooled);
    if (config.projection_dim > 0) {
      encoding.output("text_embeds", out.text_embeds);
    }
    encoding.run(limits, std::string(kTap), rows);
  }
  return rows;
}

std::vector<Row> t5_rows(const Case& c, Session& session) {
  constexpr std::string_view kIds = ".ids";
  const io::ModelFolder files = io::ModelFolder::open(c.model());
  const t5::EncoderConfig config = weights::parse_t5_config(files.config());
  weights::check_t5_tensors(files, config);
  const Limits limits(c.about(), Limits::Which::LONGEST);
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    const t5::EncoderOptions options{.precision = form.options.precision,
                                     .scan_layers = form.options.scan_layers};
    for (const std::string& tensor : c.names("")) {
      if (!tensor.ends_with(kIds)) {
        continue;
      }
      const std::string key = tensor.substr(0, tensor.size() - kIds.size());
      const std::string taps = std::string(kTap) + key + ".";
      Encoding encoding(c, files, t5::parameters(config, options), form, session);
      t5::EncoderInputs inputs{
          .embeddings = encoding.embeddings(weights::t5_embedding(files), c.tensor(tensor))};
      inputs.tap = [&](const std::string& name, Tensor value) {
        encoding.output(taps + name, value);
      };
      encoding.output(key + ".hidden", t5::encoder(encoding.params(), config, options, inputs));
      encoding.run(limits, taps, rows);
    }
  }
  return rows;
}

}  // namespace kinema::verification
