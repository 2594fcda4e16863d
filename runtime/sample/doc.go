// Package sample picks the next token from a model's logits.
//
// A [Sampler] runs llama.cpp's chain with llama.cpp's names, defaults and order:
//
//	logit bias, then penalties; dry; top_n_sigma; top_k; typ_p; top_p; min_p; xtc; temperature, then one draw
//
// Each stage sees the candidates that the stages before it left, and each leaves at least one.
// The stages, for candidates with logits l[i], their largest m, and p = softmax(l):
//
//	penalties    l[i] /= r where l[i] > 0, else l[i] *= r; then l[i] -= count[i]*f + g      for ids seen in the window
//	dry          nothing: its multiplier is 0 here, as in llama.cpp's defaults; the name is accepted in an order
//	top_n_sigma  keeps l[i] >= m - n*sigma, sigma the standard deviation of the finite logits
//	top_k        keeps the k largest; 0 and -1 keep all
//	typ_p        keeps the least |-log p[i] - H| first, H the entropy, until their sum of p reaches the bound
//	top_p        keeps the most probable first, until their sum of p reaches the bound
//	min_p        keeps p[i] >= bound * max p, that is l[i] - m >= log(bound)
//	xtc          with the given chance, drops every candidate with p >= threshold except the least probable of them
//	temperature  l[i] /= t
//
// Temperature 0 (or -0) is greedy: the largest logit after bias and penalties, whatever the other stages and the seed
// say. Equal logits rank by id, the lowest first, in every stage that ranks.
//
// # The same seed gives the same tokens on every platform
//
// The random stream is PCG-DXSM of math/rand/v2 seeded with (seed, 0); a draw takes the upper 53 bits of one value.
// Sums run in a fixed order in float64, and exp and log are this package's own: those of package math differ in the
// last bit between architectures, and a compiler may fuse a product with a sum unless told not to. Tests pin the first
// values of the stream and the bits of exp and log.
//
// # Cost
//
// One pass over the logits checks them and keeps the k best in a heap, which are then ranked. Nothing sorts the whole vocabulary:
// where top_k is off, top_p first drops what cannot be in its set and takes the rest from a heap. No stage allocates once the
// buffers have grown to the vocabulary. Where a few of the largest logits decide, the sampler says how many ([Sampler.Top]),
// and a device that finds them need not give all others away.
package sample
