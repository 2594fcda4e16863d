// cuda.h put before the toolkit's on the include path: it includes the toolkit's, and holds what gorgonia.org/cu relies on in
// CUDA 11.8, 12 and 13. CUDA 13 gave six calls new parameters under their old names; here those names mean what they meant,
// which the driver still has.
#ifndef MINFER_CUDA_H
#define MINFER_CUDA_H

#include_next <cuda.h>

#if CUDA_VERSION < 11080
#error "minfer needs the headers of CUDA 11.8, 12 or 13: set CUDA_HOME to one"
#endif

#if CUDA_VERSION >= 13000
#undef cuCtxCreate
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuGraphGetEdges
#undef cuGraphAddDependencies
#undef cuEventElapsedTime
#define cuCtxCreate cuCtxCreate_v2

CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream);
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* edges);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count);
CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
#endif

#endif
