// Package synth writes GGUF models of random weights with the shapes of real ones: as large, as many bytes to read per token,
// in the mixes of formats that llama.cpp makes. They answer nothing, but load, run and measure like the model whose shape they
// have, and need no download.
//
// A model is deterministic in its [Options]: the same file on every platform.
//
// # How the weights are made
//
// Each matrix stands for N(0, gain/sqrt(cols)) deviates, so that a vector keeps its magnitude through it. They are not drawn one by
// one: for each format and magnitude there is a pool of a few hundred thousand weights in valid blocks, and a row is
// laid from runs of the pool at random places, no two rows alike. Where generated/cpu declares a rounding
// scheme, the pool is normal deviates quantized by it. Where it declares none (the codebook and ternary formats), the pool is
// random codes under a block scale that is measured: the blocks are dequantized once and the scale set to give the
// magnitude.
//
// Norm weights are 1 ± 0.1, biases small, the factors of rotary embeddings those of the real model.
package synth
