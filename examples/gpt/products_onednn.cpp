#include <oneapi/dnnl/dnnl.hpp>

#include "products_bf16.h"

// oneDNN's threads are OpenMP's. The header is not there where clang compiles; the library comes with oneDNN.
extern "C" void omp_set_num_threads(int threads);

namespace gpt {

using dnnl::memory;
using reshard::Bf16;

namespace {

// Where a product runs. Made for each one: that takes a microsecond.
struct Processor {
  Processor() : engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    omp_set_num_threads(1);  // counts for the calling thread only
  }
  memory at(const memory::desc& shape, const void* data) const {
    return {shape, engine, const_cast<void*>(data)};  // oneDNN has one type for what it reads and writes
  }
  dnnl::engine engine;
  dnnl::stream stream;
};

memory::desc matrix(int64_t rows, int64_t columns, int64_t stride, bool transposed, memory::data_type type) {
  return {{rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

// oneDNN keeps what it made for the last thousand shapes, so this takes microseconds.
dnnl::matmul::primitive_desc description(const NarrowProduct& p, const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  if (p.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return {{matrix(p.m, p.k, p.a.stride, p.a.transposed, memory::data_type::bf16),
           matrix(p.k, p.n, p.b.stride, p.b.transposed, memory::data_type::bf16),
           matrix(p.m, p.n, p.stride, false, memory::data_type::f32)},
          attributes,
          engine};
}

}  // namespace

bool multiplies_bf16() {
  static const bool can = [] {
    try {
      description({16, 16, 16, {nullptr, 16}, {nullptr, 16}, nullptr, 16, false}, Processor().engine);
      return true;
    } catch (const dnnl::error&) {  // a processor without AVX-512
      return false;
    }
  }();
  return can;
}

void multiply(const NarrowProduct& p) {
  Processor processor;
  const dnnl::matmul::primitive_desc plan = description(p, processor.engine);
  dnnl::matmul(plan).execute(processor.stream, {{DNNL_ARG_SRC, processor.at(plan.src_desc(), p.a.data)},
                                                {DNNL_ARG_WEIGHTS, processor.at(plan.weights_desc(), p.b.data)},
                                                {DNNL_ARG_DST, processor.at(plan.dst_desc(), p.out)}});
  processor.stream.wait();
}

const Bf16* round(const float* values, int64_t rows, int64_t columns, Bf16* narrow) {
  Processor processor;
  memory from = processor.at(matrix(rows, columns, columns, false, memory::data_type::f32), values);
  memory to = processor.at(matrix(rows, columns, columns, false, memory::data_type::bf16), narrow);
  dnnl::reorder(from, to).execute(processor.stream, from, to);
  processor.stream.wait();
  return narrow;
}

}  // namespace gpt
