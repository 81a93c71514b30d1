// Where the matrices of a batched product lie before reshapes and transposes bring them into the order that the product
// takes, and after those that take its result elsewhere. Called by fuse_attention, whose ops take them as they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "aspen/compiler/ir/builder.h"

namespace aspen {

// A tensor that holds matrices (N, rows, columns) in the order (N / heads, rows, heads, columns).
struct MatrixPlace {
  Value* value = nullptr;
  std::int64_t heads = 1;   // 0: any number of them, as there is one row
  double factor = 1;        // the operand of the product is so many times as large
  std::int64_t copies = 0;  // that ops still make between it and the far end of the walk
};

// Matrices that a product reads or gives, and where they lie from there outwards.
class ProductMatrices {
 public:
  // From an operand back; a transposed one is stored (N, columns, rows). Passes factors on the way if asked to.
  static ProductMatrices read_by(const Op& product, std::size_t input, bool is_transposed, bool passes_factors);
  // From the result on, as long as nobody else sees what lies between.
  static ProductMatrices made_by(const Op& product, bool is_transposed);

  const std::vector<MatrixPlace>& places() const { return places_; }
  std::int64_t rows() const;
  std::int64_t columns() const;
  // How many elements of each matrix are copied if they are to lie for so many heads.
  std::int64_t copied(std::int64_t heads) const;

  // (N / heads, rows, heads, columns); multiplies `scale` with the factor that is left out.
  Value* lay_out(Builder& b, std::int64_t heads, double& scale) const;
  // Lets such a tensor stand for the result.
  void replace(Builder& b, Value* by) const;

 private:
  ProductMatrices(Value* value, bool is_transposed) : value_(value), is_transposed_(is_transposed) {}
  // The farthest place for so many heads; nullptr: there is none.
  const MatrixPlace* find(std::int64_t heads) const;

  Value* value_;
  bool is_transposed_;
  std::vector<MatrixPlace> places_;
  std::int64_t copies_ = 0;  // that ops make along the whole walk
};

// The operand that mul or div multiplies with one number; nullptr: it is another op, or there is none.
Value* scaled_operand(const Op& op, double& factor);

}  // namespace aspen
