#include "kinema/text/sentencepiece.h"

#include <google/protobuf/arena.h>

#include <cmath>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/records/wire_lengths.h"
#include "kinema/text/unicode.h"
#include "text/sentencepiece.pb.h"

namespace kinema::text {
namespace {

constexpr int kUnigram = 1;
// Ten times the largest vocabulary in use; ids have 32 bits.
constexpr int kMostPieces = 4 << 20;

constexpr records::WireMessage kLeaf{};
constexpr records::WireMessage::Field kParts[] = {{1, &kLeaf}, {2, &kLeaf}, {3, &kLeaf}};
constexpr records::WireMessage kModel{kParts};

}  // namespace

SentencePieceModel parse_sentencepiece(std::span<const std::byte> bytes,
                                       const std::string& source) {
  google::protobuf::Arena arena;
  auto* model = google::protobuf::Arena::CreateMessage<wire::Model>(&arena);
  check(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
            records::lengths_fit(bytes, kModel) &&
            model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
        "[text] {} is not a sentencepiece model", source);
  const int type =
      model->trainer_spec().has_model_type() ? model->trainer_spec().model_type() : kUnigram;
  check(type == kUnigram, "[text] {} is a sentencepiece model of type {}, expected {} (unigram)",
        source, type, kUnigram);
  const int count = model->pieces_size();
  check(count > 0 && count <= kMostPieces, "[text] {} holds {} pieces, expected 1 to {}", source,
        count, kMostPieces);
  SentencePieceModel out;
  out.pieces.reserve(static_cast<size_t>(count));
  for (auto& piece : *model->mutable_pieces()) {
    const double score = piece.score();
    check(std::isfinite(score) && invalid_utf8_at(piece.piece()) == std::string_view::npos,
          "[text] piece {} of {} has score {} and {}", out.pieces.size(), source, score,
          "must be UTF-8 with a finite score");
    out.pieces.push_back({std::move(*piece.mutable_piece()), score});
  }
  try {
    out.normalization = CharMap(model->normalizer_spec().precompiled_charsmap());
  } catch (const Error& error) {
    fail("{}, read from {}", error.what(), source);
  }
  return out;
}

}  // namespace kinema::text
