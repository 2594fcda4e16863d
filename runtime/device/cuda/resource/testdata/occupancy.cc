// Prints occupancy.tsv: what the calculator of the CUDA toolkit says. g++ -o occupancy occupancy.cc && ./occupancy > occupancy.tsv
#include <cstdio>
#include <cuda_occupancy.h>

int main() {
  const struct { int arch, shared; } gpus[] = {{80, 167936}, {90, 233472}};
  const int registers[] = {16, 24, 32, 33, 40, 41, 48, 56, 63, 64, 65, 80, 96, 97, 127, 128, 168, 255};
  const int threads[] = {32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 672, 1024};
  const int shared[] = {0, 32, 1024, 8192, 20608, 49152};
  printf("# cuda_occupancy.h of CUDA %d.%d\narch\tregisters\tthreads\tshared\tblocks\tby_registers\tby_threads\tby_shared\tby_multiprocessor\n", 11, 8);
  for (const auto& g : gpus)
    for (int r : registers)
      for (int t : threads)
        for (int s : shared) {
          cudaOccDeviceProp p;
          p.computeMajor = g.arch / 10;
          p.computeMinor = g.arch % 10;
          p.maxThreadsPerBlock = 1024;
          p.maxThreadsPerMultiprocessor = 2048;
          p.regsPerBlock = p.regsPerMultiprocessor = 65536;
          p.warpSize = 32;
          p.numSms = 132;
          p.sharedMemPerBlock = 49152;
          p.sharedMemPerMultiprocessor = g.shared;
          p.reservedSharedMemPerBlock = 1024;
          p.sharedMemPerBlockOptin = g.shared - 1024;
          cudaOccFuncAttributes a;
          a.maxThreadsPerBlock = 1024;
          a.numRegs = r;
          a.sharedSizeBytes = s;
          a.partitionedGCConfig = PARTITIONED_GC_OFF;
          a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          a.maxDynamicSharedSizeBytes = 0;
          a.numBlockBarriers = 1;
          cudaOccDeviceState state;
          state.cacheConfig = CACHE_PREFER_SHARED;
          state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
          cudaOccResult o;
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&o, &p, &a, &state, t, 0) != CUDA_OCC_SUCCESS) return 1;
          printf("%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", g.arch, r, t, s, o.activeBlocksPerMultiprocessor, o.blockLimitRegs, o.blockLimitWarps, o.blockLimitSharedMem, o.blockLimitBlocks);
        }
}
