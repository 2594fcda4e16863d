package cuda

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
)

// reserved are the words of C++ and the types of CUDA that no digit can be called.
var reserved = strings.Fields(`alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield
	compl concept const const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern false float
	for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
	requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
	unsigned using virtual void volatile wchar_t while xor xor_eq
	int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t int2 int4 uint2 uint4 float2 float4 a8_file`)

var (
	comment = regexp.MustCompile(`(?s)\{\{- /\*.*?\*/ -\}\}|//[^\n]*`)
	action  = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// defined are the names that a text declares or calls.
	defined = []*regexp.Regexp{
		regexp.MustCompile(`(?:^|[^.>\w])(\w+) = `),
		regexp.MustCompile(`MINFER_SHARED\([^,]+, (\w+),`),
		regexp.MustCompile(`[\w>][*&]* (\w+)(?:\[|;|,|\)|\{)`),
		regexp.MustCompile(`(?:^|[^.>:\w])(\w+)(?:<[^<>;]*>)?\(`),
	}
)

// Names finds digits whose names a kernel cannot have: of the grid and of threads where the text of its body has another use for the name, since
// the kernel declares them; of loops and slots where the text has no such name, since nothing would count them.
func Names(c *model.Catalog, pos *load.Positions) (diags diag.List) {
	for _, fam := range c.Families {
		text, err := fs.ReadFile(sources, "templates/"+fam.Template+".cu.tmpl")
		if err != nil {
			continue // Emit says so
		}
		text = comment.ReplaceAll(text, nil)
		uses := map[string]string{}
		for _, pattern := range defined {
			for _, m := range pattern.FindAllSubmatch(action.ReplaceAll(text, nil), -1) {
				uses[string(m[1])] = "a name that body " + fam.Template + " itself has"
			}
		}
		for _, a := range fam.Args {
			uses[a.Name] = "an argument"
		}
		for _, word := range reserved {
			uses[word] = "a word of C++"
		}
		for _, d := range fam.Variants[0].Digits {
			declared, said := d.Place.Grid() || d.Place == layout.Thread, regexp.MustCompile(`\b`+d.Name+`\b`).Match(text)
			switch use := uses[d.Name]; {
			case declared && use != "":
				diags.Addf(pos.At(fam, "digits."+d.Name), "digit %s: the kernel would declare it, and that is %s; give it another name", d.Name, use)
			case !declared && !said && slices.ContainsFunc(fam.Variants, func(v *model.Variant) bool { return v.Value(d.Name) != 1 }):
				diags.Addf(pos.At(fam, "digits."+d.Name), "digit %s: body %s has no %s of this name", d.Name, fam.Template, d.Place)
			}
		}
	}
	return diags
}
