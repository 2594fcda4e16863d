// Command emit writes what the demo model is trained on: rows of packed tokens, the vocabulary and the held-out
// questions. Its output is a function of its flags alone.
//
//	go run ./runtime/demo/emit -o DIR [-n DOCUMENTS]
//	go run ./runtime/demo/emit -show N      documents as a person reads them, on stdout
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/minfer/minfer/runtime/demo/corpus"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("emit: ")
	dir := flag.String("o", "", "folder to write to")
	n := flag.Int("n", 3_000_000, "number of documents")
	held := flag.Int("held", 1000, "number of held-out questions")
	show := flag.Int("show", 0, "print so many documents instead")
	flag.Parse()
	c := corpus.New()
	if *show > 0 {
		for i := range *show {
			fmt.Println(c.Document(corpus.Seed, uint64(i)).Transcript())
		}
		return
	}
	if *dir == "" {
		log.Fatal("-o DIR is missing: the folder to write to")
	}
	if err := write(c, *dir, *n, *held); err != nil {
		log.Fatal(err)
	}
}

func write(c *corpus.Corpus, dir string, n, held int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	t := c.Tokenizer()
	f, err := os.Create(filepath.Join(dir, "rows.u16"))
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	stats, err := c.WriteRows(w, t, corpus.Seed, n)
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	type question struct {
		Kind   string
		Text   string
		Novel  bool
		Accept []string
		Prompt []int32
		Answer []int32
	}
	var questions []question
	for _, q := range c.HeldOut(held) {
		answer := append(t.Encode(nil, q.Accept[0]), t.ID(corpus.ImEnd))
		questions = append(questions, question{q.Kind, q.Text, q.Novel, q.Accept, t.Prompt(q.Text), answer})
	}
	tokens := make([]string, corpus.VocabSize)
	for i := range tokens {
		tokens[i] = t.Decode([]int32{int32(i)})
	}
	meta := map[string]any{
		"vocab_size": corpus.VocabSize, "row": corpus.RowElems, "stats": stats, "tokens": tokens,
		"pad": t.ID(corpus.EndOfText), "end": t.ID(corpus.ImEnd), "held_out": questions,
	}
	out, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "emit: %d documents, %d rows, %d tokens, %d of them learnt\n", stats.Documents, stats.Rows, stats.Tokens, stats.Learnt)
	return os.WriteFile(filepath.Join(dir, "corpus.json"), out, 0o666)
}
