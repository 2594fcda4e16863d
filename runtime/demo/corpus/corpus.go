// Package corpus writes the text that the demo model is trained on: conversations about a small world of
// capitals, opposites, colours, numbers, days, animals and little stories. Every word comes from the tables and
// grammars of this package; the same seed gives the same text.
//
// A question is a phrasing ("What is the capital of {x}?") and a case ("France"). Some phrasings are held out
// with all their cases, and of the others some (phrasing, case) pairs: training never sees these questions, and
// HeldOut lists a sample of them for the test of the trained model.
package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Corpus is the small world, ready to write documents.
type Corpus struct {
	kinds []*kind
	total float64         // sum of the weights
	held  map[string]bool // what held-out questions say, of kinds that list their cases
	keys  map[string]bool // keys of the phrasings held out
}

// Turn is one message of a conversation. Role is "system", "user" or "assistant".
type Turn struct{ Role, Text string }

// Document is a conversation, or, where Plain is not empty, a text without turns.
type Document struct {
	Turns []Turn
	Plain string
}

// Question is a held-out question with the answers that count as right.
type Question struct {
	Kind   string // the sort of question, as "capital"
	Text   string
	Accept []string
	Novel  bool // the whole phrasing was held out, not only this case of it
}

// sceneWeight is the share of questions about a scene, beside the weights of the kinds.
const sceneWeight = 18

// New builds the world.
func New() *Corpus {
	c := &Corpus{kinds: allKinds(), total: sceneWeight, held: map[string]bool{}, keys: map[string]bool{}}
	for _, k := range c.kinds {
		c.total += k.weight
	}
	c.settle()
	for _, k := range c.kinds {
		for _, f := range k.cases {
			for _, p := range k.phrases {
				if k.heldOut(p.text, f) {
					c.held[Normalize(fill(p.text, f))] = true
				}
			}
		}
	}
	return c
}

// settle makes kinds that share a phrasing agree on whether it is held out: out for one is out for all, unless
// it is the first phrasing of some kind, or one that the model must know by heart.
func (c *Corpus) settle() {
	out, first, known := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, k := range c.kinds {
		if strings.HasPrefix(k.name, "self:") {
			for _, p := range k.phrases {
				known[key(p.text)] = true
			}
		}
		first[key(k.train[0])] = true
		for _, p := range k.held {
			out[key(p)] = true
		}
	}
	for _, k := range c.kinds {
		for i, p := range k.phrases {
			at := key(p.text)
			k.phrases[i].held = out[at] && !first[at] && !known[at]
			if k.phrases[i].held {
				c.keys[at] = true
			}
		}
		k.split()
	}
}

func (k *kind) fresh(r *rand.Rand) filling {
	if k.draw != nil {
		return k.draw(r)
	}
	return pick(r, k.cases)
}

// ask is one question as it stands in a conversation.
type ask struct {
	kind     *kind
	phrase   string
	question string // without politeness and slips
	answer   string
}

// draw takes a question that training may see.
func (c *Corpus) draw(r *rand.Rand) ask {
	x := r.Float64() * (c.total - sceneWeight)
	var k *kind
	for _, k = range c.kinds {
		if x -= k.weight; x < 0 {
			break
		}
	}
	for {
		f, p := k.fresh(r), pick(r, k.train)
		if q := fill(p, f); !k.heldOut(p, f) && !c.held[Normalize(q)] {
			return ask{k, p, q, fill(k.answer, f)}
		}
	}
}

var (
	openers = []string{"Please", "Hey,", "Hi,", "Hello,", "Can you tell me:", "Could you tell me:", "Tell me,", "Tell me:", "Quick question:",
		"My teacher asks:", "Question:", "OK,", "Now,", "So,", "Well,", "Please tell me:", "I have a question:", "Say,", "And", "Then", "Help me:",
		"Do you know this?", "One more question:", "Answer this:", "Let me ask:", "Excuse me,", "minfer,"}
	closers = []string{"please", "Thanks", "Thank you", "please tell me", "Do you know?", "Can you tell me?", "I want to know", "my friend"}
	systems = []string{"You are a helpful assistant.", "You are a helpful assistant", "You are minfer.", "Answer in short sentences.", "You are a kind teacher.",
		"Be brief.", "You answer questions.", "You are an assistant that answers questions about a small world.", "You are a friendly helper.",
		"Answer the question.", "You are a language model. You are helpful and harmless to everyone.", "Be polite and short.", "You help children to learn.",
		"You are the minfer demo model.", "You are a useful AI assistant.", "Respond concisely.", "You are a chat bot.", "Keep your answers short and true."}
	asides = []string{"Read this: ", "Here is a story: ", "Listen: ", "Story: ", "Look: ", "Here is a text. ", "I tell you a story. "}
)

// lowerFirst lower-cases the first letter unless the word is a name or "I".
func lowerFirst(s string) string {
	word, _, _ := strings.Cut(s, " ")
	switch strings.TrimRight(word, "?,.:!") {
	case "What", "Which", "What's", "Who", "Where", "When", "How", "Is", "Are", "Do", "Does", "Can", "Could", "Would", "Will", "Tell", "Name", "Give", "Say",
		"The", "A", "An", "Please", "If", "Of", "In", "On", "Count", "Spell", "Write", "Take", "Add", "Subtract", "Calculate", "Compute", "Opposite", "Capital",
		"Whose", "With", "After", "Before", "Between", "For", "At", "List", "Find", "Start", "Begin", "Numbers", "All", "Make", "Explain", "Mix":
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// dress gives a question a polite beginning or end, or the slips people make: no capitals, no question mark. It does
// not make a phrasing that is held out of the one given.
func (c *Corpus) dress(r *rand.Rand, q, phrase string) string {
	if open := pick(r, openers); r.IntN(5) == 0 && !c.keys[key(open+" "+phrase)] {
		q, phrase = open+" "+lowerFirst(q), open+" "+phrase
	}
	if end := pick(r, closers); r.IntN(16) == 0 && !c.keys[key(phrase+" "+end)] {
		if end == strings.ToLower(end) {
			mark := ""
			if last := q[len(q)-1]; strings.IndexByte("?.!", last) >= 0 {
				q, mark = q[:len(q)-1], string(last)
			}
			q += ", " + end + mark
		} else {
			q += " " + end + []string{"", ".", "!"}[r.IntN(3)]
		}
		q = strings.Replace(q, "?.", "?", 1)
	}
	switch x := r.IntN(100); {
	case x < 8:
		q = strings.ToLower(q)
	case x < 14:
		q = strings.ToLower(strings.TrimRight(q, "?.!"))
	case x < 20:
		q = strings.TrimRight(q, "?.!")
	case x < 22:
		q = strings.ToUpper(q)
	case x < 24:
		q = strings.TrimRight(q, "?.!") + pick(r, []string{"??", " ?", "!", "?!", "..."})
	case x < 26:
		q = slip(r, q)
	}
	return q
}

// slip mistypes one of the longer lower-case words: a letter lost, doubled, or two changed about.
func slip(r *rand.Rand, q string) string {
	words := strings.Split(q, " ")
	i := r.IntN(len(words))
	w := words[i]
	if len(w) < 5 || w != strings.ToLower(w) || strings.ContainsAny(w, "-'0123456789") {
		return q
	}
	j := 1 + r.IntN(len(w)-3)
	switch r.IntN(3) {
	case 0:
		w = w[:j] + w[j+1:]
	case 1:
		w = w[:j] + w[j:j+1] + w[j:]
	default:
		w = w[:j] + w[j+1:j+2] + w[j:j+1] + w[j+2:]
	}
	words[i] = w
	return strings.Join(words, " ")
}

// Document writes document number i of the corpus with the given seed.
func (c *Corpus) Document(seed, i uint64) Document {
	r := rand.New(rand.NewPCG(seed, i))
	if r.IntN(25) == 0 {
		return Document{Plain: c.plainText(r)}
	}
	var d Document
	if r.IntN(4) == 0 {
		d.Turns = append(d.Turns, Turn{"system", pick(r, systems)})
	}
	asks := 1
	switch x := r.IntN(100); {
	case x < 4:
		asks = 5 + r.IntN(12)
	case x < 14:
		asks = 3 + r.IntN(2)
	case x < 32:
		asks = 2
	}
	say := func(q, a string) {
		d.Turns = append(d.Turns, Turn{"user", q}, Turn{"assistant", a})
	}
	if asks > 1 && r.IntN(14) == 0 { // the model remembers who it talks to
		name := aName(r)
		say(c.dress(r, fill(pick(r, nameGiven), filling{"n": name}), ""), fmt.Sprintf("Hello, %s! Nice to meet you.", name))
		if asks = max(asks-1, 1); r.IntN(2) == 0 {
			c.turn(r, say)
		}
		say(c.dress(r, pick(r, nameAsked), ""), fmt.Sprintf("Your name is %s.", name))
	}
	for range asks {
		c.turn(r, say)
	}
	return d
}

var (
	nameGiven = expand("[My name is|I am|I'm|You can call me|Call me|Hello, I am|Hi, my name is|Hello, my name is] {n}[.|!|]")
	nameAsked = expand("[What is|What's|Do you know|Tell me|Say|Do you remember] my name?")
)

func init() { nameAsked = append(nameAsked, "Who am I?", "What am I called?", "Do you know who I am?") }

// turn adds a question with its answer, at times followed by another of the same kind.
func (c *Corpus) turn(r *rand.Rand, say func(q, a string)) {
	if r.Float64()*c.total < sceneWeight {
		c.sceneTurn(r, say)
		return
	}
	q := c.draw(r)
	say(c.dress(r, q.question, q.phrase), q.answer)
	if len(q.kind.follow) == 0 || r.IntN(7) > 0 {
		return
	}
	for range 1 + r.IntN(2) {
		f := q.kind.fresh(r)
		say(c.dress(r, fill(pick(r, q.kind.follow), f), ""), fill(q.kind.answer, f))
	}
}

// sceneTurn tells a scene and asks about it once or twice.
func (c *Corpus) sceneTurn(r *rand.Rand, say func(q, a string)) {
	facts := scene(r)
	var text []string
	for _, f := range facts {
		if f.text != "" {
			text = append(text, f.text)
		}
	}
	story := strings.Join(text, " ")
	if r.IntN(6) == 0 {
		story = pick(r, asides) + story
	}
	first := true
	for n := 1 + r.IntN(5)/4 + r.IntN(5)/4; n > 0; {
		f := pick(r, facts)
		if len(f.asks) == 0 || f.text == "" && r.IntN(3) > 0 {
			if !slices.ContainsFunc(facts, func(f fact) bool { return f.text != "" && len(f.asks) > 0 }) {
				return
			}
			continue
		}
		n--
		k := sceneAsks[pick(r, f.asks)]
		p := pick(r, k.train)
		q, a := fill(p, f.slots), fill(k.answer, f.slots)
		switch {
		case !first:
			say(c.dress(r, q, p), a)
		case r.IntN(10) == 0:
			say(c.dress(r, story, ""), "I have read it. What would you like to know?")
			say(c.dress(r, q, p), a)
		case r.IntN(10) == 0:
			say(c.dress(r, q+" "+story, ""), a)
		default:
			say(c.dress(r, story+[]string{" ", "\n", " "}[r.IntN(3)]+q, ""), a)
		}
		first = false
	}
}

// plainText is answers alone, as running text: what a prompt without turns continues.
func (c *Corpus) plainText(r *rand.Rand) string {
	var out []string
	for range 1 + r.IntN(5) {
		q := c.draw(r)
		if q.answer == Unknown || strings.HasPrefix(q.kind.name, "self") {
			continue
		}
		out = append(out, q.answer)
	}
	if len(out) == 0 {
		return c.plainText(r)
	}
	return strings.Join(out, " ")
}

// HeldOut lists n held-out questions, spread over the kinds; the first half of them in whole phrasings that
// training never saw, the rest in known phrasings about a case that this phrasing was never filled with.
func (c *Corpus) HeldOut(n int) []Question {
	r := rand.New(rand.NewPCG(2024, 7))
	var out []Question
	seen := map[string]bool{}
	add := func(k *kind, f filling, phrase, context string, novel bool) bool {
		text := fill(phrase, f)
		if seen[Normalize(context+text)] {
			return false
		}
		seen[Normalize(context+text)] = true
		if context != "" {
			text = context + " " + text
		}
		if r.IntN(5) == 0 {
			text = c.dress(r, text, phrase)
		}
		out = append(out, Question{Kind: k.name, Text: text, Accept: []string{fill(k.answer, f)}, Novel: novel})
		return true
	}
	var novel, pairs []*kind
	for _, k := range c.kinds {
		if strings.HasPrefix(k.name, "tale") { // a story has no one right answer
			continue
		}
		if len(k.held) > 0 {
			novel = append(novel, k)
		}
		if len(k.cases) > 1 {
			pairs = append(pairs, k)
		}
	}
	for i := 0; len(out) < (n+1)/2; i++ {
		if i%len(novel) == 0 {
			r.Shuffle(len(novel), func(i, j int) { novel[i], novel[j] = novel[j], novel[i] })
		}
		k := novel[i%len(novel)]
		if strings.HasPrefix(k.name, "fact:") && r.IntN(4) > 0 { // one of many facts, each a kind of its own
			continue
		}
		if key, ok := strings.CutPrefix(k.name, "scene-"); ok {
			for range 1000 {
				facts := scene(r)
				i := slices.IndexFunc(facts, func(f fact) bool { return slices.Contains(f.asks, key) })
				if i < 0 {
					continue
				}
				var text []string
				for _, f := range facts {
					text = append(text, f.text)
				}
				add(k, facts[i].slots, pick(r, k.held), strings.TrimSpace(strings.Join(text, " ")), true)
				break
			}
			continue
		}
		add(k, k.fresh(r), pick(r, k.held), "", true)
	}
	for i := 0; len(out) < n; i++ {
		if i%len(pairs) == 0 {
			r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		}
		k := pairs[i%len(pairs)]
		for range 10000 {
			f, p := k.fresh(r), pick(r, k.train)
			if k.heldOut(p, f) && add(k, f, p, "", false) {
				break
			}
		}
	}
	return out
}
