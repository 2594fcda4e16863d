// Arithmetic of the vocabulary, one kernel for each kind of operand. Every kernel is one thread for each element.
#include "minfer.cuh"

MINFER_DEVICE unsigned global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// All 65536 patterns of a half and of a bfloat16.
MINFER_KERNEL(widen_halves, 256, (float* f16, float* bf16, int n)) {
  const unsigned i = global_index();
  if (i >= (unsigned)n) return;
  f16[i] = f16_to_f32((uint16_t)i);
  bf16[i] = bf16_to_f32((uint16_t)i);
}

MINFER_KERNEL(narrow_floats, 256, (const float* x, unsigned short* f16, unsigned short* bf16, unsigned* f16s, unsigned* bf16s, int* whole, int n)) {
  const unsigned i = global_index();
  if (i >= (unsigned)n) return;
  f16[i] = f32_to_f16(x[i]);
  bf16[i] = f32_to_bf16(x[i]);
  f16s[i] = f16_pair(x[i], x[n - 1 - i]);
  bf16s[i] = bf16_pair(x[i], x[n - 1 - i]);
  whole[i] = round_even_int(x[i]);
}

MINFER_KERNEL(widen_exponents, 256, (float* e8m0, float* half)) {
  const unsigned i = global_index();
  e8m0[i] = e8m0_to_f32((uint8_t)i);
  half[i] = e8m0_half_to_f32((uint8_t)i);
}

// out: dp4a, dp4a_u, byte_perm, funnel_r, min, max of the same operands.
MINFER_KERNEL(integers, 256, (const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, int n)) {
  const unsigned i = global_index();
  if (i >= (unsigned)n) return;
  out[6 * i + 0] = (unsigned)dp4a((int)a[i], (int)b[i], (int)c[i]);
  out[6 * i + 1] = (unsigned)dp4a_u(a[i], (int)b[i], (int)c[i]);
  out[6 * i + 2] = byte_perm(a[i], b[i], c[i]);
  out[6 * i + 3] = funnel_r(a[i], b[i], c[i]);
  out[6 * i + 4] = (unsigned)min((int)a[i], (int)b[i]);
  out[6 * i + 5] = max(a[i], b[i]);
}

// a*b+c must round twice, fmaf once; the bits of floats pass unchanged.
MINFER_KERNEL(floats, 256, (const float* a, const float* b, const float* c, float* twice, float* once, float* root, unsigned* bits, int n)) {
  const unsigned i = global_index();
  if (i >= (unsigned)n) return;
  twice[i] = a[i] * b[i] + c[i];
  once[i] = fmaf(a[i], b[i], c[i]);
  root[i] = rsqrtf(fabsf(a[i])) + exp_approx(-fabsf(b[i])) + sqrtf(fabsf(c[i])) + min(a[i], b[i]) + fmaxf(b[i], c[i]);
  bits[i] = f32_bits(bits_f32(f32_bits(a[i]) ^ 0x80000000u));
}

// Every kind of parameter, as given.
MINFER_KERNEL(parameters, 1, (unsigned long long* out, int i, unsigned u, long long l, float f, const void* p)) {
  out[0] = (unsigned long long)(long long)i;
  out[1] = u;
  out[2] = (unsigned long long)l;
  out[3] = f32_bits(f);
  out[4] = p == nullptr;
}
