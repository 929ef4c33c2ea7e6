#include "parameters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "random.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace gpt {

using reshard::Error;
using reshard::ErrorCode;
using reshard::Parameter;
using reshard::UnitSpec;

namespace {

constexpr double kDeviation = 0.02;

// Weight decay is for tensors of two dimensions only: not for biases and norms.
Parameter matrix(std::string name, int64_t rows, int64_t columns) {
  return {std::move(name), {rows, columns}, true};
}
Parameter vector(std::string name, int64_t size) {
  return {std::move(name), {size}, false};
}

std::vector<Parameter> block_parameters(const Shape& shape, int layer) {
  const std::string h = fmt::format("h.{}.", layer);
  const int64_t d = shape.width;
  return {vector(h + "ln_1.weight", d),
          vector(h + "ln_1.bias", d),
          matrix(h + "attn.c_attn.weight", d, 3 * d),
          vector(h + "attn.c_attn.bias", 3 * d),
          matrix(h + "attn.c_proj.weight", d, d),
          vector(h + "attn.c_proj.bias", d),
          vector(h + "ln_2.weight", d),
          vector(h + "ln_2.bias", d),
          matrix(h + "mlp.c_fc.weight", d, 4 * d),
          vector(h + "mlp.c_fc.bias", 4 * d),
          matrix(h + "mlp.c_proj.weight", 4 * d, d),
          vector(h + "mlp.c_proj.bias", d)};
}

int64_t bytes_of(int64_t floats) {
  return floats * static_cast<int64_t>(sizeof(float));
}

// The root, its parameters where they stand in it, and the units around the blocks.
UnitSpec outer_unit(std::string name, std::vector<Parameter> parameters, bool has_head, const Shape& shape,
                    Batch batch) {
  return {.name = std::move(name),
          .parameters = std::move(parameters),
          .saved_bytes = has_head ? bytes_of(head_saved_floats(shape, batch)) : 0,
          .flops_forward = has_head ? head_flops(shape, batch) : 0,
          .flops_backward = has_head ? 2 * head_flops(shape, batch) : 0};
}

bool is_causal_mask(const std::string& name) {
  return reshard::base::glob_match("h.*.attn.bias", name) || reshard::base::glob_match("h.*.attn.masked_bias", name);
}

}  // namespace

Units declare_units(const Shape& shape, Placement placement, Batch batch) {
  const int64_t d = shape.width;
  std::vector<Parameter> ends = {matrix("wte.weight", shape.vocabulary, d), matrix("wpe.weight", shape.sequence, d)};
  std::vector<Parameter> head = {vector("ln_f.weight", d), vector("ln_f.bias", d)};
  if (!shape.tied) head.push_back(matrix("lm_head.weight", shape.vocabulary, d));
  const bool split = placement == Placement::split;
  if (!split) ends.insert(ends.end(), head.begin(), head.end());

  Units units{.model = reshard::Model(split ? UnitSpec{.name = "root", .parameters = {}}
                                            : outer_unit("root", ends, true, shape, batch)),
              .embeddings = reshard::kRoot,
              .head = reshard::kRoot,
              .blocks = {}};
  if (split) units.embeddings = units.model.add(outer_unit("wte", ends, false, shape, batch));
  for (int layer = 0; layer < shape.layers; ++layer) {
    units.blocks.push_back(units.model.add({.name = fmt::format("h.{}", layer),
                                            .parameters = block_parameters(shape, layer),
                                            .saved_bytes = bytes_of(block_saved_floats(shape, batch)),
                                            .flops_forward = block_flops(shape, batch),
                                            .flops_backward = 2 * block_flops(shape, batch)}));
  }
  if (split) {
    units.head = units.model.add(outer_unit("lm_head", head, true, shape, batch));
  } else {
    units.ln_f_weight += 2;
    units.ln_f_bias += 2;
    units.matrix = shape.tied ? units.tokens : units.matrix + 2;
  }
  return units;
}

void initial_values(const Shape& shape, uint64_t seed, std::string_view parameter, int64_t offset,
                    std::span<float> values) {
  if (parameter.ends_with(".bias")) {
    std::ranges::fill(values, 0.0F);
    return;
  }
  if (parameter.find("ln_") != std::string_view::npos) {
    std::ranges::fill(values, 1.0F);
    return;
  }
  const double deviation =
      parameter.ends_with("c_proj.weight") ? kDeviation / std::sqrt(2.0 * shape.layers) : kDeviation;
  const uint64_t stream = stream_of(parameter);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double normal = random_normal(seed, stream, static_cast<uint64_t>(offset) + i);
    values[i] = static_cast<float>(deviation * normal);
  }
}

void check_parameters(const Safetensors& file, const reshard::Model& model) {
  std::vector<std::string> names, unknown;
  for (const UnitSpec& unit : model.units())
    for (const Parameter& parameter : unit.parameters) names.push_back(parameter.name);
  for (const auto& [name, tensor] : file.tensors())
    if (!is_causal_mask(name) && std::ranges::find(names, name) == names.end()) unknown.push_back(name);

  for (const UnitSpec& unit : model.units()) {
    for (const Parameter& parameter : unit.parameters) {
      // What the file has instead: a name like it, or else one that the model does not know.
      if (!unknown.empty() && !file.tensors().contains(parameter.name)) {
        const std::string near = reshard::base::nearest(parameter.name, unknown);
        const std::string& other = near.empty() ? unknown.front() : near;
        throw Error(ErrorCode::data, fmt::format("no tensor \"{}\" {}", parameter.name, shape_text(parameter.shape)),
                    file.path(),
                    fmt::format("the file's \"{}\" {} is no parameter of this model", other,
                                shape_text(file.tensors().at(other).shape)));
      }
      file.require(parameter.name, "F32", parameter.shape);
    }
  }
  if (unknown.empty()) return;
  const std::string& name = unknown.front();
  const std::string near = reshard::base::nearest(name, names);
  throw Error(
      ErrorCode::data,
      fmt::format("tensor \"{}\" {} is no parameter of this model", name, shape_text(file.tensors().at(name).shape)),
      file.path(), near.empty() ? "make [model] the file's own" : fmt::format("the nearest name is \"{}\"", near));
}

}  // namespace gpt
