package token

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/minfer/minfer/runtime/gguf"
)

// checkStream holds a stream of ids to the whole: the same text, in whole characters, with three bytes held at most.
func checkStream(t interface {
	Helper()
	Errorf(string, ...any)
}, tok *Tokenizer, ids []int32, o DecodeOptions,
) {
	t.Helper()
	d := tok.NewDecoder(o)
	var b strings.Builder
	for _, id := range ids {
		s := d.Next(id)
		if !utf8.ValidString(s) {
			t.Errorf("%v: a piece is %q", ids, s)
		}
		if len(d.held) > utf8.UTFMax-1 {
			t.Errorf("%v: %d bytes are held", ids, len(d.held))
		}
		b.WriteString(s)
	}
	b.WriteString(d.Flush())
	if whole := tok.Decode(ids, o); b.String() != whole {
		t.Errorf("%v: the stream is %q, the whole %q", ids, b.String(), whole)
	}
}

// TestDecodeStream: characters that lie in several tokens, are cut short or never begin.
func TestDecodeStream(t *testing.T) {
	tok := build(t, tinyBPE(), nil)
	id := func(s string) int32 {
		n, ok := tok.ID(spell(s))
		if !ok {
			t.Fatalf("no token %q", s)
		}
		return n
	}
	hundred := slices.Repeat([]int32{0x80}, 100)
	for _, c := range []struct {
		name string
		ids  []int32
		want []string // what each id yields, then Flush
	}{
		{"an emoji in two tokens", ids(id("\xf0\x9f"), id("\x98\x8a")), []string{"", "😊", ""}},
		{"an emoji byte by byte", ids(0xf0, 0x9f, 0x98, 0x8a), []string{"", "", "", "😊", ""}},
		{"an emoji cut short", ids('a', 0xf0, 0x9f, 0x98), []string{"a", "", "", "", "\ufffd"}},
		{"a euro between letters", ids('x', id("\xe2\x82"), 0xac, 'y'), []string{"x", "", "€", "y", ""}},
		{"a euro broken off by a letter", ids(id("\xe2\x82"), 'y'), []string{"", "\ufffdy", ""}},
		{"an emoji broken off by another", ids(0xf0, 0x9f, 0xf0, 0x9f, 0x98, 0x8a), []string{"", "", "\ufffd", "", "", "😊", ""}},
		{"stray bytes", ids(0x80, 'a', 0xff, 0xc0), []string{"\ufffd", "a", "\ufffd", "\ufffd", ""}},
		{"a surrogate", ids(0xed, 0xa0, 0x80), []string{"", "\ufffd\ufffd", "\ufffd", ""}},
		{"past the last code point", ids(0xf4, 0x90), []string{"", "\ufffd\ufffd", ""}},
		{"a hundred stray bytes", hundred, append(slices.Repeat([]string{"\ufffd"}, 100), "")},
		{"a marker within a character is hidden", ids(0xe2, 0x82, 261, 0xac), []string{"", "", "", "€", ""}},
		{"an id out of range", ids('a', 99999, -1), []string{"a", "\ufffd", "\ufffd", ""}},
		{"nothing", nil, []string{""}},
	} {
		d := tok.NewDecoder(DecodeOptions{})
		var got []string
		for _, id := range c.ids {
			got = append(got, d.Next(id))
		}
		got = append(got, d.Flush())
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		checkStream(t, tok, c.ids, DecodeOptions{})
	}
}

func TestDecodeSpecial(t *testing.T) {
	tok := load(t, "qwen2")
	in := ids(151644, 9707, 151657, 151645)
	if got := tok.Decode(in, DecodeOptions{}); got != "Hello<tool_call>" {
		t.Errorf("hidden: %q", got)
	}
	if got := tok.Decode(in, DecodeOptions{ShowSpecial: true}); got != "<|im_start|>Hello<tool_call><|im_end|>" {
		t.Errorf("shown: %q", got)
	}
}

// TestDecodeLeadingSpace: the space that encoding puts before a text is taken away again, and no other.
func TestDecodeLeadingSpace(t *testing.T) {
	tok := load(t, "llama-spm")
	for _, c := range []struct {
		ids  []int32
		o    DecodeOptions
		want string
	}{
		{ids(15043, 3186), DecodeOptions{}, "Hello world"},
		{ids(1, 15043, 3186), DecodeOptions{}, "Hello world"},
		{ids(1, 15043, 3186), DecodeOptions{ShowSpecial: true}, "<s> Hello world"},
		{ids(3186), DecodeOptions{Continuation: true}, " world"},
		{ids(1, 3186), DecodeOptions{Continuation: true}, " world"},
		{ids(29871, 29871), DecodeOptions{}, " "},
		{ids(13, 15043), DecodeOptions{}, "\n Hello"},
	} {
		if got := tok.Decode(c.ids, c.o); got != c.want {
			t.Errorf("%v %+v: %q, want %q", c.ids, c.o, got, c.want)
		}
		checkStream(t, tok, c.ids, c.o)
	}
	spaced := build(t, tinyBPE(), changes{keyAddSpace: gguf.Of(true)})
	if got := spaced.Decode(spaced.Encode("hello", EncodeOptions{}), DecodeOptions{}); got != "hello" {
		t.Errorf("byte-level with a space prefix: %q", got)
	}
}

// TestDecodeAnyIDs: whatever the ids, a stream is the whole, for each vocabulary.
func TestDecodeAnyIDs(t *testing.T) {
	for _, name := range vocabularies {
		tok := load(t, name)
		// Bytes and their neighbours are where characters are cut.
		low := rapid.Int32Range(0, 300)
		any := rapid.Int32Range(-2, int32(tok.Len())+2)
		rapid.Check(t, func(t *rapid.T) {
			ids := rapid.SliceOf(rapid.OneOf(low, any)).Draw(t, "ids")
			checkStream(t, tok, ids, DecodeOptions{
				ShowSpecial: rapid.Bool().Draw(t, "special"), Continuation: rapid.Bool().Draw(t, "continuation"),
			})
		})
	}
}

// TestReplacement holds the decoder to the table of the Unicode Standard (U+FFFD for maximal subparts).
func TestReplacement(t *testing.T) {
	tok := build(t, tinyBPE(), nil)
	for in, want := range map[string]string{
		"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41":         strings.Repeat("\ufffd", 8) + "A",
		"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41":         strings.Repeat("\ufffd", 8) + "A",
		"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42":         strings.Repeat("\ufffd", 5) + "A\ufffd\ufffdB",
		"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41":         strings.Repeat("\ufffd", 4) + "A",
		"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80": "a\ufffd\ufffd\ufffdb\ufffdc\ufffd",
	} {
		var in32 []int32
		for _, b := range []byte(in) {
			in32 = append(in32, int32(b))
		}
		if got := tok.Decode(in32, DecodeOptions{}); got != want {
			t.Errorf("%x: %q, want %q", in, got, want)
		}
		checkStream(t, tok, in32, DecodeOptions{})
	}
}
