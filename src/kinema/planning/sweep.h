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

/// One setting of a sweep.
struct Candidate {
  std::array<int64_t, 4> mesh{1, 1, 1, 1};  // data, fsdp, context, tensor
  std::string remat;
  int64_t batch = 1;  // samples of a step, on all devices

  bool operator==(const Candidate&) const = default;
};

/// What is tried.
struct SweepSpace {
  int64_t devices = 1;
  std::vector<std::array<int64_t, 4>> meshes;  // empty: every mesh of the devices that divides
  std::vector<std::string> remat;
  std::vector<int64_t> batches;
  int64_t heads = 1;  // tensor divides them
  int64_t width = 1;  // fsdp x context divides it
};

/// Settings in the order in which they are tried: policies and batches that take least first.
/// Meshes that batch, heads or width do not divide over are left out.
std::vector<Candidate> candidates(const SweepSpace& space);

/// Reads `context:2,tensor:4`; throws an Error for other forms.
std::array<int64_t, 4> parse_mesh(const std::string& text);

/// What became of a candidate.
struct Outcome {
  Candidate candidate;
  std::optional<Report> report;  // nothing when it could not be compiled
  std::string problem;           // then why, in one line
  bool skipped = false;          // not tried: less did not fit
};

/// Tries every candidate with `plan`, which throws what compiling throws. One that does not fit
/// takes those with it that take more: larger batches, and policies that keep more. `done` is
/// called after each.
std::vector<Outcome> sweep(std::span<const Candidate> candidates,
                           const std::function<Report(const Candidate&)>& plan,
                           const std::function<void(const Outcome&)>& done);

/// Those that fit, the least time for a sample first, then the least memory; then the others.
void rank(std::vector<Outcome>& outcomes);

/// `data=1 fsdp=1 context=4 tensor=1`
std::string mesh_text(const std::array<int64_t, 4>& mesh);
/// One line of the table, and the line above it.
std::string outcome_line(const Outcome& outcome);
std::string outcome_heading();
io::Json to_json(const Outcome& outcome);

}  // namespace kinema::planning
