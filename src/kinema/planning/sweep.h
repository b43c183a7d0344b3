#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/planning/report.h"

namespace kinema::planning {

/// One configuration of a sweep.
struct Candidate {
  std::array<int64_t, 4> mesh{1, 1, 1, 1};  // data, fsdp, context, tensor
  std::string remat;
  int64_t batch = 1;  // samples of a step, on all devices

  bool operator==(const Candidate&) const = default;
};

/// The configurations to try.
struct SweepSpace {
  int64_t devices = 1;
  std::vector<std::array<int64_t, 4>> meshes;  // empty: every valid mesh of the devices
  std::vector<std::string> remat;
  std::vector<int64_t> batches;
  int64_t heads = 1;  // tensor must divide them
  int64_t width = 1;  // fsdp x context must divide it
};

/// Configurations in the order of trying: policies and batches with the least memory first. Meshes
/// over which batch, heads or width do not divide are skipped.
std::vector<Candidate> candidates(const SweepSpace& space);

/// Parses `context:2,tensor:4`; throws an Error for other text.
std::array<int64_t, 4> parse_mesh(const std::string& text);

/// The result of a candidate.
struct Outcome {
  Candidate candidate;
  std::optional<Report> report;  // nothing if it could not be compiled
  std::string problem;           // the reason, in one line
  bool skipped = false;          // not tried, because less did not fit
};

/// Tries every candidate with `plan`, which throws the errors of compilation. If one does not fit,
/// candidates that need more are skipped: larger batches, and policies that keep more. `done` is
/// called after each.
std::vector<Outcome> sweep(std::span<const Candidate> candidates,
                           const std::function<Report(const Candidate&)>& plan,
                           const std::function<void(const Outcome&)>& done);

/// Sorts: candidates that fit first, by time per sample, then by memory; then the others.
void rank(std::vector<Outcome>& outcomes);

/// `data=1 fsdp=1 context=4 tensor=1`
std::string mesh_text(const std::array<int64_t, 4>& mesh);
/// A line of the table, and its heading.
std::string outcome_line(const Outcome& outcome);
std::string outcome_heading();
io::Json to_json(const Outcome& outcome);

}  // namespace kinema::planning
