// Statistics shared by the normalisation, statistics and loss handlers.
#pragma once

#include "poptorch/aten/support/expression.h"

namespace poptorch {

struct Normalized {
  Expr y, mean, rstd;  // mean and rstd: axes kept with size 1
};
Normalized normalize(Expr x, Axes axes, double epsilon);

// Mean of squared distances from the mean, in two passes, over n - correction.
Expr variance(Expr x, const Axes& axes, double correction, bool keep);
// Square root whose gradient at 0 is 0 instead of infinite: the convention of torch for norms and deviations.
Expr safe_sqrt(Expr x);
// (sum |x|^p)^(1/p); p may be 0 (count of what is not 0), 1, 2, infinite or anything else.
Expr vector_norm(Expr x, double p, const Axes& axes, bool keep);

}  // namespace poptorch
