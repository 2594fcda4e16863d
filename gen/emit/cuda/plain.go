package cuda

import (
	"fmt"

	"github.com/minfer/minfer/gen/model"
)

// plain prints the unit of a format whose block is one number: elems of them in 16-byte pieces where the length allows.
func plain(f *model.Format, elems int) (string, error) {
	var word, read string
	code := f.Segs[0].Value.Weight[0]
	switch code.As {
	case model.F32:
		word, read = "uint32_t", "bits_f32(r.w[%s])"
	case model.F16, model.BF16:
		word, read = "uint16_t", string(code.As)+"_to_f32(r.w[%s])"
	default:
		return "", fmt.Errorf("%s: a number of type %s is no weight", f.Name, code.As)
	}
	bytes := elems * f.Bytes
	if bytes%16 != 0 {
		return "", fmt.Errorf("%s: a unit of %d elements is %d bytes, no multiple of 16", f.Name, elems, bytes)
	}
	name := unitName(f, model.LayoutFile, elems)
	return fmt.Sprintf(`// %[1]s: a unit is %[2]d numbers.
struct %[3]s {
  alignas(16) %[4]s w[%[2]d];
  static constexpr int elems = %[2]d, per_block = 1, block_elems = %[2]d, block_bytes = %[5]d;
  MINFER_DEVICE size_t row_bytes(int cols) { return (size_t)cols * %[8]d; }
};
MINFER_DEVICE void unit_load(%[3]s& r, const uint8_t* blk, int p) {
  MINFER_UNROLL
  for (int k = 0; k < %[6]d; k++) put16(reinterpret_cast<uint32_t*>(r.w) + 4 * k, load16(blk + %[5]d * p + 16 * k));
}
MINFER_DEVICE void unit_at(%[3]s& r, const uint8_t* row, int cols, int u) { unit_load(r, row + (size_t)u * %[3]s::block_bytes, 0); }
MINFER_DEVICE float unit_value(const %[3]s& r, int e) { return %[7]s; }
`, f.Name, elems, name, word, bytes, bytes/16, fmt.Sprintf(read, "e"), f.Bytes), nil
}
