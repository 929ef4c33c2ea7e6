// A model's declaration: what is accepted, the declared order, and the exact text of every refusal.

#include "reshard/model.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshard/error.h"

namespace reshard {
namespace {

Model small() {
  Model model({.name = "root", .parameters = {{"wte", {256, 8}}, {"ln_f", {8}, false}}});
  const Unit block = model.add({.name = "h.0", .parameters = {{"h.0.w", {8, 8}}}});
  model.add({.name = "h.0.mlp", .parameters = {{"h.0.mlp.w", {8, 32}}}}, block);
  model.add({.name = "h.1", .parameters = {{"h.1.w", {8, 8}}}});
  return model;
}

std::string refusal(const std::function<void()>& declare) {
  try {
    declare();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::model);
    return error.what();
  }
  return "accepted";
}

std::string added(UnitSpec spec, Unit parent = kRoot) {
  return refusal([&] { small().add(std::move(spec), parent); });
}

TEST(Model, HoldsWhatWasDeclared) {
  const Model model = small();
  EXPECT_EQ(model.unit_count(), 4);
  EXPECT_EQ(model.name(kRoot), "root");
  EXPECT_EQ(model.parent({2}), Unit{1});
  EXPECT_EQ(model.parent(kRoot), kRoot);
  EXPECT_EQ(model.find("h.0.mlp"), Unit{2});
  EXPECT_EQ(model.find_parameter("ln_f").unit, kRoot);
  EXPECT_EQ(model.find_parameter("ln_f").index, 1);
  EXPECT_EQ(model.find_parameter("h.1.w").unit, Unit{3});
  EXPECT_EQ(model.parameter_count(), 256 * 8 + 8 + 64 + 256 + 64);
  EXPECT_EQ(Parameter({.name = "scalar"}).elements(), 1);
}

TEST(Model, TheDeclaredOrderEntersChildrenInsideTheirParentAndRepeatsBoth) {
  EXPECT_EQ(small().forward_order(), (std::vector<int>{0, 1, 2, 3}));
  Model model({.name = "root"});
  const Unit outer = model.add({.name = "outer", .repeats = 2});
  model.add({.name = "next"});
  model.add({.name = "inner", .repeats = 3}, outer);
  EXPECT_EQ(model.forward_order(), (std::vector<int>{0, 1, 3, 3, 3, 1, 3, 3, 3, 2}));
}

TEST(Model, RefusesBadUnits) {
  EXPECT_EQ(added({.name = "h.2"}), "accepted");
  EXPECT_EQ(added({.name = "h.1"}), "unit \"h.1\": the model has a unit of this name already");
  EXPECT_EQ(added({.name = "root"}), "unit \"root\": the model has a unit of this name already");
  for (const char* name : {"", "h*", "h?", "h:1", "h\n1"})
    EXPECT_EQ(added({.name = name}),
              std::string("unit \"") + name + "\": a unit's name must not be empty or have '*', '?' or ':'");
  EXPECT_EQ(added({.name = "a", .repeats = 0}), "unit \"a\": repeats must be at least 1");
  EXPECT_EQ(added({.name = "a", .saved_bytes = -1}), "unit \"a\": saved_bytes must not be negative");
  EXPECT_EQ(added({.name = "a"}, {4}), "unit \"a\" has a parent that is not of this model");
  EXPECT_EQ(added({.name = "a"}, {-1}), "unit \"a\" has a parent that is not of this model");
  EXPECT_EQ(refusal([] { Model model({.name = ""}); }),
            "unit \"\": a unit's name must not be empty or have '*', '?' or ':'");
}

TEST(Model, RefusesWhatNoPlanCouldCount) {
  constexpr int64_t kMost = int64_t{1} << 56;
  const std::string nan = "unit \"a\": flops_forward and flops_backward must be finite and not negative, not ";
  EXPECT_EQ(added({.name = "a", .flops_forward = std::nan("")}), nan + "nan");
  EXPECT_EQ(added({.name = "a", .flops_backward = -1}), nan + "-1");
  EXPECT_EQ(added({.name = "a", .saved_bytes = kMost}), "accepted");
  EXPECT_EQ(added({.name = "a", .saved_bytes = kMost / 4 + 1, .repeats = 4}),
            "unit \"a\": with saved_bytes = 18014398509481985 a forward pass would save more than 2^56 bytes");
  EXPECT_EQ(added({.name = "a", .repeats = (1 << 20) - 4}), "accepted");
  EXPECT_EQ(added({.name = "a", .repeats = (1 << 20) - 3}),
            "unit \"a\": with repeats = 1048573 a forward pass would have more than 2^20 runs of units");
  Model nested({.name = "root"});
  const Unit outer = nested.add({.name = "outer", .repeats = 1000});
  const Unit inner = nested.add({.name = "inner", .repeats = 1000}, outer);
  EXPECT_EQ(refusal([&] { nested.add({.name = "innermost", .repeats = 1000}, inner); }),
            "unit \"innermost\": with repeats = 1000 a forward pass would have more than 2^20 runs of units");
  EXPECT_EQ(refusal([&] { nested.hold_bytes(-100000); }),
            "the program holds -100000 bytes; 0 to 2^56 can be counted");
  EXPECT_EQ(refusal([&] { nested.hold_bytes(kMost + 1); }),
            "the program holds 72057594037927937 bytes; 0 to 2^56 can be counted");
  EXPECT_EQ(refusal([&] { nested.hold_bytes(kMost); }), "accepted");
}

TEST(Model, OnlyTheRootIsCalledRoot) {
  Model model({.name = "top"});
  EXPECT_EQ(refusal([&] { model.add({.name = "root"}); }),
            "unit \"root\": in a job \"root\" is the model's root, here \"top\": no other unit may be called so");
}

TEST(ModelDeathTest, AUnitOfAnotherModelStopsTheProcess) {
  EXPECT_DEATH(small().spec({4}), "a unit is one that the model has given");
  EXPECT_DEATH(small().name({-1}), "a unit is one that the model has given");
  EXPECT_DEATH(small().parent({4}), "a unit is one that the model has given");
}

TEST(Model, RefusesBadParameters) {
  const std::string scale = "unit \"a\": parameter \"p\" has lr_scale = ";
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {1}, true, std::nan("")}}}),
            scale + "nan; it must be finite and not negative");
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {1}, true, -0.5}}}),
            scale + "-0.5; it must be finite and not negative");
  EXPECT_EQ(added({.name = "a", .parameters = {{"", {1}}}}), "unit \"a\": a parameter has no name");
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {4, 0}}}}),
            "unit \"a\": parameter \"p\" has a dimension of 0; each must be at least 1");
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {-3}}}}),
            "unit \"a\": parameter \"p\" has a dimension of -3; each must be at least 1");
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {int64_t{1} << 40, int64_t{1} << 40}}}}),
            "unit \"a\": parameter \"p\" has more than 2^56 elements");
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {int64_t{1} << 28, int64_t{1} << 28}}}}), "accepted");
  EXPECT_EQ(added({.name = "a", .parameters = {{"p", {1}}, {"q", {1}}, {"p", {2}}}}),
            "unit \"a\": parameter \"p\" is declared twice");
  EXPECT_EQ(added({.name = "a", .parameters = {{"wte", {256, 8}}}}),
            "unit \"a\": parameter \"wte\" belongs to unit \"root\" already (a shared parameter is declared once, in a "
            "unit that "
            "encloses its uses)");
}

TEST(Model, NamesTheNearestWhereNothingIsFound) {
  EXPECT_EQ(refusal([] { small().find("h.2"); }), "the model has no unit \"h.2\" (did you mean \"h.0\"?)");
  EXPECT_EQ(refusal([] { small().find("embedding"); }), "the model has no unit \"embedding\"");
  EXPECT_EQ(refusal([] { small().find_parameter("wtf"); }),
            "the model has no parameter \"wtf\" (did you mean \"wte\"?)");
  EXPECT_EQ(refusal([] { small().find_parameter("bias"); }), "the model has no parameter \"bias\"");
}

TEST(Model, TiedParametersOfOneUnitShareTheirMemory) {
  Model model({.name = "root", .parameters = {{.name = "wte", .shape = {10, 4}}, {.name = "head", .shape = {40}, .same_as = "wte"}}});
  EXPECT_EQ(model.parameter_count(), 40);
}

TEST(Model, ATiedParameterHasNoDecayOrScaleOfItsOwn) {
  const auto tied = [](bool decay, double scale, bool first_decay, double first_scale) {
    return refusal([&] {
      Model model({.name = "root",
                   .parameters = {{"wte", {10}, first_decay, first_scale},
                                  {.name = "head", .shape = {10}, .decay = decay, .lr_scale = scale, .same_as = "wte"}}});
    });
  };
  const std::string refused =
      "unit \"root\": parameter \"head\" is the same as \"wte\" and cannot have another decay or lr_scale (say them at "
      "\"wte\" alone)";
  EXPECT_EQ(tied(true, 1.0, true, 1.0), "accepted");
  EXPECT_EQ(tied(true, 1.0, false, 0.5), "accepted");  // left out
  EXPECT_EQ(tied(false, 0.5, false, 0.5), "accepted");
  EXPECT_EQ(tied(false, 1.0, true, 1.0), refused);
  EXPECT_EQ(tied(true, 0.5, true, 1.0), refused);
  EXPECT_EQ(tied(true, 0.5, true, 0.25), refused);
}

TEST(Model, TiedParametersOfTwoUnitsAreRefusedWithBothNames) {
  Model model({.name = "root", .parameters = {{.name = "wte", .shape = {10, 4}}}});
  const auto text = [&](Parameter parameter) {
    try {
      model.add({.name = "head", .parameters = {std::move(parameter)}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(text({.name = "lm", .shape = {10, 4}, .same_as = "wte"}),
            "unit \"head\": parameter \"lm\" of unit \"head\" is the same as \"wte\" of unit \"root\" (tied parameters "
            "belong to one unit: put both into one that encloses their uses)");
  EXPECT_EQ(text({.name = "lm", .shape = {10, 4}, .same_as = "wet"}),
            "unit \"head\": parameter \"lm\" is the same as \"wet\", which no parameter before it is called");
  EXPECT_EQ(text({.name = "lm", .shape = {4}, .block = -1}),
            "unit \"head\": parameter \"lm\" asks for blocks of -1 elements; they may have 1 to 1048576, or kUncut");
}

}  // namespace
}  // namespace reshard
