package corpus

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
)

// Seed is the seed of the committed model's corpus.
const Seed = 20260101

// tokenizerSample is the number of documents that the vocabulary is learnt from.
const tokenizerSample = 30000

// Tokenizer learns the vocabulary from the first documents of the corpus.
func (c *Corpus) Tokenizer() *Tokenizer {
	return TrainTokenizer(func(yield func(string) bool) {
		for i := range uint64(tokenizerSample) {
			d := c.Document(Seed, i)
			for _, t := range d.Turns {
				if !yield(t.Role+"\n"+t.Text) || !yield("\n") {
					return
				}
			}
			if d.Plain != "" && !yield(d.Plain) {
				return
			}
		}
	})
}

// ChatTemplate is ChatML, as documents are written and as a prompt must be.
const ChatTemplate = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// RowElems is the length of a training row: the context the model is trained for.
const RowElems = 1024

// A packed token is its id with two flags: learnt marks what the model must learn to say, start the first token
// of a document, which sees nothing before it. Padding is EndOfText with start.
const (
	learnt = 1 << 15
	start  = 1 << 14
)

// encode writes a document as packed tokens, with whole turns left out at the end if it exceeds a row.
func (t *Tokenizer) encode(d Document) []uint16 {
	imStart, imEnd, endOfText := t.ID(ImStart), t.ID(ImEnd), t.ID(EndOfText)
	var out []uint16
	put := func(flag uint16, ids ...int32) {
		for _, id := range ids {
			out = append(out, uint16(id)|flag)
		}
	}
	if d.Plain != "" {
		put(learnt, t.Encode(nil, d.Plain)...)
		put(learnt, endOfText)
	}
	fits := 0
	for _, turn := range d.Turns {
		put(0, imStart)
		if turn.Role == "assistant" {
			put(0, t.Encode(nil, turn.Role+"\n")...)
			put(learnt, t.Encode(nil, turn.Text)...)
			put(learnt, imEnd)
		} else {
			put(0, t.Encode(nil, turn.Role+"\n"+turn.Text)...)
			put(0, imEnd)
		}
		put(0, t.Encode(nil, "\n")...)
		if turn.Role == "assistant" && len(out) <= RowElems {
			fits = len(out)
		}
	}
	if len(out) > RowElems {
		out = out[:fits]
	}
	if len(out) > 0 {
		out[0] |= start
	}
	return out
}

// Prompt is the ids of a question as the chat template puts it.
func (t *Tokenizer) Prompt(question string) []int32 {
	ids := []int32{t.ID(ImStart)}
	ids = t.Encode(ids, "user\n"+question)
	ids = append(ids, t.ID(ImEnd))
	ids = t.Encode(ids, "\n")
	ids = append(ids, t.ID(ImStart))
	return t.Encode(ids, "assistant\n")
}

// Stats counts what WriteRows wrote.
type Stats struct{ Documents, Rows, Tokens, Learnt int }

// WriteRows packs documents 0 to n-1 into rows of RowElems packed tokens, u16 little-endian, and writes them.
func (c *Corpus) WriteRows(w io.Writer, t *Tokenizer, seed uint64, n int) (Stats, error) {
	const chunk = 4096
	type result struct {
		data  []byte
		stats Stats
	}
	chunks := (n + chunk - 1) / chunk
	results := make([]chan result, chunks)
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var next sync.Mutex
	at := 0
	for range runtime.GOMAXPROCS(0) {
		go func() {
			t := t.Clone()
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= chunks {
					return
				}
				data, stats := c.packRows(t, seed, uint64(i*chunk), uint64(min((i+1)*chunk, n)))
				results[i] <- result{data, stats}
			}
		}()
	}
	var total Stats
	for i := range results {
		r := <-results[i]
		if _, err := w.Write(r.data); err != nil {
			return total, fmt.Errorf("write rows: %w", err)
		}
		total.Documents += r.stats.Documents
		total.Rows += r.stats.Rows
		total.Tokens += r.stats.Tokens
		total.Learnt += r.stats.Learnt
	}
	return total, nil
}

func (c *Corpus) packRows(t *Tokenizer, seed, from, to uint64) ([]byte, Stats) {
	var stats Stats
	var data []byte
	used := 0 // of the last row
	pad := func() {
		for ; used%RowElems != 0; used++ {
			data = binary.LittleEndian.AppendUint16(data, uint16(t.ID(EndOfText))|start)
		}
		used = 0
	}
	for i := from; i < to; i++ {
		ids := t.encode(c.Document(seed, i))
		if used+len(ids) > RowElems {
			pad()
		}
		for _, id := range ids {
			data = binary.LittleEndian.AppendUint16(data, id)
			if id&learnt != 0 {
				stats.Learnt++
			}
		}
		used += len(ids)
		stats.Documents++
		stats.Tokens += len(ids)
	}
	pad()
	stats.Rows = len(data) / 2 / RowElems
	return data, stats
}

// Transcript writes a document as a person reads it.
func (d Document) Transcript() string {
	if d.Plain != "" {
		return "text: " + d.Plain + "\n"
	}
	var b strings.Builder
	for _, t := range d.Turns {
		fmt.Fprintf(&b, "%s: %s\n", t.Role, t.Text)
	}
	return b.String()
}

// FingerprintKey is the metadata key under which a demo model names the corpus that it was trained on.
const FingerprintKey = "minfer.demo.corpus"

// Fingerprint identifies the corpus: SHA-256 over its first documents, the vocabulary and the held-out questions.
func (c *Corpus) Fingerprint(t *Tokenizer) string {
	h := sha256.New()
	for i := range uint64(5000) {
		io.WriteString(h, c.Document(Seed, i).Transcript())
	}
	for _, m := range t.Merges {
		io.WriteString(h, m+"\n")
	}
	for _, q := range c.HeldOut(200) {
		io.WriteString(h, q.Text+"\n"+strings.Join(q.Accept, "\n")+"\n")
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
