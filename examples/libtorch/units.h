#pragma once

// The adapter between torch::nn and Reshard: modules of a net become units, and autograd drives the bare hooks.
//
//   Runtime runtime(job, declare(*net, "blocks"), rank, …);  // each module of the Sequential net->blocks is a unit
//   Units units(*net, "blocks", runtime);                    // the values go into the shards, the net holds no memory
//   torch::Tensor loss = units.forward([&] { return … net->forward(x) …; });
//   units.backward(loss);
//
// A unit's forward lies between two identities that autograd knows. In backward the one behind it runs first and calls
// before_backward; the one before it runs when the unit's gradients are done, and calls after_backward. An input
// without gradient (token numbers) has no such end: that unit's backward ends with that of the unit that encloses it.
//
// [Note: one storage per unit] A unit may lie elsewhere at each gather, and autograd keeps aliases of parameters from
// forward to backward (a Linear saves its weight transposed). They share the parameter's StorageImpl, not its tensor.
// So the address is exchanged there: an alias that kept the old one would give wrong gradients in silence.
//
// Threads: each rank has its own net and Units, for its thread only. On the CPU autograd runs on the thread that asks.

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>
#include <torch/nn.h>

#include "reshard/error.h"
#include "reshard/runtime.h"

namespace sharded {

using torch::Tensor;

// A parameter without memory carries this dispatch key, whose only kernel throws.
inline constexpr c10::DispatchKey kNoMemory = c10::DispatchKey::TESTING_ONLY_GenericWrapper;
struct Keys : c10::TensorImpl {  // the way to a protected member that LibTorch has no function for
  static c10::DispatchKeySet& of(const Tensor& tensor) { return tensor.unsafeGetTensorImpl()->*(&Keys::key_set_); }
};

inline void refuse(const c10::OperatorHandle& op, torch::jit::Stack* arguments) {
  std::string name;
  const auto look = [&](const Tensor& t) { name = t.defined() && t.key_set().has(kNoMemory) ? t.name() : name; };
  for (const c10::IValue& argument : *arguments) {
    if (argument.isTensor()) look(argument.toTensor());
    if (argument.isTensorList()) std::ranges::for_each(argument.toTensorVector(), look);
  }
  throw reshard::Error(reshard::ErrorCode::model,
                       "parameter \"" + name + "\" is used by " + op.schema().name() + " outside of its unit's hooks",
                       "", "use it in its module's forward, or read it by Runtime::read or Runtime::whole");
}
inline const torch::Library kRefusal = [] {
  torch::Library library(torch::Library::IMPL, "_", kNoMemory, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
  return library;
}();

// A unit's parameters on one storage that owns nothing (see the note). REQUIRES: what declare() checks.
struct UnitStorage {
  explicit UnitStorage(const std::vector<Tensor>& of) : parameters(of) {
    for (const Tensor& p : parameters) p.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
    point_nowhere();
  }
  void point_at(const std::vector<float*>& memory) {  // one address per parameter, all in one block
    float* base = memory.empty() ? nullptr : *std::ranges::min_element(memory);
    std::ptrdiff_t length = 0;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      parameters[i].unsafeGetTensorImpl()->set_storage_offset(memory[i] - base);
      length = std::max(length, memory[i] - base + parameters[i].numel());
      Keys::of(parameters[i]) = Keys::of(parameters[i]).remove(kNoMemory);
    }
    storage.set_data_ptr_noswap({base, torch::kCPU});
    storage.set_nbytes(static_cast<std::size_t>(length) * sizeof(float));
  }
  void point_nowhere() {
    point_at({});
    for (const Tensor& p : parameters) p.mutable_grad() = Tensor(), Keys::of(p) = Keys::of(p).add(kNoMemory);
  }
  std::vector<Tensor> parameters;
  c10::Storage storage{c10::Storage::use_byte_size_t(), 0, {nullptr, torch::kCPU}};
  std::function<void()> begins = {}, ends = {};  // its backward
};

struct Boundary : torch::autograd::Function<Boundary> {  // the identity; its backward calls `*told`
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, std::function<void()>* told) {
    context->saved_data["told"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(told));
    context->set_materialize_grads(false);
    return input;
  }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext* context, std::vector<Tensor> gradients) {
    (*reinterpret_cast<std::function<void()>*>(static_cast<intptr_t>(context->saved_data["told"].toInt())))();
    return {gradients[0], Tensor()};
  }
};

// One unit per module of the Sequential net.`blocks`, and the root for all other parameters. Throws Error(model).
inline reshard::Model declare(const torch::nn::Module& net, const std::string& blocks) {
  std::vector<reshard::UnitSpec> units{{.name = "root"}};
  for (const auto& block : net.named_children()[blocks]->named_children())
    units.push_back({.name = blocks + "." + block.key()});
  std::map<const void*, std::string> names;
  for (const auto& [name, tensor] : net.named_parameters().pairs()) {
    if (tensor.scalar_type() != torch::kFloat || !tensor.device().is_cpu() || !tensor.is_contiguous())
      throw reshard::Error(reshard::ErrorCode::model, "parameter \"" + name + "\" is not contiguous fp32 on the CPU");
    const std::string tied = names.emplace(tensor.unsafeGetTensorImpl(), name).first->second;
    std::size_t u = units.size() - 1;
    while (u > 0 && !name.starts_with(units[u].name + ".")) --u;
    units[u].parameters.push_back({.name = name, .shape = tensor.sizes().vec(), .trainable = tensor.requires_grad()});
    if (tied != name) units[u].parameters.back().same_as = tied;
  }
  reshard::Model model(units[0]);
  for (std::size_t u = 1; u < units.size(); ++u) model.add(units[u]);
  model.compute_only_in(reshard::Dtype::fp32);
  return model;
}

class Units {
 public:
  // [collective] Fills the shards with the net's values, takes its memory, and puts hooks around the modules of
  // net.`blocks`. REQUIRES: the runtime's model is declare()'s; net and runtime outlive this, and this outlives losses.
  Units(torch::nn::Module& net, const std::string& blocks, reshard::Runtime& runtime) : runtime_(runtime) {
    const auto named = net.named_parameters();
    runtime.fill([&](std::string_view name, int64_t offset, std::span<float> values) {
      std::copy_n(named[std::string(name)].data_ptr<float>() + offset, values.size(), values.data());
    });
    for (int u = 0; u < runtime.model().unit_count(); ++u) {
      std::vector<Tensor> parameters;
      for (const auto& parameter : runtime.model().spec({u}).parameters) parameters.push_back(named[parameter.name]);
      UnitStorage& unit = units_.emplace_back(parameters);
      unit.begins = [this, u] { begin_backward(u); }, unit.ends = [this, u] { end_backward(u); };
    }
    for (const auto& [name, tensor] : named.pairs()) torch::autograd::impl::set_name(tensor, name);
    for (int u = 0; auto& module : *net.named_children()[blocks]->as<torch::nn::Sequential>()) {
      const auto hooked = [this, u = ++u, module](const Tensor& x) mutable { return run(u, x, module); };
      module = torch::nn::Functional(hooked).ptr();
    }
  }
  Units(const Units&) = delete;

  // Runs `pass`, which calls the net's forward, in the root's hooks, and the backward of what it returned.
  Tensor forward(const std::function<Tensor()>& pass) {
    Tensor output;
    guarded([&] { output = in_forward(0, pass); });
    return output;
  }
  void backward(const Tensor& loss) {
    guarded([&] { begin_backward(0), loss.backward(), end_backward(0); });
  }

 private:
  Tensor run(int u, const Tensor& input, torch::nn::AnyModule& module) {
    return in_forward(u, [&] {
      Tensor output = module.forward<Tensor>(input.requires_grad() ? Boundary::apply(input, &units_[u].ends) : input);
      return output.requires_grad() ? Boundary::apply(output, &units_[u].begins) : output;
    });
  }
  Tensor in_forward(int u, const std::function<Tensor()>& pass) {
    open(u, runtime_.before_forward({u}));
    Tensor output = pass();
    units_[u].point_nowhere();
    runtime_.after_forward({u});
    return output;
  }
  void begin_backward(int u) {
    const reshard::View view = runtime_.before_backward({u});
    open(u, view);
    in_backward_.push_back(u);
    for (int i = -1; const Tensor& p : units_[u].parameters)  // autograd adds into a gradient that is there
      if (++i, p.requires_grad()) p.mutable_grad() = torch::from_blob(view.gradient(i).data(), p.sizes());
  }
  void end_backward(int u) {  // and of what began in it and has no end of its own
    for (int last = -1; last != u; in_backward_.pop_back()) {
      units_[last = in_backward_.back()].point_nowhere();
      runtime_.after_backward({last});
    }
  }
  void open(int u, const reshard::View& view) {
    std::vector<float*> memory(units_[u].parameters.size());  // torch has no read-only tensors
    for (int i = 0; float*& address : memory) address = const_cast<float*>(view.parameter(i++).data());
    units_[u].point_at(memory);
  }
  void guarded(const std::function<void()>& body) {
    try {
      body();
    } catch (...) {
      for (UnitStorage& unit : units_) unit.point_nowhere();
      in_backward_.clear();
      runtime_.abandon();
      throw;
    }
  }
  reshard::Runtime& runtime_;
  std::vector<UnitStorage> units_;  // complete before the first pass: boundaries point into it
  std::vector<int> in_backward_;    // units whose backward has begun and not ended, in this order
};

}  // namespace sharded
