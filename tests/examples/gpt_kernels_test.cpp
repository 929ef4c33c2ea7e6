// Every instruction set's kernels against their formulas in double precision, at sizes around the registers' widths.

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "examples/gpt/kernels.h"
#include "examples/gpt/random.h"

namespace gpt {
namespace {

std::vector<const Kernels*> all_kernels() {
  const Kernels* tables[3] = {};
  const int count = available_kernels(tables);
  return {tables, tables + count};
}

std::vector<float> random_row(size_t n, uint64_t stream, double scale = 1) {
  std::vector<float> row(n);
  for (size_t i = 0; i < n; ++i) row[i] = static_cast<float>(scale * random_normal(3, stream, i));
  return row;
}

double gelu(double u) {
  return 0.5 * u * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u * u * u)));
}
double gelu_slope(double u) {
  const double t = std::tanh(std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u * u * u));
  return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * u * u);
}

class Isa : public testing::TestWithParam<const Kernels*> {};

TEST_P(Isa, GeluAndItsSlope) {
  std::vector<float> u;
  for (int i = -24000; i <= 24000; ++i) u.push_back(static_cast<float>(i) / 2000.0F);
  u.insert(u.end(), {-1e4F, 1e4F, 0.0F, -0.0F, 1e-30F});
  std::vector<float> out(u.size()), again(u.size()), du(u.size(), 1.0F);
  GetParam()->gelu_forward(static_cast<int64_t>(u.size()), u.data(), out.data());
  GetParam()->gelu_backward(static_cast<int64_t>(u.size()), u.data(), du.data(), again.data());
  EXPECT_EQ(out, again);
  for (size_t i = 0; i < u.size(); ++i) {
    const double x = static_cast<double>(u[i]);
    ASSERT_NEAR(static_cast<double>(out[i]), gelu(x), 3e-7 * (std::abs(gelu(x)) + 0.1)) << x;
    ASSERT_NEAR(static_cast<double>(du[i]), gelu_slope(x), 6e-7) << x;
  }
}

TEST_P(Isa, NormAndItsGradients) {
  for (const size_t width : {1, 3, 8, 15, 16, 17, 64, 67, 384}) {
    const size_t rows = 3;
    const std::vector<float> x = random_row(rows * width, 1), gain = random_row(width, 2), bias = random_row(width, 3);
    const std::vector<float> dout = random_row(rows * width, 4);
    std::vector<float> normed(rows * width), inverse(rows), out(rows * width), again(rows * width);
    std::vector<float> dx(rows * width, 1.0F), dgain(width, 2.0F), dbias(width, 3.0F);
    const auto r = static_cast<int64_t>(rows), w = static_cast<int64_t>(width);
    GetParam()->norm_forward({r, w, x.data(), gain.data(), bias.data(), normed.data(), inverse.data(), out.data()});
    GetParam()->norm_backward({r, w, normed.data(), inverse.data(), gain.data(), bias.data(), dout.data(), dx.data(),
                               dgain.data(), dbias.data(), again.data()});
    std::vector<double> wanted_gain(width, 2.0), wanted_bias(width, 3.0);
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = row * width;
      const double n = static_cast<double>(width);
      double mean = 0, variance = 0, d_mean = 0, d_slope = 0;
      auto X = [&](size_t i) { return static_cast<double>(x[at + i]); };
      auto D = [&](size_t i) { return static_cast<double>(dout[at + i]) * static_cast<double>(gain[i]); };
      for (size_t i = 0; i < width; ++i) mean += X(i) / n;
      for (size_t i = 0; i < width; ++i) variance += (X(i) - mean) * (X(i) - mean) / n;
      const double s = 1 / std::sqrt(variance + 1e-5);
      for (size_t i = 0; i < width; ++i) {
        d_mean += D(i) / n;
        d_slope += D(i) * (X(i) - mean) * s / n;
      }
      for (size_t i = 0; i < width; ++i) {
        const double hat = (X(i) - mean) * s;
        ASSERT_NEAR(static_cast<double>(out[at + i]), hat * static_cast<double>(gain[i]) + static_cast<double>(bias[i]),
                    4e-6);
        // One element's norm has slope 1/sqrt(1e-5): allow for that factor.
        ASSERT_NEAR(static_cast<double>(dx[at + i]), 1 + s * (D(i) - d_mean - hat * d_slope), 2e-6 * (1 + s));
        wanted_gain[i] += static_cast<double>(dout[at + i]) * hat;
        wanted_bias[i] += static_cast<double>(dout[at + i]);
      }
    }
    for (size_t i = 0; i < width; ++i) {
      ASSERT_NEAR(static_cast<double>(dgain[i]), wanted_gain[i], 4e-6);
      ASSERT_NEAR(static_cast<double>(dbias[i]), wanted_bias[i], 4e-6);
    }
    for (size_t i = 0; i < again.size(); ++i) ASSERT_NEAR(again[i], out[i], 2e-6F);
  }
}

TEST_P(Isa, CausalSoftmaxAndItsGradient) {
  for (const int64_t columns : {1, 7, 16, 33, 64, 131}) {
    const int64_t first = columns / 3, rows = columns - first, stride = columns + 5;
    const std::vector<float> scores = random_row(static_cast<size_t>(rows * stride), 5, 30);
    const std::vector<float> d = random_row(static_cast<size_t>(rows * stride), 6);
    std::vector<float> p = scores, ds = d;
    const CausalRows block = {.rows = rows, .columns = columns, .stride = stride, .first = first, .scale = 0.25F};
    GetParam()->causal_softmax(block, p.data());
    GetParam()->causal_softmax_backward(block, p.data(), ds.data());
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t seen = first + r + 1;
      auto at = [&](int64_t c) { return static_cast<size_t>(r * stride + c); };
      double top = -1e9, total = 0, mean = 0;
      for (int64_t c = 0; c < seen; ++c) top = std::max(top, 0.25 * static_cast<double>(scores[at(c)]));
      for (int64_t c = 0; c < seen; ++c) total += std::exp(0.25 * static_cast<double>(scores[at(c)]) - top);
      auto P = [&](int64_t c) { return std::exp(0.25 * static_cast<double>(scores[at(c)]) - top) / total; };
      for (int64_t c = 0; c < seen; ++c) mean += P(c) * static_cast<double>(d[at(c)]);
      for (int64_t c = 0; c < stride; ++c) {
        if (c < seen) {
          ASSERT_NEAR(static_cast<double>(p[at(c)]), P(c), 3e-6 * P(c) + 1e-12);
          ASSERT_NEAR(static_cast<double>(ds[at(c)]), 0.25 * P(c) * (static_cast<double>(d[at(c)]) - mean), 2e-6);
        } else if (c < columns) {
          ASSERT_EQ(p[at(c)], 0);
          ASSERT_EQ(ds[at(c)], 0);
        } else {
          ASSERT_EQ(p[at(c)], scores[at(c)]);  // past the columns nothing is touched
        }
      }
    }
  }
}

TEST_P(Isa, CrossEntropyAndItsGradient) {
  for (const int64_t width : {1, 2, 15, 16, 50, 256}) {
    const std::vector<int32_t> targets = {0, static_cast<int32_t>(width - 1)};
    const std::vector<float> logits = random_row(static_cast<size_t>(2 * width), 7, 20);
    std::vector<float> d = logits;
    const double sum = GetParam()->cross_entropy(2, width, 0.5F, targets.data(), d.data());
    double wanted = 0;
    for (int64_t r = 0; r < 2; ++r) {
      auto L = [&](int64_t c) { return static_cast<double>(logits[static_cast<size_t>(r * width + c)]); };
      double total = 0;
      for (int64_t c = 0; c < width; ++c) total += std::exp(L(c));
      wanted += std::log(total) - L(targets[static_cast<size_t>(r)]);
      for (int64_t c = 0; c < width; ++c) {
        const double hit = c == targets[static_cast<size_t>(r)] ? 1 : 0;
        ASSERT_NEAR(static_cast<double>(d[static_cast<size_t>(r * width + c)]), 0.5 * (std::exp(L(c)) / total - hit),
                    2e-6);
      }
    }
    EXPECT_NEAR(sum, wanted, 1e-6 * (1 + wanted));
  }
}

TEST_P(Isa, RowsAndSums) {
  for (const int64_t width : {1, 5, 16, 31, 48}) {
    for (const int64_t rows : {1, 4, 7}) {
      const auto n = static_cast<size_t>(rows * width);
      const std::vector<float> y = random_row(n, 8), bias = random_row(static_cast<size_t>(width), 9);
      std::vector<float> filled(n), added = y, sums = bias, both(n);
      GetParam()->fill_rows(rows, width, bias.data(), filled.data());
      GetParam()->add_to_rows(rows, width, bias.data(), added.data());
      GetParam()->add(static_cast<int64_t>(n), filled.data(), y.data(), both.data());
      GetParam()->add_row_sum(rows, width, y.data(), sums.data());
      EXPECT_EQ(added, both);
      for (size_t c = 0; c < static_cast<size_t>(width); ++c) {
        double sum = static_cast<double>(bias[c]);
        for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
          sum += static_cast<double>(y[r * static_cast<size_t>(width) + c]);
          ASSERT_EQ(filled[r * static_cast<size_t>(width) + c], bias[c]);
        }
        ASSERT_NEAR(static_cast<double>(sums[c]), sum, 2e-6);
      }
    }
  }
}

TEST_P(Isa, NotANumberStaysOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> u(20, 1.0F), out(20), logits(20, 1.0F);
  u[3] = logits[3] = nan;
  GetParam()->gelu_forward(20, u.data(), out.data());
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_FALSE(std::isnan(out[4]));
  const int32_t target = 0;
  EXPECT_TRUE(std::isnan(GetParam()->cross_entropy(1, 20, 1.0F, &target, logits.data())));
}

INSTANTIATE_TEST_SUITE_P(Available, Isa, testing::ValuesIn(all_kernels()),
                         [](const auto& row) { return std::string(row.param->name); });

}  // namespace
}  // namespace gpt
