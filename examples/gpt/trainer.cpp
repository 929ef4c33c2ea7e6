#include "trainer.h"

#include <algorithm>
#include <cmath>

#include "random.h"

namespace gpt {

using reshard::Buffer;
using reshard::kRoot;
using reshard::MicroBatch;
using reshard::Runtime;
using reshard::Unit;
using reshard::View;

namespace {

constexpr int64_t kEvaluated = 64;    // validation sequences, at least
constexpr double kTemperature = 0.8;  // below 1: likelier tokens are drawn more often than the model says
constexpr uint64_t kSampleStream = 2;

// A unit's numbers by index, as network.h wants them.
struct Parameters {
  const Numbers& numbers;
  const float* at(int index) const { return numbers.parameter(index); }
  Weights matrix(int index) const { return numbers.weights(index); }
};
struct Gradients {
  const Numbers& numbers;
  float* at(int index) const { return numbers.gradient(index); }
  float* matrix(int index) const { return numbers.gradient(index); }
};

template <typename Float, typename From>
Block<Float> block_of(From of) {
  return {of.at(0), of.at(1), of.matrix(2), of.at(3), of.matrix(4),  of.at(5),
          of.at(6), of.at(7), of.matrix(8), of.at(9), of.matrix(10), of.at(11)};
}

template <typename Float, typename From>
Embeddings<Float> embeddings_of(const Units& units, From of) {
  return {of.at(units.tokens), of.at(units.positions)};
}

template <typename Float, typename From>
Head<Float> head_of(const Units& units, From of) {
  return {of.at(units.ln_f_weight), of.at(units.ln_f_bias), of.matrix(units.matrix)};
}

}  // namespace

// The root's hooks are around everything; a piece of another unit has hooks of its own.
template <typename Piece>
void Trainer::forward_piece(Runtime& runtime, Unit unit, const View& root, Piece piece) {
  const auto with_numbers = [&](const View& view) {
    piece(Numbers(view, runtime.model().spec(unit), numbers_, false));
  };
  unit == kRoot ? with_numbers(root) : runtime.forward(unit, with_numbers);
}

template <typename Piece>
void Trainer::backward_piece(Runtime& runtime, Unit unit, const View& root, Piece piece) {
  const auto with_numbers = [&](const View& view) {
    const Numbers numbers(view, runtime.model().spec(unit), numbers_, true);
    piece(numbers);
    numbers.add_gradients();
  };
  unit == kRoot ? with_numbers(root) : runtime.backward(unit, with_numbers);
}

Trainer::Trainer(const Setup& setup, Runtime& runtime)
    : setup_(setup),
      scratch_(runtime.allocate(runtime.model().held_bytes())),
      work_(setup.shape, setup.batch, setup.bf16, scratch_.floats()),
      numbers_(scratch_.floats() + work_.floats),
      saved_(static_cast<std::size_t>(runtime.model().unit_count())),
      inputs_(static_cast<std::size_t>(setup.batch.tokens())),
      targets_(inputs_.size()),
      sequence_(static_cast<std::size_t>(setup.batch.length) + 1) {}

void Trainer::fill(Runtime& runtime) {
  runtime.fill([&](std::string_view parameter, int64_t offset, std::span<float> values) {
    if (setup_.parameters != nullptr) {
      setup_.parameters->read(setup_.parameters->tensors().at(std::string(parameter)), offset, values);
    } else {
      initial_values(setup_.shape, setup_.seed, parameter, offset, values);
    }
  });
}

float* Trainer::keep(Runtime& runtime, Unit unit) {
  Buffer& buffer = saved_[static_cast<std::size_t>(unit.index)];
  buffer = runtime.allocate(runtime.model().spec(unit).saved_bytes);
  return buffer.floats();
}

void Trainer::split_tokens(int64_t sequence, std::span<const int32_t> tokens) {
  const auto at = static_cast<std::ptrdiff_t>(sequence * setup_.batch.length);
  std::copy(tokens.begin(), tokens.end() - 1, inputs_.begin() + at);
  std::copy(tokens.begin() + 1, tokens.end(), targets_.begin() + at);
}

double Trainer::micro_batch(Runtime& runtime, MicroBatch at) {
  // The global batch is dealt out rank after rank, micro-batch after micro-batch.
  const int64_t first = (int64_t{runtime.rank().index()} * at.count + at.index) * setup_.batch.sequences;
  for (int64_t s = 0; s < setup_.batch.sequences; ++s) {
    setup_.tokens->training(at.step, first + s, sequence_);
    split_tokens(s, sequence_);
  }
  const double loss = forward(runtime);
  backward(runtime);
  return loss;
}

double Trainer::forward(Runtime& runtime) {
  const Shape& shape = setup_.shape;
  const Batch batch = setup_.batch;
  const Units& units = setup_.units;
  double loss = 0;
  runtime.forward(kRoot, [&](const View& root) {
    if (units.head == kRoot) keep(runtime, kRoot);
    forward_piece(runtime, units.embeddings, root, [&](const Numbers& w) {
      embed_forward(shape, batch, embeddings_of<const float>(units, Parameters{w}), inputs_.data(), work_.stream);
    });
    for (const Unit unit : units.blocks) {
      forward_piece(runtime, unit, root, [&](const Numbers& w) {
        block_forward(shape, batch, block_of<const float>(Parameters{w}), work_.stream, keep(runtime, unit), work_);
      });
    }
    forward_piece(runtime, units.head, root, [&](const Numbers& w) {
      Buffer& buffer = saved_[static_cast<std::size_t>(units.head.index)];
      float* saved = units.head == kRoot ? buffer.floats() : keep(runtime, units.head);
      loss = head_forward(shape, batch, head_of<const float>(units, Parameters{w}), work_.stream, targets_.data(),
                          saved, work_);
    });
  });
  return loss;
}

void Trainer::backward(Runtime& runtime) {
  const Shape& shape = setup_.shape;
  const Batch batch = setup_.batch;
  const Units& units = setup_.units;
  float* const dx = work_.stream;
  auto saved = [&](Unit unit) { return saved_[static_cast<std::size_t>(unit.index)].floats(); };
  auto drop = [&](Unit unit) { saved_[static_cast<std::size_t>(unit.index)] = {}; };
  runtime.backward(kRoot, [&](const View& root) {
    backward_piece(runtime, units.head, root, [&](const Numbers& w) {
      head_backward(shape, batch, head_of<const float>(units, Parameters{w}), saved(units.head), dx,
                    head_of<float>(units, Gradients{w}), work_);
      if (!(units.head == kRoot)) drop(units.head);
    });
    for (auto unit = units.blocks.rbegin(); unit != units.blocks.rend(); ++unit) {
      backward_piece(runtime, *unit, root, [&](const Numbers& w) {
        block_backward(shape, batch, block_of<const float>(Parameters{w}), saved(*unit), dx,
                       block_of<float>(Gradients{w}), work_);
        drop(*unit);
      });
    }
    backward_piece(runtime, units.embeddings, root, [&](const Numbers& w) {
      embed_backward(shape, batch, inputs_.data(), dx, embeddings_of<float>(units, Gradients{w}));
    });
    if (units.head == kRoot) drop(kRoot);
  });
}

template <typename Last>
void Trainer::forward_only(Runtime& runtime, Batch batch, Last last) {
  const Shape& shape = setup_.shape;
  const Units& units = setup_.units;
  // Nobody will read what the pieces save, so all write to the same place.
  const int64_t floats = std::max(block_saved_floats(shape, batch), head_saved_floats(shape, batch));
  const Buffer unread = runtime.allocate(floats * static_cast<int64_t>(sizeof(float)));
  runtime.forward(kRoot, [&](const View& root) {
    forward_piece(runtime, units.embeddings, root, [&](const Numbers& w) {
      embed_forward(shape, batch, embeddings_of<const float>(units, Parameters{w}), inputs_.data(), work_.stream);
    });
    for (const Unit unit : units.blocks) {
      forward_piece(runtime, unit, root, [&](const Numbers& w) {
        block_forward(shape, batch, block_of<const float>(Parameters{w}), work_.stream, unread.floats(), work_);
      });
    }
    forward_piece(runtime, units.head, root,
                  [&](const Numbers& w) { last(head_of<const float>(units, Parameters{w}), unread.floats()); });
  });
}

std::optional<double> Trainer::evaluate(Runtime& runtime) {
  if (!setup_.tokens->has_validation()) return std::nullopt;
  const int64_t per_pass = int64_t{setup_.batch.sequences} * runtime.rank().count();
  // As many passes as give at least kEvaluated sequences, rounded up to whole steps: then the sequences are the same
  // ones for every number of ranks.
  const int64_t per_step = per_pass * runtime.job().train.microbatches;
  const int64_t count = (kEvaluated + per_step - 1) / per_step * per_step;
  const int64_t mine = count / runtime.rank().count();
  double sum = 0;
  for (int64_t done = 0; done < mine; done += setup_.batch.sequences) {
    for (int64_t s = 0; s < setup_.batch.sequences; ++s) {
      setup_.tokens->validation(runtime.rank().index() * mine + done + s, count, sequence_);
      split_tokens(s, sequence_);
    }
    forward_only(runtime, setup_.batch, [&](const Head<const float>& head, float* saved) {
      sum += head_forward(setup_.shape, setup_.batch, head, work_.stream, targets_.data(), saved, work_);
    });
  }
  return sum * setup_.batch.sequences / static_cast<double>(mine);
}

int32_t Trainer::draw(std::span<const float> logits, uint64_t index) const {
  const double top = static_cast<double>(*std::ranges::max_element(logits));
  auto weight = [&](float logit) { return std::exp((static_cast<double>(logit) - top) / kTemperature); };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  double left = total * random_uniform(random_bits(setup_.seed, kSampleStream, index));
  for (std::size_t token = 0; token + 1 < logits.size(); ++token) {
    left -= weight(logits[token]);
    if (left < 0) return static_cast<int32_t>(token);
  }
  return static_cast<int32_t>(logits.size()) - 1;
}

std::string Trainer::sample(Runtime& runtime, const std::function<bool()>& stop) {
  if (setup_.prompt.empty() || setup_.sample_tokens == 0) return "";
  // Every rank computes the same tokens: the weights are the same bits everywhere, and so are the random numbers.
  std::vector<int32_t> text = setup_.prompt;
  std::vector<float> logits(static_cast<std::size_t>(setup_.shape.vocabulary));
  for (uint64_t i = 0; i < static_cast<uint64_t>(setup_.sample_tokens) && !stop(); ++i) {
    const Batch batch = {1, std::min(static_cast<int>(text.size()), setup_.batch.length)};
    std::copy(text.end() - batch.length, text.end(), inputs_.begin());
    forward_only(runtime, batch, [&](const Head<const float>& head, float*) {
      head_logits(setup_.shape, head, work_.stream + int64_t{batch.length - 1} * setup_.shape.width, logits.data(),
                  work_);
    });
    text.push_back(draw(logits, i));
  }
  std::string bytes;
  for (const int32_t token : text) bytes.push_back(static_cast<char>(token < 256 ? token : '?'));
  return bytes;
}

}  // namespace gpt
