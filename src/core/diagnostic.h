// SPDX-License-Identifier: Apache-2.0
// How internal functions report a refusal: a status and a sentence, with no allocation.
#pragma once

#include "xqa/xqa.h"

namespace xqa {

class Diagnostic {
 public:
  // Writes through to the caller's struct, if there is one, honouring its struct_size.
  explicit Diagnostic(xqaDiagnostic_t* sink) : sink_(sink) {}

  // Records a printf-style sentence and returns the status, so that a refusal is one expression.
  [[gnu::format(printf, 3, 4)]] xqaStatus_t fail(xqaStatus_t status, const char* format, ...);

  // Records the CUDA error code beside the sentence.
  [[gnu::format(printf, 3, 4)]] xqaStatus_t failCuda(int cuda_error, const char* format, ...);

 private:
  xqaDiagnostic_t* sink_;
};

}  // namespace xqa
