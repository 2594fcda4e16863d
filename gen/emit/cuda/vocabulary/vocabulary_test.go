package vocabulary

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// words are the PTX instructions that the names must become; bulk ones where the toolkit knows them.
var words = []string{
	"ld.global.nc.u8", "ld.global.nc.u16", "ld.global.nc.u32", "ld.global.nc.v2.u32", "ld.global.nc.v4.u32", "ld.global.nc.L1::no_allocate.L2::256B.v4.u32",
	"ld.global.cg.u32", "ld.global.cg.v2.u32", "ld.global.cg.v4.u32", "ld.shared.v2.u32", "ld.shared.v4.u32", "st.global.v2.u32", "st.global.v4.u32",
	"dp4a.s32.s32", "dp4a.u32.s32", "prmt.b32", "shf.r.wrap.b32", "cvt.f32.f16", "cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.rni.s32.f32", "ex2.approx", "fma.rn.f32",
	"shfl.sync.bfly.b32", "shfl.sync.down.b32", "shfl.sync.idx.b32", "vote.sync.any.pred", "vote.sync.all.pred", "vote.sync.ballot.b32", "bar.warp.sync",
	"bar.sync \t0", "bar.sync %", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
	"ldmatrix.sync.aligned.m8n8.x2.shared.b16", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
	"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
	"cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group 1", "mbarrier.init.shared.b64",
	"atom.global.add.f32", "atom.global.add.u32", "atom.global.max.u32", "atom.global.max.u64", "atom.global.inc.u32", "atom.acq_rel.gpu.global.inc.u32", "membar.gl", ".maxntid 256", ".minnctapersm 8", "minfer_bounds_words",
}

var wordsByArch = map[string][]string{
	"80": {"mbarrier.test_wait.parity.shared.b64", "mbarrier.arrive.shared.b64"},
	"90": {"mbarrier.try_wait.parity.shared.b64", "griddepcontrol.wait", "griddepcontrol.launch_dependents"},
}

var bulkWords = []string{
	"mbarrier.arrive.expect_tx.shared::cta.b64", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "cp.async.bulk.prefetch.L2.global",
	"fence.proxy.async.shared::cta", "fence.mbarrier_init.release.cluster",
}

// wgmmaWords need a toolkit of the same release, and the target sm_90a.
var wgmmaWords = []string{
	"wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 0",
	"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
	"wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16",
}

// TestNvccMakesOfEachWord compiles a kernel that says every word, and looks for the instructions in the PTX; it also assembles it, which checks
// their operands.
func TestNvccMakesOfEachWord(t *testing.T) {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Skip("skipped: nvcc is not on the path; Debian's nvidia-cuda-toolkit has it")
	}
	version, err := exec.Command(nvcc, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`release (\d+)\.`).FindSubmatch(version)
	if release == nil {
		t.Fatalf("nvcc does not say its version: %s", version)
	}
	major, _ := strconv.Atoi(string(release[1]))
	dir := t.TempDir()
	if major >= 12 {
		wordsByArch["90"] = append(wordsByArch["90"], bulkWords...)
		wordsByArch["90a"] = append(slices.Clone(wordsByArch["90"]), wgmmaWords...)
	}
	for arch, more := range wordsByArch {
		for _, define := range []string{"", "MINFER_WITNESS", "MINFER_MARKS", "MINFER_LANES_ARRIVE"} {
			if define != "" && arch != "90" {
				continue
			}
			args := []string{"-I", ".", "-arch=sm_" + arch, "-Xptxas", "-v"}
			want := append(append([]string{}, words...), more...)
			if define != "" {
				args = append(args, "-D"+define)
			}
			if define == "MINFER_WITNESS" || define == "MINFER_MARKS" {
				want = append(want, strings.ToLower(define))
			}
			ptx := filepath.Join(dir, "words.ptx")
			if out, err := exec.Command(nvcc, append(args, "-ptx", "-o", ptx, "testdata/words.cu")...).CombinedOutput(); err != nil {
				t.Fatalf("sm_%s: %v\n%s", arch, err, out)
			}
			text, err := os.ReadFile(ptx)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if !strings.Contains(string(text), w) {
					t.Errorf("sm_%s: no %q in the PTX", arch, w)
				}
			}
			out, err := exec.Command(nvcc, append(args, "-cubin", "-o", filepath.Join(dir, "words.cubin"), "testdata/words.cu")...).CombinedOutput()
			if err != nil {
				t.Fatalf("sm_%s: %v\n%s", arch, err, out)
			}
			if !strings.Contains(string(out), "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") {
				t.Errorf("sm_%s: the words need a stack:\n%s", arch, out)
			}
		}
	}
}
