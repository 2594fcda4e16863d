package spec

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/minfer/minfer/gen/diag"
)

// Set is every spec of a specs folder, in the order of the file names.
type Set struct {
	Formats []*Format
	Tables  []*Table
	Layouts []*Layout
	Devices []*Device
	Kernels []*Kernel
	Models  []*Models
	Tilings []*Tiling
	Routes  []*Routes

	faulty map[string]bool // folders with a file that has a fault
}

// Faulty reports whether a file in one of the folders has a fault of its own, or is missing here for it.
func (s *Set) Faulty(folders ...string) bool {
	return slices.ContainsFunc(folders, func(dir string) bool { return s.faulty[dir] })
}

// maxFileBytes bounds a spec: the largest written by hand has 11 kB, and measured routes take 250 bytes each.
const maxFileBytes = 256 << 10

// Root is the name under which diagnostics and headers speak of the specs folder, wherever it lies.
const Root = "specs"

// kind is a kind of spec, known by the folder that its files are in.
type kind struct {
	dir   string
	proto any // a value of the struct that mirrors the file, for Schema
	read  func(file string, data []byte, set *Set, diags *diag.List)
}

// free is lines that list free parameters. They say nothing of the kernels that are emitted, so that a digest does not count them: another
// value to try does not make every kernel of the family a new text to compile.
var free = regexp.MustCompile(`(?m)^ *free: \{.*\}\n`)

var kinds = []kind{
	{"formats", Format{}, func(file string, data []byte, set *Set, diags *diag.List) {
		if f := ParseFormat(file, data, diags); f != nil {
			set.Formats = append(set.Formats, f)
		}
	}},
	{"formats/tables", Table{}, func(file string, data []byte, set *Set, diags *diag.List) {
		if t := ParseTable(file, data, diags); t != nil {
			set.Tables = append(set.Tables, t)
		}
	}},
	{"layouts", Layout{}, func(file string, data []byte, set *Set, diags *diag.List) {
		before := len(*diags)
		if v := parse[Layout](file, data, diags); v != nil {
			v.Digest, v.Faulty = digest(data), len(*diags) > before
			set.Layouts = append(set.Layouts, v)
		}
	}},
	{"devices", Device{}, func(file string, data []byte, set *Set, diags *diag.List) {
		before := len(*diags)
		if v := parse[Device](file, data, diags); v != nil {
			v.Faulty = len(*diags) > before
			set.Devices = append(set.Devices, v)
		}
	}},
	{"kernels", Kernel{}, func(file string, data []byte, set *Set, diags *diag.List) {
		before := len(*diags)
		if k := parse[Kernel](file, data, diags); k != nil {
			k.Digest, k.Faulty = digest(free.ReplaceAll(normal(data), nil)), len(*diags) > before
			set.Kernels = append(set.Kernels, k)
		}
	}},
	{"tiles", Tiling{}, func(file string, data []byte, set *Set, diags *diag.List) {
		before := len(*diags)
		if v := parse[Tiling](file, data, diags); v != nil {
			v.Faulty = len(*diags) > before
			set.Tilings = append(set.Tilings, v)
		}
	}},
	{"routes", Routes{}, func(file string, data []byte, set *Set, diags *diag.List) {
		if v := ParseRoutes(file, data, diags); v != nil {
			set.Routes = append(set.Routes, v)
		}
	}},
	{"models", Models{}, func(file string, data []byte, set *Set, diags *diag.List) {
		before := len(*diags)
		if m := parse[Models](file, data, diags); m != nil {
			m.Faulty = len(*diags) > before
			set.Models = append(set.Models, m)
		}
	}},
}

// Read parses every spec below the root of fsys. Positions name the files as specs/formats/NAME.yaml. What is wrong
// with the files is in the diagnostics; the error is a folder or a file that cannot be read.
func Read(fsys fs.FS) (*Set, diag.List, error) {
	var files []string
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && name != "." {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if name != "embed.go" && (!d.IsDir() || path.Ext(name) == ".yaml") {
			files = append(files, name)
		}
		if d.IsDir() && path.Ext(name) == ".yaml" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the specs: %w", err)
	}
	slices.Sort(files)
	set, diags := &Set{faulty: map[string]bool{}}, diag.List{}
	for _, name := range files {
		at := diag.Pos{File: path.Join(Root, name)}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.dir == path.Dir(name) })
		switch {
		case i < 0:
			diags.Addf(at, "no spec belongs in folder %s; the folders are %s", path.Join(Root, path.Dir(name)), strings.Join(folders(), ", "))
			continue
		case path.Ext(name) != ".yaml":
			diags.Addf(at, "not a spec: the name of a spec ends in .yaml")
			continue
		}
		before := len(diags)
		if data, fault := read(fsys, name); fault != "" {
			diags.Addf(at, "%s", fault)
		} else {
			kinds[i].read(at.File, data, set, &diags)
		}
		if len(diags) > before {
			set.faulty[kinds[i].dir] = true
		}
	}
	if len(files) == 0 {
		diags.Addf(diag.Pos{File: Root}, "the folder holds no spec; one is due in %s", strings.Join(folders(), ", "))
	}
	return set, diags, nil
}

// read is the content of a spec's file, or what is wrong with the file. A pipe or a device is not opened: it may never end.
func read(fsys fs.FS, name string) (data []byte, fault string) {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("it cannot be read: %v", cause(err))
	case !info.Mode().IsRegular():
		return nil, "it is no file; a spec is a regular file, or a link to one"
	case info.Size() > maxFileBytes:
		return nil, tooLong(info.Size())
	}
	if data, err = fs.ReadFile(fsys, name); err != nil {
		return nil, fmt.Sprintf("it cannot be read: %v", cause(err))
	}
	return data, ""
}

func tooLong(bytes int64) string {
	return fmt.Sprintf("the file has %d bytes; at most %d are allowed", bytes, maxFileBytes)
}

// cause is the error without the path of the system's call: the position names the file.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func folders() []string {
	var dirs []string
	for _, k := range kinds {
		dirs = append(dirs, path.Join(Root, k.dir))
	}
	return dirs
}

// ParseFormat parses one format spec; nil when it has no usable document.
func ParseFormat(file string, data []byte, diags *diag.List) *Format {
	before := len(*diags)
	f := parse[Format](file, data, diags)
	if f != nil {
		f.Faulty = len(*diags) > before
		f.Digest = digest(data)
	}
	return f
}

// ParseTable parses one codebook spec; nil when it has no usable document.
func ParseTable(file string, data []byte, diags *diag.List) *Table {
	before := len(*diags)
	t := parse[Table](file, data, diags)
	if t != nil {
		t.Faulty = len(*diags) > before
	}
	return t
}

// ParseRoutes parses one file of routes; nil when it has no usable document.
func ParseRoutes(file string, data []byte, diags *diag.List) *Routes {
	before := len(*diags)
	r := parse[Routes](file, data, diags)
	if r != nil {
		r.Faulty = len(*diags) > before
	}
	return r
}

func parse[T any](file string, data []byte, diags *diag.List) *T {
	root := document(file, data, diags)
	if root == nil {
		return nil
	}
	out := new(T)
	d := decoder{file: file, diags: diags}
	d.decodeRoot(root, out)
	return out
}

// normal is the text of a spec as if it had been saved with LF line ends and without a byte order mark: how an editor
// saves a file makes no difference.
func normal(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

// digest is the SHA-256 of a spec's text, in hex; the newline at its end does not count.
func digest(data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(bytes.TrimRight(normal(data), "\n")))
}

// document returns the root of the one YAML document in data, or nil after saying why there is none.
func document(file string, data []byte, diags *diag.List) (root ast.Node) {
	whole := diag.Pos{File: file}
	data = normal(data)
	if len(data) > maxFileBytes {
		diags.Addf(whole, "%s", tooLong(int64(len(data))))
		return nil
	}
	if bad := unreadable(file, data); bad != nil {
		diags.Add(bad)
		return nil
	}
	defer func() {
		if r := recover(); r != nil { // the YAML library gave up on it
			diags.Addf(whole, "not YAML that can be read (%v)", r)
			root = nil
		}
	}()
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := whole, err.Error()
		var positioned yaml.Error
		if errors.As(err, &positioned) {
			message = positioned.GetMessage()
			if t := positioned.GetToken(); t != nil && t.Position != nil {
				at.Line, at.Col = t.Position.Line, t.Position.Column
			}
		}
		diags.Addf(at, "not YAML: %s", message)
		return nil
	}
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			if doc.Start != nil && root != nil {
				diags.Addf(diag.Pos{File: file, Line: doc.Start.Position.Line, Col: doc.Start.Position.Column},
					"a second document; a spec is one document")
			}
			continue
		}
		at := position(file, doc.Body)
		switch {
		case doc.Body.Type() == ast.DirectiveType:
			diags.Addf(at, "a YAML directive (%%); a spec has none")
			return nil
		case root != nil:
			if doc.Start != nil {
				at.Line, at.Col = doc.Start.Position.Line, doc.Start.Position.Column
			}
			diags.Addf(at, "a second document; a spec is one document")
		default:
			root = doc.Body
		}
	}
	if root == nil {
		diags.Addf(whole, "the file is empty; a spec is a YAML mapping")
	}
	return root
}

// unreadable finds what makes bytes no text of a spec, before YAML comes into it.
func unreadable(file string, data []byte) diag.List {
	var diags diag.List
	depth := 0
	for i, line := range bytes.Split(data, []byte("\n")) {
		at := diag.Pos{File: file, Line: i + 1, Col: 1}
		if !utf8.Valid(line) {
			diags.Addf(at, "the line is not UTF-8")
			continue
		}
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(line) {
			at.Col = tab + 1
			diags.Addf(at, "a tab in the indentation; indent with spaces")
			continue
		}
		for col, r := range []rune(string(line)) {
			at.Col = col + 1
			switch {
			case r < ' ' && r != '\t' || r == 0x7f || r == '\ufeff':
				diags.Addf(at, "character %U is not allowed in a spec", r)
			case r == '[' || r == '{':
				depth++
			case r == ']' || r == '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				diags.Addf(at, "brackets are nested more than %d deep", maxDepth)
				return diags
			}
		}
		if nested := bytes.Count(line, []byte("- ")) + bytes.Count(line, []byte("? ")) + len(indent)/2; nested > 20*maxDepth {
			at.Col = 1
			diags.Addf(at, "the line nests more than %d deep", maxDepth)
		}
	}
	return diags
}

// maxDepth bounds the nesting, which the YAML library follows by recursion. The grammar needs 7.
const maxDepth = 32

func position(file string, n ast.Node) diag.Pos {
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		t = m.Values[0].Key.GetToken()
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		t = m.Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return diag.Pos{File: file}
	}
	return diag.Pos{File: file, Line: t.Position.Line, Col: t.Position.Column}
}
