/* dryrun: the formats that llama.cpp's quantize would give each tensor, without quantizing.
 *
 *   dryrun LIBDIR MODEL.gguf FTYPE IMATRIX [FTYPE IMATRIX ...]
 *
 * Prints "ftype N" and llama.cpp's own lines of each tensor. IMATRIX is 1 to choose as with an importance matrix. Loads the
 * prebuilt libllama of the npm package @node-llama-cpp/linux-x64@3.22.1; the offsets in the parameter struct hold for that
 * package version alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char b[512]; } blob;
static void print(int level, const char *text, void *u) { (void)level; (void)u; fputs(text, stdout); }
static void *must(void *p) {
    if (!p) { fprintf(stderr, "dryrun: %s\n", dlerror()); exit(1); }
    return p;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc % 2 == 0) { fprintf(stderr, "usage: dryrun LIBDIR MODEL FTYPE IMATRIX ...\n"); return 64; }
    char path[4096];
    snprintf(path, sizeof path, "%s/libggml.v0.5.0.so", argv[1]);
    void *ggml = must(dlopen(path, RTLD_NOW | RTLD_GLOBAL));
    snprintf(path, sizeof path, "%s/libllama.v0.5.0.so", argv[1]);
    void *lib = must(dlopen(path, RTLD_NOW | RTLD_GLOBAL));
    ((void (*)(void *, void *))must(dlsym(lib, "llama_log_set")))((void *)print, NULL);
    ((void (*)(const char *))must(dlsym(ggml, "ggml_backend_load_all_from_path")))(argv[1]);
    ((void (*)(void))must(dlsym(lib, "llama_backend_init")))();
    float one = 1;
    struct { const char *name; const float *data; size_t size; } imatrix[2] = {{"x", &one, 1}, {NULL, NULL, 0}};
    for (int i = 3; i < argc; i += 2) {
        blob q = ((blob (*)(void))must(dlsym(lib, "llama_model_quantize_default_params")))();
        void *im = atoi(argv[i + 1]) ? (void *)imatrix : NULL;
        ((int *)q.b)[1] = atoi(argv[i]); /* ftype */
        q.b[21] = 1;                     /* dry_run */
        memcpy(q.b + 24, &im, sizeof im);
        printf("ftype %s\n", argv[i]);
        if (((unsigned (*)(const char *, const char *, void *))must(dlsym(lib, "llama_model_quantize")))(argv[2], "/dev/null", &q)) return 2;
    }
    return 0;
}
