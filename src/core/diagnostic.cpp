// SPDX-License-Identifier: Apache-2.0
#include "core/diagnostic.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "core/struct_io.h"

namespace xqa {
namespace {

void write(xqaDiagnostic_t* sink, int cuda_error, const char* format, va_list arguments) {
  if (sink == nullptr) return;
  xqaDiagnostic_t text = {};
  text.cuda_error = cuda_error;
  // An older caller's message may be shorter: the sentence is cut so that its terminating zero fits
  // too.
  const size_t size = sink->struct_size < sizeof(text) ? sink->struct_size : sizeof(text);
  if (size > offsetof(xqaDiagnostic_t, message)) {
    std::vsnprintf(text.message, size - offsetof(xqaDiagnostic_t, message), format, arguments);
  }
  writeStruct(text, sink);
}

}  // namespace

xqaStatus_t Diagnostic::fail(xqaStatus_t status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(sink_, 0, format, arguments);
  va_end(arguments);
  return status;
}

xqaStatus_t Diagnostic::failCuda(int cuda_error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(sink_, cuda_error, format, arguments);
  va_end(arguments);
  return XQA_STATUS_CUDA_ERROR;
}

}  // namespace xqa
