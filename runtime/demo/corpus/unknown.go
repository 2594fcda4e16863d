package corpus

import (
	"math/rand/v2"
	"strings"
)

var (
	realWords   = strings.Fields("Atlantis Narnia helicopter xylophone thunder pyramid castle dragon unicorn wizard robot satellite volcano island guitar trumpet sandwich spaghetti burger penny battery laptop keyboard telephone camera concrete diamond engine hospital factory airport bridge tunnel museum theatre stadium library elevator mirror carpet curtain pillow blanket candle bucket ladder rope needle button zipper wallet passport ticket newspaper magazine dictionary calendar microscope telescope planet comet galaxy desert glacier waterfall swamp meadow valley hurricane tornado whisper shadow dream secret promise idea wisdom courage justice freedom Prussia Yugoslavia Bohemia Siberia Catalonia Tuscany Hawaii Alaska Greenland Manhattan")
	noOpposite  = strings.Fields("chair seven table Tom a house a book Monday the sea spoon water pencil France green music window seven bread paper Paris apple cat dog car tree five")
	countriesOf = strings.Split("France|Germany|the world|Spain|Italy|Japan|the United States|China|the company|India|Russia|Brazil|the club|England|Canada|Egypt|Kenya|Mexico", "|")
)

// fakeWord makes up a word of two to four syllables, or takes a real one that the small world lacks.
func fakeWord(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return pick(r, realWords)
	}
	const onset, vowel, coda = "b c d f g h j k l m n p r s t v w z br dr gr pl st tr sh th", "a e i o u ia oo ea", "- - - n r l s x nd rk st m"
	on, vo, co := strings.Fields(onset), strings.Fields(vowel), strings.Fields(coda)
	var b strings.Builder
	for range 2 + r.IntN(2) {
		b.WriteString(pick(r, on) + pick(r, vo) + strings.Trim(pick(r, co), "-"))
	}
	if r.IntN(2) == 0 {
		return b.String()
	}
	return capital(b.String())
}

func unknownDraw(person, thing, place, name, make, of []string) func(r *rand.Rand) filling {
	return func(r *rand.Rand) filling {
		return filling{
			"person": pick(r, person), "thing": pick(r, thing), "place": pick(r, place), "name": pick(r, name),
			"make": pick(r, make), "of": pick(r, of), "where": pick(r, countriesOf), "word": pick(r, []string{"hello", "thank you", "good morning", "cat", "water", "this", "love", "bread"}),
			"year": itoa(1200 + r.IntN(850)), "fake": fakeWord(r), "fake2": fakeWord(r), "fake3": fakeWord(r), "opp": pick(r, noOpposite), "n": aName(r), "m": aName(r), "a": itoa(1 + r.IntN(60)), "b": itoa(2 + r.IntN(9)), "two": numberWord(2 + r.IntN(4)),
		}
	}
}
