package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// table makes the cases of a kind from rows; the columns fill the slots named by the letters of columns.
func (k *kind) table(columns string, rows [][]string) *kind {
	for _, row := range rows {
		c := filling{}
		for i, letter := range columns {
			c[string(letter)] = row[i]
		}
		k.cases = append(k.cases, c)
	}
	return k
}

// each makes n cases.
func (k *kind) each(n int, c func(i int) filling) *kind {
	for i := range n {
		if f := c(i); f != nil {
			k.cases = append(k.cases, f)
		}
	}
	return k
}

func (k *kind) drawn(draw func(r *rand.Rand) filling) *kind {
	k.draw = draw
	return k
}

// follows lets a conversation go on with another {x} of the same kind.
func (k *kind) follows(block string) *kind {
	for _, p := range phrasings(block) {
		k.follow = append(k.follow, p.text)
	}
	return k
}

const (
	andX = `[And|What about|How about|And what about] {x}?`
)

// allKinds is the list of everything that can be asked.
func allKinds() []*kind {
	return slices.Concat(
		capitalKinds(), oppositeKinds(), colourKinds(), countingKinds(), arithmeticKinds(), calendarKinds(),
		animalKinds(), compareKinds(), shapeKinds(), letterKinds(), plainFacts(), selfKinds(), storyKinds(), unknownKinds())
}

func capitalKinds() []*kind {
	table := rows(countries)
	other := func(of string, column, shift int) string { // another row's column
		i := slices.IndexFunc(table, func(r []string) bool { return r[0] == of })
		return table[(i+shift)%len(table)][column]
	}
	var inverse [][]string // London is the capital of one country here
	for _, r := range table {
		if !slices.ContainsFunc(inverse, func(s []string) bool { return s[1] == r[1] }) {
			inverse = append(inverse, r)
		}
	}
	var inside [][]string // place, where it is, "city" or "country"
	for _, r := range inverse {
		inside = append(inside, []string{r[1], r[0], "city"})
	}
	for _, r := range table {
		inside = append(inside, []string{r[0], r[2], "country"})
	}
	const isIn = `
		Is {x} in PLACE?
		{x} is in PLACE, [right|isn't it|yes]?
		[Is it true|Is it right|Am I right] that {x} is in PLACE?
		[Yes or no|True or false]: {x} is in PLACE.
		Does {x} lie in PLACE?
		Can I find {x} in PLACE?
		I think {x} is in PLACE. Am I right?
	`
	isInYes, isInNo := strings.ReplaceAll(isIn, "PLACE", "{y}"), strings.ReplaceAll(isIn, "PLACE", "{w}")
	continents := [][2]string{{"Europe", "European"}, {"Asia", "Asian"}, {"Africa", "African"}, {"South America", "South American"}}
	return []*kind{
		newKind("capital", 7, "The capital of {x} is {y}.", `
			[What|What city|Which city|Which town] is the capital [city|] of {x}?
			[What's|whats|Name|Give me|Tell me|Say] the capital [city|] of {x}.
			[What's|What is] {x}'s capital [city|]?
			[Do you know|Can you name|Could you name|Can you tell me|Could you tell me] the capital [city|] of {x}?
			[Do you know|Can you tell me|Please tell me|I want to know] what the capital [city|] of {x} is.
			The capital [city|] of {x}[?| is| is?| is ...| is called|:]
			Capital [city|] of {x}[?|]
			{x} capital[?|]
			{X}[: capital?|, capital?|: what is the capital?| has which capital?]
			Which city is [{x}'s capital|the capital in {x}|the main city of {x}]?
			What is the [name of the|main] capital [city|] of {x}?
			[What|Which] [city|town] does {x} have as its capital?
			What [do you call|is the name of] the capital [city|] of {x}?
			I [want|need|would like] to know the capital [city|] of {x}.
			[For|In] {x}, [what|which city] is the capital?
			[What|Which] capital does {x} have?
			Which capital [city|] belongs to {x}?
			Of {x}, what is the capital?
			If I go to the capital of {x}, which city am I in?
			!Which city do people in {x} call their capital?
			!Name the city that is the capital of {x}.
			!Please give the name of {x}'s capital city.
			!I forgot the capital of {x}. What is it?
			!What is the city called that is the capital of {x}?
		`).table("xyz", table).follows(andX + `
			[And|And what is] [that of|the capital of] {x}?
			[And of|And the capital of|And for] {x}?`),
		newKind("capital-of", 4, "{Y} is the capital of {x}.", `
			[Which|What] country is {y} the capital [city|] of?
			[Which|What] country has {y} as its capital [city|]?
			{y} is the capital [city|] of [which|what] country?
			{y} is the capital [city|] of[?| ...|]
			Of which country is {y} the capital [city|]?
			[Which|What] country's capital [city|] is {y}?
			[Name|Tell me|Say|Give me] the country [whose capital [city|] is|that has the capital|with the capital] {y}.
			[Do you know|Can you tell me|Please tell me] [which|what] country {y} is the capital [city|] of.
			What is {y} the capital [city|] of?
			The capital [city|] of which country is {y}?
			{y} is [which|what] country's capital [city|]?
			[I want to know|Tell me] what {y} is the capital of.
			!Whose capital is {y}?
			!For which country is {y} the capital?
			!If {y} is the capital, what is the country?
		`).table("xyz", inverse).follows(`[And|What about|How about|And what about] {y}?`),
		newKind("city-where", 2.5, "{Y} is in {x}.", `
			[Which|What] country is {y} in?
			In [which|what] country is {y}?
			Where is {y}?
			Where [can I find|do I find|would I find] {y}?
			[Which|What] country [do I go to|must I go to|should I visit] to see {y}?
			[Tell me|Do you know|Can you tell me] where {y} is.
			Where in the world is {y}?
			{y} is in [which|what] country?
			[Which|What] country [does {y} belong to|do you find {y} in]?
			The city of {y} is in [which|what] country?
			Where is the city [of|called] {y}?
		`).table("xyz", inverse).follows(`[And|What about|How about|And what about] {y}?`),
		newKind("continent", 2.5, "{X} is in {z}.", `
			[Which|What] continent is {x} [in|on|part of]?
			[On|In] [which|what] continent is {x}?
			Where is {x}?
			[What|Which] part of the world is {x} in?
			[Tell me|Do you know|Can you tell me] [which continent|what continent] {x} is [in|on].
			[Where|On which continent] [can I find|do I find|would I find] {x}?
			{X} is [on|in] [which|what] continent?
			[Which|What] continent does {x} belong to?
			Where in the world is {x}?
			[Tell me|Do you know|Can you tell me] where {x} is.
		`).table("xyz", table).follows(andX),
		newKind("language", 1.5, "People in {x} speak {y}.", `
			[What|Which] language do [people|they] speak in {x}?
			[What|Which] language [is spoken|do people use] in {x}?
			[What|Which] language does {x} speak?
			[What is|What's] the language [of|in] {x}?
			What do people [speak|talk] in {x}?
			How do people talk in {x}?
			[Tell me|Do you know|Can you tell me] [what|which] language people speak in {x}.
			The language of {x}[?| is|:]
		`).table("xy", rows(languages)).follows(andX + `
			And in {x}?`),
		newKind("about-country", 1.5, "{X} is in {z}. Its capital is {y}.", `
			[Tell me|What do you know|Say something] about {x}[.|]
			[Tell me something|What can you tell me|What can you say|Do you know anything] about {x}?
			What is {x}?
			Do you know {x}?
			[{x}|{X}][?|.|!|]
			Describe {x}.
			Explain {x}.
		`).table("xyz", table).follows(andX),
		newKind("about-city", 1.2, "{Y} is the capital of {x}.", `
			[Tell me|What do you know|Say something] about {y}[.|]
			[Tell me something|What can you tell me|What can you say|Do you know anything] about {y}?
			What is {y}?
			Do you know {y}?
			[{y}|{Y}][?|.|!|]
			Describe {y}.
			What kind of city is {y}?
		`).table("xyz", inverse),
		newKind("two-capitals", 1.2, "The capital of {x} is {y}, and the capital of {u} is {v}.", `
			What are the capitals of {x} and {u}?
			What are the capital cities of {x} and {u}?
			[Name|Tell me|Give me] the capitals of {x} and {u}.
			What is the capital of {x} and [what is|] [the capital|that] of {u}?
			[What|Which city] is the capital of {x} and of {u}?
			What is the capital of {x}? And of {u}?
			Which cities are the capitals of {x} and {u}?
			The capitals of {x} and {u}?
			Do you know the capitals of {x} and {u}?
			What is the capital of {x}? And what is the capital of {u}?
		`).drawn(func(r *rand.Rand) filling {
			p, q := pick(r, table), pick(r, table)
			for p[1] == q[1] {
				q = pick(r, table)
			}
			return filling{"x": p[0], "y": p[1], "u": q[0], "v": q[1]}
		}),
		newKind("in-yes", 1.2, "Yes, {x} is in {y}.", isInYes).table("xy", inside),
		newKind("in-no", 1.2, "No, {x} is in {y}.", isInNo).drawn(func(r *rand.Rand) filling {
			p, q := pick(r, inside), pick(r, inside)
			for p[1] == q[1] || p[2] != q[2] || p[0] == q[1] || q[1] == "England" || q[1] == "Scotland" || q[1] == "Wales" {
				q, p = pick(r, inside), pick(r, inside)
			}
			return filling{"x": p[0], "y": p[1], "w": q[1]}
		}),
		newKind("some-countries", 1, "{answer}", `
			[Name|Tell me|Give me|List|Say] {n} countries in {z}.
			[Name|Tell me|Give me|List|Say] {n} {adj} countries.
			[Can you|Could you|Please] name {n} countries in {z}.
			[Can you|Could you|Please] name {n} {adj} countries.
			Which {n} countries are in {z}?
			What are {n} countries in {z}?
			Do you know {n} {adj} countries?
		`).each(len(continents)*3, func(i int) filling {
			z, n := continents[i%len(continents)], 2+i/len(continents)
			var members []string
			for _, r := range table {
				if r[2] == z[0] {
					members = append(members, r[0])
				}
			}
			return filling{"z": z[0], "adj": z[1], "n": numberWord(n), "answer": fmt.Sprintf("%s countries in %s are %s.", capital(numberWord(n)), z[0], list(members[:n]))}
		}),
		newKind("capital-yes", 3, "Yes, {y} is the capital of {x}.", `
			Is {y} the capital [city|] of {x}?
			{y} is the capital [city|] of {x}, [right|isn't it|is it not|yes]?
			[Is it true|Is it right|Am I right] that {y} is the capital [city|] of {x}?
			Is the capital [city|] of {x} {y}?
			[True or false|Yes or no]: {y} is the capital [city|] of {x}[.|?]
			Is {x}'s capital {y}?
			I think [that|] {y} is the capital of {x}. [Is that right|Am I right|Is that true]?
			Is {x} the country whose capital is {y}?
			Does {x} have {y} as its capital?
		`).table("xyz", table),
		newKind("capital-no", 2.5, "No, the capital of {x} is {y}.", `
			Is {w} the capital [city|] of {x}?
			{w} is the capital [city|] of {x}, [right|isn't it|is it not|yes]?
			[Is it true|Is it right|Am I right] that {w} is the capital [city|] of {x}?
			Is the capital [city|] of {x} {w}?
			[True or false|Yes or no]: {w} is the capital [city|] of {x}[.|?]
			Is {x}'s capital {w}?
			I think [that|] {w} is the capital of {x}. [Is that right|Am I right|Is that true]?
			Is {x} the country whose capital is {w}?
			Does {x} have {w} as its capital?
		`).drawn(func(r *rand.Rand) filling {
			row := table[r.IntN(len(table))]
			wrong := other(row[0], 1, 1+r.IntN(len(table)-1))
			if wrong == row[1] {
				wrong = "Atlantis"
			}
			return filling{"x": row[0], "y": row[1], "w": wrong}
		}),
	}
}

// oppositeRows lists word and opposite, each word once.
func oppositeRows() [][]string {
	var out [][]string
	for line := range strings.Lines(opposites) {
		line = strings.TrimSpace(line)
		if a, b, ok := strings.Cut(line, "|"); ok {
			out = append(out, []string{a, b}, []string{b, a})
		} else if a, b, ok := strings.Cut(line, ">"); ok {
			out = append(out, []string{a, b})
		}
	}
	return out
}

func oppositeKinds() []*kind {
	table := oppositeRows()
	return []*kind{
		newKind("opposite", 5, "The opposite of {x} is {y}.", `
			[What|Which word] is the opposite of [the word|] {x}?
			[What's|whats|Name|Give me|Tell me|Say] the opposite of [the word|] {x}.
			[What is|What's] {x}'s opposite?
			[Do you know|Can you tell me|Could you tell me|Can you name] the opposite of [the word|] {x}?
			[Do you know|Please tell me|I want to know] what the opposite of {x} is.
			The opposite of [the word|] {x}[?| is| is?| is ...|:]
			Opposite of {x}[?|]
			{x} opposite[?|]
			[What|Which word] is the contrary of {x}?
			[What|Which] word means the opposite of {x}?
			[What|Which] word is opposite to {x}?
			[What is|What's|Give me|Tell me|Name] [the|an] antonym of {x}?
			Antonym of {x}[?|]
			Antonym for {x}[?|]
			Which word is the antonym of {x}?
			If [something|it] is not {x}, [what is it|then it is ...]?
			What do you call the opposite of {x}?
			Which word [has|would have] the opposite meaning of {x}?
			{X}, and its opposite?
			[I need|I am looking for] the opposite of {x}.
			[Find|Write|Give] a word that means the opposite of {x}.
			What is the opposite [word|] of "{x}"?
			What is the reverse of {x}?
			!Which word says the opposite of {x}?
			!Tell me a word that is the opposite of {x}.
			!I am thinking of the opposite of {x}. What is it?
			!What would be the opposite of {x}?
		`).table("xy", table).follows(andX + `
			[And of|And the opposite of|And for] {x}?`),
		newKind("two-opposites", 0.8, "The opposite of {x} is {y}, and the opposite of {u} is {v}.", `
			What are the opposites of {x} and {u}?
			[Name|Tell me|Give me] the opposites of {x} and {u}.
			What is the opposite of {x} and [what is|] the opposite of {u}?
			What is the opposite of {x} and of {u}?
			What is the opposite of {x}? And of {u}?
			The opposites of {x} and {u}?
			Which words are the opposites of {x} and {u}?
		`).drawn(func(r *rand.Rand) filling {
			p, q := pick(r, table), pick(r, table)
			for p[0] == q[0] {
				q = pick(r, table)
			}
			return filling{"x": p[0], "y": p[1], "u": q[0], "v": q[1]}
		}),
		newKind("opposite-yes", 2, "Yes, the opposite of {x} is {y}.", `
			Is {y} the opposite of {x}?
			Is the opposite of {x} {y}?
			[Is it true|Is it right|Am I right] that {y} is the opposite of {x}?
			{Y} is the opposite of {x}, [right|isn't it|yes]?
			[Yes or no|True or false]: {y} is the opposite of {x}[.|?]
			I think [that|] {y} is the opposite of {x}. [Am I right|Is that right|Is that true]?
			Would you say that {y} is the opposite of {x}?
			Is it correct to say that {y} is the opposite of {x}?
			Does {x} have the opposite {y}?
		`).table("xy", table),
		newKind("opposite-no", 1.5, "No, the opposite of {x} is {y}.", `
			Is {w} the opposite of {x}?
			Is the opposite of {x} {w}?
			[Is it true|Is it right|Am I right] that {w} is the opposite of {x}?
			{W} is the opposite of {x}, [right|isn't it|yes]?
			[Yes or no|True or false]: {w} is the opposite of {x}[.|?]
			I think [that|] {w} is the opposite of {x}. [Am I right|Is that right|Is that true]?
			Would you say that {w} is the opposite of {x}?
			Is it correct to say that {w} is the opposite of {x}?
			Does {x} have the opposite {w}?
		`).drawn(func(r *rand.Rand) filling {
			i := r.IntN(len(table))
			w := table[(i+1+r.IntN(len(table)-1))%len(table)]
			c := filling{"x": table[i][0], "y": table[i][1], "w": w[0]}
			if w[0] == c["y"] || w[1] == c["x"] || w[0] == c["x"] {
				c["w"] = "blue"
			}
			return c
		}),
	}
}

// bare drops the article: "a lemon" is "lemon", "the sky" is "sky".
func bare(noun string) string {
	for _, article := range []string{"a ", "an ", "the "} {
		if rest, ok := strings.CutPrefix(noun, article); ok {
			return rest
		}
	}
	return noun
}

var colours = strings.Fields("red blue green yellow orange purple pink brown black white grey")

func colourKinds() []*kind {
	table := rows(coloured)
	for i, r := range table {
		table[i] = append(r, bare(r[0]))
	}
	var first [][]string // of each colour the first thing that has it
	for _, c := range colours {
		i := slices.IndexFunc(table, func(r []string) bool { return r[1] == c })
		first = append(first, []string{table[i][0], c})
	}
	many := strings.Split(manyColoured, ",")
	const colour = "[colour|color]"
	return []*kind{
		newKind("colour", 5, "{X} is {y}.", `
			[What|Which] `+colour+` is {x}?
			[What is|What's|Tell me|Name|Say] the `+colour+` of {x}.
			[What|Which] `+colour+` [does {x} have|has {x}]?
			[Tell me|Do you know|Can you tell me|I want to know] [what|which] `+colour+` {x} is.
			[Do you know|Can you tell me] the `+colour+` of {x}?
			{x} has [what|which] `+colour+`?
			{X} is [what|which] `+colour+`?
			The `+colour+` of {x}[?| is| is?|:]
			`+colour+` of {x}?
			{x} `+colour+`?
			If I paint {x}, which `+colour+` do I [need|use|take]?
			When you look at {x}, what `+colour+` do you see?
			What `+colour+` would you paint {x}?
			Which `+colour+` do you see when you look at {x}?
			What `+colour+` is {x} [usually|normally|most often]?
			[In|Of] [what|which] `+colour+` is {x}?
			How would you describe the `+colour+` of {x}?
			I [draw|paint] {x}. [Which|What] `+colour+` do I [need|use|take]?
			To [draw|paint] {x}, [which|what] `+colour+` do I need?
			Which pencil do I need to [draw|paint] {x}?
			!I draw {x}. Which `+colour+` pencil do I need?
			!Which `+colour+` do you think {x} is?
			!Can you say what `+colour+` {x} has?
			!Please name the `+colour+` that {x} has.
		`).table("xyb", table).follows(andX),
		newKind("colours-many", 1, "{X} can have many colours.", `
			[What|Which] `+colour+` is {x}?
			[What is|What's|Tell me|Name|Say] the `+colour+` of {x}.
			[What|Which] `+colour+` [does {x} have|has {x}]?
			[Tell me|Do you know|Can you tell me|I want to know] [what|which] `+colour+` {x} is.
			{X} is [what|which] `+colour+`?
			The `+colour+` of {x}[?| is| is?|:]
			`+colour+` of {x}?
			What `+colour+` is {x} [usually|normally|most often]?
			Is {x} [red|blue|green|yellow|black|white|brown]?
		`).each(len(many), func(i int) filling { return filling{"x": many[i]} }).follows(andX),
		newKind("two-colours", 0.8, "{X} is {y}, and {u} is {v}.", `
			What `+colour+` is {x} and what `+colour+` is {u}?
			What `+colour+` is {x}? And {u}?
			What `+colour+` are {x} and {u}?
			What are the [colours|colors] of {x} and {u}?
			Tell me the [colours|colors] of {x} and {u}.
			Which [colours|colors] do {x} and {u} have?
			What is the `+colour+` of {x} and of {u}?
			What is the `+colour+` of {x}? And of {u}?
		`).drawn(func(r *rand.Rand) filling {
			p, q := pick(r, table), pick(r, table)
			for p[0] == q[0] {
				q = pick(r, table)
			}
			return filling{"x": p[0], "y": p[1], "u": q[0], "v": q[1]}
		}),
		newKind("colour-yes", 1.5, "Yes, {x} is {y}.", `
			Is {x} {y}?
			{X} is {y}, [right|isn't it|yes]?
			Is the `+colour+` of {x} {y}?
			[Is it true|Is it right|Am I right] that {x} is {y}?
			[Yes or no|True or false]: {x} is {y}.
			Is {y} the `+colour+` of {x}?
		`).table("xyb", table),
		newKind("colour-no", 1.5, "No, {x} is {y}.", `
			Is {x} {w}?
			{X} is {w}, [right|isn't it|yes]?
			Is the `+colour+` of {x} {w}?
			[Is it true|Is it right|Am I right] that {x} is {w}?
			[Yes or no|True or false]: {x} is {w}.
			Is {w} the `+colour+` of {x}?
		`).drawn(func(r *rand.Rand) filling {
			row := table[r.IntN(len(table))]
			i := slices.Index(colours, row[1])
			return filling{"x": row[0], "y": row[1], "w": colours[(i+1+r.IntN(len(colours)-1))%len(colours)]}
		}),
		newKind("coloured", 1, "{X} is {y}.", `
			[Name|Tell me|Give me|Say] something [that is|which is|] {y}.
			[Name|Tell me|Give me] a {y} thing.
			What is {y}?
			[What|Which thing|What thing] is {y}?
			Can you [name|think of] something {y}?
			What [do you know that is|things are|can be] {y}?
			Do you know something that is {y}?
		`).table("xy", first).follows(`[And|What about|How about|And something] {y}?`),
		newKind("mix", 1, "{X} and {y} make {z}.", `
			What [colour|color] do {x} and {y} make?
			What do you get when you mix {x} and {y}?
			What [colour|color] do [you|I] get [when|if] [you|I] mix {x} [and|with] {y}?
			If I mix {x} [and|with] {y}, what [colour|color] do I get?
			Mix {x} and {y}.
			What is {x} mixed with {y}?
			Which [colour|color] comes from {x} and {y}?
			What happens when {x} and {y} are mixed?
		`).table("xyz", [][]string{{"red", "yellow", "orange"}, {"yellow", "red", "orange"}, {"blue", "yellow", "green"},
			{"yellow", "blue", "green"}, {"red", "blue", "purple"}, {"blue", "red", "purple"}, {"red", "white", "pink"},
			{"white", "red", "pink"}, {"black", "white", "grey"}, {"white", "black", "grey"}}),
	}
}

func countingKinds() []*kind {
	count := func(from, to int, word func(int) string) string {
		step := 1
		if to < from {
			step = -1
		}
		var out []string
		for n := from; n != to+step; n += step {
			out = append(out, word(n))
		}
		return capital(strings.Join(out, ", ")) + "."
	}
	span := func(word func(int) string) func(r *rand.Rand) filling {
		return func(r *rand.Rand) filling {
			from, to := r.IntN(20), 0
			if r.IntN(3) > 0 {
				from = 1
			}
			for to = r.IntN(21); to <= from; to = r.IntN(21) {
			}
			return filling{"a": word(from), "b": word(to), "answer": count(from, to, word)}
		}
	}
	down := func(word func(int) string) func(r *rand.Rand) filling {
		return func(r *rand.Rand) filling {
			from, to := 2+r.IntN(19), 1
			if r.IntN(3) == 0 {
				to = r.IntN(from)
			}
			return filling{"a": word(from), "b": word(to), "answer": count(from, to, word)}
		}
	}
	to := func(word func(int) string) func(r *rand.Rand) filling {
		return func(r *rand.Rand) filling {
			n := 2 + r.IntN(19)
			return filling{"b": word(n), "answer": count(1, n, word)}
		}
	}
	from := `
		Count from {a} [to|up to|until] {b}.
		[Can you|Could you|Please|I want you to] count from {a} [to|up to] {b}.
		[Say|Give me|Tell me|List|Write|Name] the numbers from {a} to {b}.
		[What are|Which are] the numbers from {a} to {b}?
		[Count|Numbers] {a} to {b}.
		Start at {a} and count to {b}.
		Begin [with|at] {a} and count [to|up to] {b}.
		All numbers from {a} to {b}[, please|].
	`
	upTo := `
		Count to {b}.
		Count [up to|until] {b}.
		[Can you|Could you|Please|I want you to] count [to|up to] {b}.
		Let [us|me hear you] count to {b}.
		[How do you|How do I] count to {b}?
		Show me how you count to {b}.
	`
	backwards := `
		Count from {a} to {b}.
		[Say|Give me|Tell me] the numbers from {a} to {b}.
		Count [down|backwards|back] from {a} to {b}.
		Count from {a} down to {b}.
		[Can you|Could you|Please] count [down|backwards|back] from {a} to {b}.
		[Say|Give me|Tell me] the numbers from {a} [down|back] to {b}.
		Start at {a} and count [down|back] to {b}.
	`
	zeroDown := `
		Count [down|backwards] from {a}[| to one| to 1].
		[Can you|Could you|Please] count [down|backwards] from {a}[| to one| to 1].
		Start at {a} and count [down|backwards].
		Count backwards[,|] starting [at|from|with] {a}.
		[A countdown|Give me a countdown|Do a countdown] from {a}.
		Countdown from {a}[!|.|]
	`
	twos := `
		Count by twos [to|up to] {b}.
		Count to {b} by twos.
		Count in twos [to|up to] {b}.
		[Can you|Could you|Please] count by twos [to|up to] {b}.
		[Say|Tell me|List|Give me] the even numbers [to|up to] {b}.
		[What are|Which are] the even numbers [to|up to] {b}?
	`
	number := func(n int) filling {
		return filling{"x": itoa(n), "n": itoa(n + 1), "p": itoa(n - 1), "q": itoa(n + 2)}
	}
	word := func(n int) filling {
		c := filling{"x": numberWord(n), "n": numberWord(n + 1)}
		if n < 99 {
			c["q"] = numberWord(n + 2)
		}
		return c
	}
	after := `
		[What|Which|What number|Which number] comes [after|next after|right after|just after] {x}?
		[What|Which number] is [the number after|next after|after] {x}?
		[What|Which number] follows {x}?
		[What's|Tell me|Name|Say|Give me] the [next number after|number after|number that follows|number that comes after] {x}.
		The number after {x}[?| is|:]
		When I count, [what|which number] comes after {x}?
		I count to {x}. What [comes next|is the next number|do I say next]?
		{x} and then?
		{x} is followed by [which number|what]?
		After {x} comes[?| ...| which number?]
		What do you say after {x} when you count?
	`
	before := `
		[What|Which|What number|Which number] comes [before|right before|just before] {x}?
		[What|Which number] is [the number before|before] {x}?
		[What's|Tell me|Name|Say|Give me] the [number before|number that comes before|number just before] {x}.
		The number before {x}[?| is|:]
		When I count, [what|which number] comes before {x}?
		Before {x} comes[?| ...| which number?]
	`
	between := `
		[What|What number|Which number] [is|comes|lies|stands] between {x} and {q}?
		[Tell me|Name|Give me] the number between {x} and {q}.
		Between {x} and {q} [is|comes|lies|there is] [which number|what number|what]?
		[What|Which number|What number] do you [count|say] between {x} and {q}?
		[In the middle of|In the middle between] {x} and {q} is [which number|what]?
		What number is in the middle of {x} and {q}?
		Between {x} and {q} [is|comes|lies][| ...]
		The number between {x} and {q}[?| is|:]
		Which number do I find between {x} and {q}?
	`
	return []*kind{
		newKind("count", 1.5, "{answer}", from).drawn(span(itoa)),
		newKind("count-words", 1, "{answer}", from).drawn(span(numberWord)),
		newKind("count-to", 1.5, "{answer}", upTo).drawn(to(itoa)),
		newKind("count-to-words", 1, "{answer}", upTo).drawn(to(numberWord)),
		newKind("count-down", 1, "{answer}", backwards).drawn(down(itoa)),
		newKind("count-down-words", 0.7, "{answer}", backwards).drawn(down(numberWord)),
		newKind("countdown", 0.8, "{answer}", zeroDown).each(19, func(i int) filling {
			return filling{"a": itoa(i + 2), "answer": count(i+2, 1, itoa)}
		}),
		newKind("countdown-words", 0.6, "{answer}", zeroDown).each(19, func(i int) filling {
			return filling{"a": numberWord(i + 2), "answer": count(i+2, 1, numberWord)}
		}),
		newKind("twos", 0.7, "{answer}", twos).each(20, func(i int) filling {
			n := 4 + 2*(i%10)
			var out []string
			for k := 2; k <= min(n, 20); k += 2 {
				out = append(out, itoa(k))
			}
			if n > 20 {
				return nil
			}
			c := filling{"b": itoa(n), "answer": strings.Join(out, ", ") + "."}
			if i >= 10 {
				c["b"] = numberWord(n)
			}
			return c
		}),
		newKind("after", 2.5, "The number after {x} is {n}.", after).each(999, number).follows(andX + `
			And after {x}?`),
		newKind("after-words", 1.2, "The number after {x} is {n}.", after).each(100, word),
		newKind("before", 1.5, "The number before {x} is {p}.", before).each(1000, func(n int) filling {
			if n == 0 {
				return nil
			}
			return filling{"x": itoa(n), "p": itoa(n - 1)}
		}).follows(andX + `
			And before {x}?`),
		newKind("before-words", 1, "The number before {x} is {p}.", before).each(101, func(n int) filling {
			if n == 0 {
				return nil
			}
			return filling{"x": numberWord(n), "p": numberWord(n - 1)}
		}),
		newKind("between", 1, "The number between {x} and {q} is {n}.", between).each(99, number),
		newKind("between-words", 0.6, "The number between {x} and {q} is {n}.", between).each(99, word),
		newKind("number-word", 1, "{n} is written {w}.", `
			How do you [write|spell|say] {n} in words?
			How [do I|should I|can I] [write|spell] {n} in words?
			How do you [write|spell] the number {n}?
			Spell [the number|] {n} [in words|].
			How is {n} written in words?
			Write [the number|] {n} in words.
			[What is|What's] {n} in words?
			[What is|What's|Give me|Tell me] the word for [the number|] {n}?
			[Write|Say|Give me] {n} as a word.
			{n} in words[?|, please.|:]
			{n}[|.|?]
			Which word do you write for {n}?
		`).each(101, func(n int) filling { return filling{"n": itoa(n), "w": numberWord(n)} }).follows(`[And|What about|How about] {n}?`),
		newKind("word-number", 1, "{W} is {n}.", `
			How do you write {w} [as a number|in digits|with digits]?
			[What|Which] number is {w}?
			[Write|Give me|Say] {w} [as a number|in digits].
			[What is|What's] {w} [as a number|in digits]?
			{w} [in digits|as a number][?|:]
			[What is|What's] the number [for|called] {w}?
			{w}[|.|?]
		`).each(101, func(n int) filling { return filling{"n": itoa(n), "w": numberWord(n)} }).follows(`[And|What about|How about] {w}?`),
		newKind("parity", 1, "{x} is {y}.", `
			Is {x} [even or odd|odd or even|an even or an odd number|an odd or an even number]?
			Is the number {x} [even or odd|odd or even]?
			Tell me [if|whether] {x} is [even or odd|odd or even].
			{x}: [even or odd|odd or even]?
			[Even or odd|Odd or even]: {x}?
			What is {x}, [even or odd|odd or even]?
		`).each(101, func(n int) filling { return filling{"x": itoa(n), "y": []string{"even", "odd"}[n%2]} }).follows(andX),
	}
}

func arithmeticKinds() []*kind {
	const top = 20
	pairs := func(word func(int) string, op func(a, b int) int) func(i int) filling {
		return func(i int) filling {
			a, b := i/(top+1), i%(top+1)
			c := op(a, b)
			if c < 0 {
				return nil
			}
			return filling{"a": word(a), "b": word(b), "c": word(c)}
		}
	}
	const all = (top + 1) * (top + 1)
	plus, minus := func(a, b int) int { return a + b }, func(a, b int) int { return a - b }
	spoken := func(op, verb string) string {
		return `
		[What is|What's|whats|How much is|Calculate|Compute|Work out|Tell me] {a} ` + op + ` {b}?
		{a} ` + op + ` {b}[?| is| is?| equals| makes| is what?| is how much?]
		[Do you know|Can you tell me|I want to know] [what|how much] {a} ` + op + ` {b} is.
		[Can you|Could you|Please] [calculate|work out|compute] {a} ` + op + ` {b}.
		[What does|How much does] {a} ` + op + ` {b} [make|give|equal]?
		What do [you|I|we] get [if|when] [you|I|we] ` + verb + `?
		What is the [result|answer] [of|to] {a} ` + op + ` {b}?
		The [answer|result] to {a} ` + op + ` {b}?
		If [you|I] ` + verb + `, what do [you|I] get?
		[How many|What number] is {a} ` + op + ` {b}?
		!Solve this for me: {a} ` + op + ` {b}.
		!How much do I get from {a} ` + op + ` {b}?
		!I must work out {a} ` + op + ` {b}. What is the answer?`
	}
	signs := func(sign, plain string) string {
		return `
		[What is|What's|Calculate|How much is|Solve|Work out|Compute] {a} ` + sign + ` {b}?
		[What is|What's|Calculate|] {a}` + sign + `{b}?
		{a} ` + sign + ` {b}[| =| = ?|=?]
		{a}` + sign + `{b}[|=|=?| =]
		[What does|How much does] {a} ` + sign + ` {b} [equal|make|give]?
		[Can you|Please|Could you] [calculate|work out|solve] {a} ` + sign + ` {b}.
		The [answer|result] of {a} ` + sign + ` {b}?
		Do you know what {a} ` + sign + ` {b} is?
		!Tell me the answer: {a} ` + sign + ` {b}
		!How much does {a}` + sign + `{b} make?`
	}
	sum := `
		[What is|What's] the sum of {a} and {b}?
		[Give me|Tell me] the sum of {a} and {b}.
		[Add|Add up|Add together|Sum|Sum up] {a} [and|plus|with] {b}.
		Add {b} to {a}.
		[Can you|Please|Could you|I want you to|Will you] [add|add up] {a} [and|to] {b}.
		If you add {a} [and|to] {b}, what is it?
		[What is|How much is] {a} and {b} [together|]?
		[What is|How much is] {b} more than {a}?
		How much do {a} and {b} make [together|]?`
	difference := `
		[What is|What's] the difference [of|between] {a} and {b}?
		Take {b} [away|] from {a}.
		Take away {b} from {a}.
		[Subtract|Deduct|Remove] {b} from {a}.
		[Can you|Please|Could you|I want you to|Will you] [subtract|take] {b} from {a}.
		If you [subtract|take] {b} from {a}, what is it?
		[What is|How much is] {a} take away {b}?
		[What is|How much is] {b} less than {a}?
		[What is left|How much is left|What remains] [if|when] you take {b} [away|] from {a}?`
	times := func(word func(int) string) func(i int) filling {
		return func(i int) filling {
			a, b := i/11, i%11
			return filling{"a": word(a), "b": word(b), "c": word(a * b)}
		}
	}
	return []*kind{
		newKind("sum", 5, "{a} plus {b} is {c}.", spoken("plus", "add {a} and {b}")+sum+signs("+", "plus")).each(all, pairs(itoa, plus)),
		newKind("sum-words", 3, "{A} plus {b} is {c}.", spoken("plus", "add {a} and {b}")+sum).each(all, pairs(numberWord, plus)),
		newKind("difference", 4, "{a} minus {b} is {c}.", spoken("minus", "take {b} from {a}")+difference+signs("-", "minus")).each(all, pairs(itoa, minus)),
		newKind("difference-words", 2.5, "{A} minus {b} is {c}.", spoken("minus", "take {b} from {a}")+difference).each(all, pairs(numberWord, minus)),
		newKind("product", 2.5, "{a} times {b} is {c}.", spoken("times", "multiply {a} by {b}")+signs("*", "times")+signs("x", "times")).each(121, times(itoa)),
		newKind("product-words", 1.2, "{A} times {b} is {c}.", spoken("times", "multiply {a} by {b}")).each(121, times(numberWord)),
		newKind("sum-three", 1.2, "{a} plus {b} plus {d} is {c}.", `
			[What is|What's|whats|How much is|Calculate|] {a} plus {b} plus {d}?
			[What is|What's|whats|How much is|Calculate|] {a} + {b} + {d}?
			{a} + {b} + {d}[| =| = ?|=?]
			{a}+{b}+{d}[|=|=?|?]
			[Add|Add up|Sum] {a}, {b} and {d}.
			[Can you|Please|Could you] add {a}, {b} and {d}.
			[What is|What's] the sum of {a}, {b} and {d}?
			What [do you get|do I get] [if|when] [you|I] add {a}, {b} and {d}?
			How much is {a} and {b} and {d} [together|]?
		`).each(11*11*11, func(i int) filling {
			a, b, d := i/121, i/11%11, i%11
			return filling{"a": itoa(a), "b": itoa(b), "d": itoa(d), "c": itoa(a + b + d)}
		}),
		newKind("double", 1, "Twice {a} is {c}.", `
			[What is|What's|How much is|Calculate|] [twice|double] {a}?
			[What is|What's] the double of {a}?
			Double {a}[.|]
			Double the number {a}.
			[Can you|Please|Could you] double {a}.
			[What is|What do I get|What do you get] [if|when] [I|you] double {a}?
			How much is {a} doubled?
		`).each(42, func(i int) filling {
			if i > 20 {
				return filling{"a": numberWord(i - 21), "c": numberWord(2 * (i - 21))}
			}
			return filling{"a": itoa(i), "c": itoa(2 * i)}
		}),
		newKind("half", 1, "Half of {a} is {c}.", `
			[What is|What's|How much is|Calculate|] half of {a}?
			[What is|What's] [the half of|a half of|one half of] {a}?
			[What is|How much is|] {a} divided by [two|2]?
			Halve {a}.
			[Can you|Please|Could you] halve {a}.
			[What is|What do I get|What do you get] [if|when] [I|you] halve {a}?
			[What is|] {a} / 2?
		`).each(42, func(i int) filling {
			if i > 20 {
				return filling{"a": numberWord(2 * (i - 21)), "c": numberWord(i - 21)}
			}
			return filling{"a": itoa(2 * i), "c": itoa(i)}
		}),
		newKind("groups", 1.5, "{answer}", `
			{n} has {a} {o} and {b} {q}. How many {w} does {n} have [in all|together|in total|]?
			{n} has {a} {o} and {b} {q}. How many {w} are there [in all|together|in total|]?
			If {n} has {a} {o} and {b} {q}, how many {w} does {n} have?
			How many {w} does {n} have if {n} has {a} {o} and {b} {q}?
		`).drawn(func(r *rand.Rand) filling {
			g := pick(r, [][]string{{"animals", "cats", "dogs", "hens", "cows", "rabbits", "ducks", "horses", "sheep", "pigs"},
				{"fruits", "apples", "pears", "plums", "lemons", "oranges", "bananas", "cherries"},
				{"toys", "balls", "cars", "dolls", "kites", "balloons", "trains"},
				{"things", "books", "pencils", "cups", "hats", "coins", "stones", "shells", "boxes"}})
			i := 1 + r.IntN(len(g)-1)
			j := 1 + (i+r.IntN(len(g)-2))%(len(g)-1)
			a, b := 2+r.IntN(9), 2+r.IntN(9)
			n := aName(r)
			return filling{"a": itoa(a), "b": itoa(b), "o": g[i], "q": g[j], "w": g[0], "n": n, "answer": fmt.Sprintf("%s has %d %s.", n, a+b, g[0])}
		}),
		newKind("below-zero", 1, "{b} is more than {a}: I cannot go below zero.", `
			[What is|What's|How much is|] {a} minus {b}?
			[What is|What's|Calculate|] {a} - {b}?
			{a}-{b}[|=|=?]
			Take {b} [away|] from {a}.
			Take away {b} from {a}.
			[Subtract|Deduct|Remove] {b} from {a}.
			[Can you|Please|Could you|I want you to|Will you] [subtract|take] {b} from {a}.
			[What is|How much is] {a} take away {b}?
			What is the result of {a} minus {b}?
			[What does|How much does] {a} minus {b} [make|give]?
		`).each(all, func(i int) filling {
			a, b := i/(top+1), i%(top+1)
			if a >= b {
				return nil
			}
			return filling{"a": itoa(a), "b": itoa(b)}
		}),
		newKind("too-big", 1.5, "That is too big for me. I can add and take away numbers up to 20.", `
			[What is|What's|How much is|Calculate|] {a} [plus|minus|times|divided by] {b}?
			[What is|What's|Calculate|] {a} [+|-|*|/|x] {b}?
			{a}[+|-|*|/|x]{b}[|=|=?]
			[Add|Multiply] {a} and {b}.
			Take {b} from {a}.
			[What is|Tell me] the [sum|difference] of {a} and {b}?
			What is the square root of {a}?
		`).drawn(func(r *rand.Rand) filling {
			n := func() int { return 21 + int(float64(r.IntN(80))*[]float64{1, 1, 13, 170, 9999}[r.IntN(5)]) }
			c := filling{"a": itoa(n()), "b": itoa(n())}
			switch r.IntN(4) {
			case 0:
				c["a"] = itoa(11 + r.IntN(10))
			case 1:
				c["b"] = itoa(11 + r.IntN(10))
			}
			return c
		}),
		newKind("apples", 2, "{answer}", `
			{n} has {a} {o}. [Then|] {m} gives {n} {b} more. How many {o} does {n} have [now|]?
			{n} has {a} {o} and [gets|buys|finds] {b} more. How many {o} does {n} have [now|in the end|]?
			{n} had {a} {o} and [got|bought|found] {b} more. How many {o} does {n} have now?
			If {n} has {a} {o} and [gets|buys|finds] {b} more, how many {o} does {n} have?
		`).drawn(apples(1)),
		newKind("eaten", 2, "{answer}", `
			{n} has {a} {o} and [loses|gives away|sells] {b}. How many {o} does {n} have [left|now]?
			{n} has {a} {o}. [Then|] {n} gives {b} to {m}. How many {o} does {n} have [left|now]?
			{n} had {a} {o} and [lost|gave away|sold] {b}. How many {o} does {n} have [left|now]?
			If {n} has {a} {o} and [loses|gives away] {b}, how many {o} are left?
			{n} has {a} {o} and gives {b} to {m}. How many {o} are left?
		`).drawn(apples(-1)),
		newKind("my-apples", 1.5, "You have {c} {o}.", `
			I have {a} {o} and [get|buy|find] {b} more. How many [{o}|] do I have [now|]?
			If I have {a} {o} and [get|buy|find] {b} more, how many [{o}|] do I have?
			I had {a} {o} and [got|bought|found] {b} more. How many [{o}|] do I have now?
			I have {a} {o}. You give me {b} more. How many [{o}|] do I have now?
		`).drawn(func(r *rand.Rand) filling {
			a, b := 2+r.IntN(12), 1+r.IntN(8)
			return filling{"a": itoa(a), "b": itoa(b), "o": pick(r, plurals), "c": itoa(a + b)}
		}),
		newKind("my-apples-left", 1.5, "You have {c} {o} left.", `
			I have {a} {o} and [eat|lose|give away|sell] {b}. How many [{o}|] [do I have left|are left|do I have now]?
			If I have {a} {o} and [eat|lose|give away] {b}, how many [{o}|] [do I have left|are left]?
			I had {a} {o} and [ate|lost|gave away] {b}. How many [{o}|] [do I have left|are left|do I have now]?
		`).drawn(func(r *rand.Rand) filling {
			b := 1 + r.IntN(9)
			c := 2 + r.IntN(10)
			return filling{"a": itoa(b + c), "b": itoa(b), "o": pick(r, plurals), "c": itoa(c)}
		}),
	}
}

var plurals = strings.Fields("apples pears balls books coins cakes eggs flowers stones toys plums cookies pencils shells stamps")

func apples(sign int) func(r *rand.Rand) filling {
	return func(r *rand.Rand) filling {
		a, b := 2+r.IntN(12), 1+r.IntN(8)
		if sign < 0 {
			a = b + 2 + r.IntN(10)
		}
		n, m := twoNames(r)
		o := pick(r, plurals)
		answer := fmt.Sprintf("%s has %d %s.", n, a+sign*b, o)
		if sign < 0 {
			answer = fmt.Sprintf("%s has %d %s left.", n, a-b, o)
		}
		return filling{"a": itoa(a), "b": itoa(b), "o": o, "n": n, "m": m, "answer": answer}
	}
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func calendarKinds() []*kind {
	ring := func(names []string, shift int) [][]string {
		var out [][]string
		for i, n := range names {
			out = append(out, []string{n, names[(i+shift+len(names))%len(names)]})
		}
		return out
	}
	next := func(unit string) string {
		return `
		[What|Which ` + unit + `|What ` + unit + `|Which] comes [after|right after|just after|next after] {x}?
		[What|Which ` + unit + `|What ` + unit + `] is [after|the ` + unit + ` after|next after] {x}?
		[What|Which ` + unit + `] follows {x}?
		[Name|Tell me|Say|Give me] the ` + unit + ` [after|that follows|that comes after] {x}.
		[What is|What's] the [next ` + unit + `|` + unit + ` that comes] after {x}?
		After {x} comes[?| ...| which ` + unit + `?]
		The ` + unit + ` after {x}[?| is|:]
		{X} is followed by [which ` + unit + `|what]?
		[Do you know|Can you tell me] [which|what] ` + unit + ` comes after {x}?
		When {x} is over, which ` + unit + ` [comes|begins|is it]?
		!Which ` + unit + ` do we have after {x}?
		!{X} ends. Which ` + unit + ` is next?`
	}
	previous := func(unit string) string {
		return `
		[What|Which ` + unit + `|What ` + unit + `|Which] comes [before|right before|just before] {x}?
		[What|Which ` + unit + `|What ` + unit + `] is [before|the ` + unit + ` before] {x}?
		[Name|Tell me|Say|Give me] the ` + unit + ` [before|that comes before] {x}.
		[What is|What's] the ` + unit + ` [before|that comes before] {x}?
		Before {x} comes[?| ...| which ` + unit + `?]
		The ` + unit + ` before {x}[?| is|:]
		{X} [follows|comes after|is after] [which|what] ` + unit + `?
		{X} comes [right|just|] after [which|what] ` + unit + `?
		[After|Right after|Just after] [which|what] ` + unit + ` comes {x}?
		[Which|What] ` + unit + ` [ends before {x} begins|is followed by {x}|comes one before {x}]?
		[Do you know|Can you tell me] [which|what] ` + unit + ` comes before {x}?
		!Which ` + unit + ` do we have before {x}?`
	}
	var dayRows, monthRows [][]string
	for i, d := range dayNames {
		dayRows = append(dayRows, []string{d, ordinals[i], itoa(i + 1)})
	}
	seasonOf := []int{0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0}
	for i, m := range monthNames {
		days := itoa(monthDays[i]) + " days"
		if i == 1 {
			days = "28 days, and 29 in a leap year"
		}
		monthRows = append(monthRows, []string{m, ordinals[i], itoa(i + 1), days, seasons[seasonOf[i]]})
	}
	weekend := func(d string) bool { return d[0] == 'S' }
	var endRows, workRows [][]string
	for _, d := range dayNames {
		if weekend(d) {
			endRows = append(endRows, []string{d})
		} else {
			workRows = append(workRows, []string{d})
		}
	}
	isWeekend := `
		Is {x} [a weekend day|on the weekend|part of the weekend|in the weekend]?
		Is {x} a day of the weekend?
		Does {x} belong to the weekend?
		Do we have weekend on {x}?
	`
	order := `
		[What|Which] is the {o} UNIT of the WHOLE?
		[What|Which] UNIT is the {o} [of the WHOLE|in the WHOLE|one of the WHOLE]?
		[Name|Tell me|Give me|Say] the {o} UNIT of the WHOLE.
		The {o} UNIT of the WHOLE[?| is|:]
		[Which|What] UNIT comes {o} in the WHOLE?
		[What|Which] UNIT is number {n} [of|in] the WHOLE?
	`
	unit := func(block, unit, whole string) string {
		return strings.NewReplacer("UNIT", unit, "WHOLE", whole).Replace(block)
	}
	return []*kind{
		newKind("day-after", 2, "The day after {x} is {y}.", next("day")).table("xy", ring(dayNames, 1)).follows(andX + `
			And after {x}?`),
		newKind("day-before", 1.5, "The day before {x} is {y}.", previous("day")).table("xy", ring(dayNames, -1)).follows(andX + `
			And before {x}?`),
		newKind("two-days-after", 1, "Two days after {x} is {y}.", `
			[What|Which day|What day] is two days after {x}?
			[What|Which day|What day] comes two days after {x}?
			Which day is it two days after {x}?
			If today is {x}, what day is [the day after tomorrow|it in two days]?
			Today is {x}. What day is [the day after tomorrow|it in two days]?
			Two days after {x} is[?| ...| which day?]
			[Tell me|Name] the day two days after {x}.
		`).table("xy", ring(dayNames, 2)),
		newKind("tomorrow", 1.5, "If today is {x}, tomorrow is {y}.", `
			If today is {x}, [what|which day|what day] is [tomorrow|it tomorrow]?
			Today is {x}. [What|Which day|What day] is [tomorrow|it tomorrow]?
			[What|Which|What day|Which day] is tomorrow[,|] if today is {x}?
			It is {x} today. [What|Which day|What day] is [tomorrow|it tomorrow]?
			[What|Which] day will it be tomorrow if [today is {x}|it is {x} today]?
			[When|If] it is {x} today, [what|which] day is [it|] tomorrow?
		`).table("xy", ring(dayNames, 1)),
		newKind("yesterday", 1.5, "If today is {x}, yesterday was {y}.", `
			If today is {x}, [what|which day|what day] was [yesterday|it yesterday]?
			Today is {x}. [What|Which day|What day] was [yesterday|it yesterday]?
			[What|Which|What day|Which day] was yesterday[,|] if today is {x}?
			It is {x} today. [What|Which day|What day] was [yesterday|it yesterday]?
			[When|If] it is {x} today, [what|which] day was [it|] yesterday?
		`).table("xy", ring(dayNames, -1)),
		newKind("day-order", 1, "The {o} day of the week is {x}.", unit(order, "day", "week")).table("xon", dayRows).follows(`[And|What about|How about] the {o}?`),
		newKind("weekend-yes", 0.5, "Yes, {x} is part of the weekend.", isWeekend).table("x", endRows),
		newKind("weekend-no", 0.5, "No, {x} is not part of the weekend.", isWeekend).table("x", workRows),
		newKind("month-after", 2, "The month after {x} is {y}.", next("month")).table("xy", ring(monthNames, 1)).follows(andX + `
			And after {x}?`),
		newKind("month-before", 1.5, "The month before {x} is {y}.", previous("month")).table("xy", ring(monthNames, -1)).follows(andX + `
			And before {x}?`),
		newKind("month-order", 1.2, "The {o} month of the year is {x}.", unit(order, "month", "year")).table("xon", monthRows).follows(`[And|What about|How about] the {o}?`),
		newKind("month-number", 1, "{x} is the {o} month of the year.", `
			[What|Which] number [has|is] [the month|] {x}?
			[What|Which] number month is {x}?
			Which month of the year is {x}?
			What is the number of the month {x}?
			Is {x} the first or the last month of the year, or which one?
			What place does {x} have in the year?
			Where in the year [is|comes] {x}?
		`).table("xon", monthRows).follows(andX),
		newKind("month-days", 1.5, "{x} has {d}.", `
			How many days [are|are there] in {x}?
			How many days does {x} have?
			How many days has {x} [got|]?
			[Tell me|Do you know|Can you tell me] how many days [are in {x}|there are in {x}|{x} has].
			How long is {x}?
			What is the number of days in {x}?
			Days in {x}?
			The number of days in {x}[?| is|:]
			{x} has how many days?
		`).table("xonds", monthRows).follows(andX),
		newKind("month-season", 1, "In the north, {x} is in {s}.", `
			[Which|What] season is {x} in?
			In [which|what] season is {x}?
			[Which|What] season [does {x} belong to|is it in {x}|do we have in {x}]?
			Is {x} in [winter, spring, summer or autumn|summer or winter]?
			{x} is in which season?
			What time of the year is {x}?
		`).table("xonds", monthRows).follows(andX),
		newKind("season-after", 1, "{Y} comes after {x}.", next("season")).table("xy", ring(seasons, 1)).follows(andX + `
			And after {x}?`),
		newKind("season-before", 1, "{Y} comes before {x}.", previous("season")).table("xy", ring(seasons, -1)),
	}
}

// column keeps the rows that have a value in each of the given columns, reduced to these.
func column(table [][]string, columns ...int) [][]string {
	var out [][]string
next:
	for _, r := range table {
		var row []string
		for _, c := range columns {
			if r[c] == "-" {
				continue next
			}
			row = append(row, r[c])
		}
		out = append(out, row)
	}
	return out
}

func animalKinds() []*kind {
	table := rows(animals)
	for i, r := range table {
		table[i] = append(r, a(r[0]), plural(r[0]))
	}
	legs := column(table, 5, 2, 0, 6)
	for i, r := range legs {
		legs[i][1] = r[1] + " legs"
		if r[1] == "0" {
			legs[i][1] = "no legs"
		}
	}
	var can, cannot [][]string
	for _, r := range rows(abilities) {
		for v := range strings.SplitSeq(r[1], ",") {
			can = append(can, []string{a(r[0]), v})
		}
		for v := range strings.SplitSeq(r[2], ",") {
			cannot = append(cannot, []string{a(r[0]), v})
		}
	}
	whatIs := rows(kindsOf)
	for i, r := range whatIs {
		if name, ok := strings.CutPrefix(r[0], "="); ok {
			whatIs[i] = []string{name, r[1], name}
		} else {
			whatIs[i] = append(r, a(r[0]))
		}
	}
	sounds := column(table, 5, 1, 0, 6) // of animals that say the same the first
	slices.SortStableFunc(sounds, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	feeds := func(table string) [][]string {
		out := rows(table)
		for i, r := range out {
			out[i] = []string{a(r[0]), r[1], plural(r[0])}
		}
		return out
	}
	feeding := func(verb string) string {
		return strings.ReplaceAll(`
		What does {x} VERB?
		What do {s} VERB?
		What [does {x}|do {s}] like to VERB?
		[Tell me|Do you know|Can you tell me] what {x} VERBs.
		[Tell me|Do you know|Can you tell me] what {s} VERB.
		{X} VERBs what?
		{X} VERBs[?| ...|]
		What can I give {x} to VERB?
		`, "VERB", verb)
	}
	ability := `
		Can {x} {v}?
		Is {x} able to {v}?
		[Do you think|Do you know if|Tell me if] {x} can {v}?
		[Yes or no|True or false]: {x} can {v}.
		{X} can {v}, [right|can't it|yes]?
		[Can you tell me|Do you know|I want to know] [if|whether] {x} can {v}.
		Is it possible for {x} to {v}?
		Does {x} know how to {v}?
		[Would|Could] {x} {v}?
		Is {x} good at this: {v}?
		[Is it true|Am I right] that {x} can {v}?
	`
	isA := `
		Is {x} {w}?
		[Would you say|Do you think|Is it true] that {x} is {w}?
		[Yes or no|True or false]: {x} is {w}.
		{X} is {w}, [right|isn't it|yes]?
		Tell me if {x} is {w}.
	`
	return []*kind{
		newKind("sound", 1.5, "{X} says {y}.", `
			What does {x} say?
			What do {s} say?
			[What|Which] [sound|noise] do {s} make?
			[Tell me|Do you know] what {s} say.
			How do {s} [sound|talk]?
			[What|Which] [sound|noise] does {x} make?
			What [sound|noise] [comes from|do you hear from] {x}?
			[Tell me|Do you know|Can you tell me] what {x} says.
			[Tell me|Do you know|Can you tell me] [what|which] [sound|noise] {x} makes.
			How does {x} [sound|talk|speak]?
			[What is|What's] the [sound|noise] of {x}?
			{X} says[?| ...| what?]
			{X} goes[?| ...| what?]
			Make the [sound|noise] of {x}.
		`).table("xybs", column(table, 5, 1, 0, 6)).follows(andX),
		newKind("who-says", 1, "{X} says {y}.", `
			[Which|What] animal says {y}?
			Who says {y}?
			[What|Which animal|Who] [goes|makes] {y}?
			[Tell me|Name] the animal that [says|goes] {y}.
			{Y}! Which animal [is that|was that|says that]?
		`).table("xybs", slices.CompactFunc(sounds, func(a, b []string) bool { return a[1] == b[1] })),
		newKind("legs", 1.5, "{X} has {y}.", `
			How many legs does {x} have?
			How many legs do {s} have?
			[Tell me|Do you know] how many legs {s} have.
			How many legs has {x} [got|]?
			[Tell me|Do you know|Can you tell me] how many legs {x} has.
			What is the number of legs of {x}?
			{X} has how many legs?
			On how many legs does {x} walk?
			How many legs are there on {x}?
			Legs of {x}?
			Count the legs of {x}.
		`).table("xybs", legs).follows(andX),
		newKind("baby", 1.5, "A baby {b} is called a {y}.", `
			[What is|What's] a baby {b} called?
			[What is|What's] a [young|little|small] {b} called?
			What [do you|do we|do people] call a baby {b}?
			What do you call a [young|little|small] {b}?
			[What is|What's|Tell me] the [name|word] for a baby {b}?
			What is the baby of {x} called?
			[What is|How do you call] the [young|child] of {x} [called|]?
			How is a baby {b} called?
			A baby {b} is called[?| ...|]
		`).table("xyb", babies(table)).follows(`[And|What about|How about] [{x}|a baby {b}]?`),
		newKind("home", 1.2, "{X} lives {y}.", `
			Where does {x} live?
			Where do {s} live?
			[Tell me|Do you know] where {s} live.
			Where [can|do|could|would|must] [I|you|we|people] [find|look for|see] {s}?
			Where [can|do|could|would] [I|you|we|people] [find|look for|see] {x}?
			In [what|which] place do {s} live?
			[What is|Where is] the home of {s}?
			Where [is|do I find|can I find] the home of {x}?
			[Tell me|Do you know|Can you tell me] where {x} lives.
			Where is {x} at home?
			In what place does {x} live?
			What is the home of {x}?
			Where would you look for {x}?
			{X} lives where?
		`).table("xybs", column(table, 5, 4, 0, 6)).follows(andX),
		newKind("eats", 1.2, "{X} eats {y}.", feeding("eat")+`
			What is the food of {x}?
			What kind of food does {x} eat?`).table("xys", feeds(eaten)).follows(andX),
		newKind("drinks", 0.7, "{X} drinks {y}.", feeding("drink")).table("xys", feeds(drunk)).follows(andX),
		newKind("can", 1.2, "Yes, {x} can {v}.", ability).table("xv", can),
		newKind("cannot", 1.2, "No, {x} cannot {v}.", ability).table("xv", cannot),
		newKind("what-is", 2, "{X} is {y}.", `
			What is {x}?
			What kind of thing is {x}?
			[Tell me|Do you know|Can you tell me] what {x} is.
			What sort of thing is {x}?
			What do you call {x}, what kind of thing is it?
			Explain what {x} is.
			What's {x}?
			{X} is what kind of thing?
			Say what {x} is.
			[{x}|{b}][?|.|]
			Do you know {x}?
		`).table("byx", whatIs).follows(andX),
		newKind("is-a", 1, "Yes, {x} is {w}.", isA).table("bwx", whatIs),
		newKind("is-not-a", 1, "No, {x} is {y}.", isA).drawn(func(r *rand.Rand) filling {
			row := pick(r, whatIs)
			w := pick(r, whatIs)[1]
			for w == row[1] || w == "an animal" || row[1] == "an animal" && w == "a person" {
				w = pick(r, whatIs)[1]
			}
			return filling{"x": row[2], "y": row[1], "w": w}
		}),
		newKind("name-some", 1, "{answer}", `
			[Name|Tell me|Give me|List|Say] {n} {p}.
			[Can you|Could you|Please] [name|list|give me] {n} {p}.
			What are {n} {p}?
			Do you know {n} {p}?
			I need {n} {p}.
			Which {n} {p} do you know?
		`).each(3*4*2, func(i int) filling {
			groups := []struct{ one, many string }{{"a fruit", "fruits"}, {"a vegetable", "vegetables"}, {"an animal", "animals"}, {"", "colours"}}
			g, n := groups[i%4], 2+i/4%3
			var members []string
			if g.one == "" {
				members = colours
			}
			for _, r := range whatIs {
				if r[1] == g.one {
					members = append(members, a(r[0]))
				}
			}
			count := numberWord(n)
			if i >= 12 {
				count = itoa(n)
			}
			return filling{"n": count, "p": g.many, "answer": fmt.Sprintf("%s %s are %s.", capital(numberWord(n)), g.many, list(members[:n]))}
		}),
	}
}

// babies keeps the animals whose baby has a name of its own, which takes the article "a" unless it starts with a vowel.
func babies(table [][]string) [][]string {
	var out [][]string
	for _, r := range column(table, 5, 3, 0) {
		if !strings.ContainsRune("aeiou", rune(r[1][0])) {
			out = append(out, r)
		}
	}
	return out
}

func compareKinds() []*kind {
	ranked := func(ranking string) func(r *rand.Rand) filling {
		order := strings.Split(ranking, ",")
		return func(r *rand.Rand) filling {
			i := r.IntN(len(order) - 1)
			j := i + 1 + r.IntN(len(order)-1-i)
			c := filling{"less": order[i], "more": order[j], "x": order[i], "y": order[j]}
			if r.IntN(2) == 0 {
				c["x"], c["y"] = c["y"], c["x"]
			}
			return c
		}
	}
	numbers := func(r *rand.Rand) filling {
		top := []int{20, 100, 1000}[r.IntN(3)]
		i := r.IntN(top)
		j := i + 1 + r.IntN(top-i)
		c := filling{"less": itoa(i), "more": itoa(j), "x": itoa(i), "y": itoa(j)}
		if r.IntN(2) == 0 {
			c["x"], c["y"] = c["y"], c["x"]
		}
		return c
	}
	which := func(adj string) string {
		return strings.ReplaceAll(`
		[Which|What|Which one] is ADJ[,|:] {x} or {y}?
		[What|Which] is ADJ, {x} or {y}?
		Is {x} or {y} ADJ?
		[Tell me|Say|Do you know] which is ADJ[,|:] {x} or {y}.
		{X} or {y}: which is ADJ?
		{X} or {y}, [which one|which|what] is ADJ?
		Which of the two is ADJ, {x} or {y}?
		Of {x} and {y}, which is ADJ?
		Compare {x} and {y}. Which is ADJ?
		`, "ADJ", adj)
	}
	yes := func(adj string) string {
		return strings.ReplaceAll(`
		Is {p} ADJ than {q}?
		{P} is ADJ than {q}, [right|isn't it|yes]?
		[Is it true|Am I right|Is it right] that {p} is ADJ than {q}?
		[Yes or no|True or false]: {p} is ADJ than {q}.
		Would you say that {p} is ADJ than {q}?
		`, "ADJ", adj)
	}
	ordered := func(ranking, p, q string) func(r *rand.Rand) filling {
		draw := ranked(ranking)
		if ranking == "" {
			draw = numbers
		}
		return func(r *rand.Rand) filling {
			c := draw(r)
			return filling{"p": c[p], "q": c[q]}
		}
	}
	return []*kind{
		newKind("bigger", 1.2, "{More} is bigger than {less}.", which("[bigger|larger]")).drawn(ranked(bySize)),
		newKind("smaller", 1.2, "{Less} is smaller than {more}.", which("smaller")).drawn(ranked(bySize)),
		newKind("bigger-yes", 0.7, "Yes, {p} is bigger than {q}.", yes("bigger")).drawn(ordered(bySize, "more", "less")),
		newKind("bigger-no", 0.7, "No, {p} is smaller than {q}.", yes("bigger")).drawn(ordered(bySize, "less", "more")),
		newKind("smaller-yes", 0.7, "Yes, {p} is smaller than {q}.", yes("smaller")).drawn(ordered(bySize, "less", "more")),
		newKind("smaller-no", 0.7, "No, {p} is bigger than {q}.", yes("smaller")).drawn(ordered(bySize, "more", "less")),
		newKind("faster", 1, "{More} is faster than {less}.", which("[faster|quicker]")).drawn(ranked(bySpeed)),
		newKind("slower", 1, "{Less} is slower than {more}.", which("slower")).drawn(ranked(bySpeed)),
		newKind("faster-yes", 0.5, "Yes, {p} is faster than {q}.", yes("faster")).drawn(ordered(bySpeed, "more", "less")),
		newKind("faster-no", 0.5, "No, {p} is slower than {q}.", yes("faster")).drawn(ordered(bySpeed, "less", "more")),
		newKind("number-bigger", 1.5, "{more} is bigger than {less}.", which("[bigger|larger|more|greater]")+`
			Which number is [bigger|larger|greater][,|:] {x} or {y}?`).drawn(numbers),
		newKind("number-smaller", 1.5, "{less} is smaller than {more}.", which("[smaller|less]")+`
			Which number is smaller[,|:] {x} or {y}?`).drawn(numbers),
		newKind("number-yes", 1, "Yes, {p} is bigger than {q}.", yes("bigger")).drawn(ordered("", "more", "less")),
		newKind("number-no", 1, "No, {p} is smaller than {q}.", yes("bigger")).drawn(ordered("", "less", "more")),
	}
}

func shapeKinds() []*kind {
	var all [][]string
	for _, r := range rows(shapes) {
		n := r[1] + " sides"
		if r[1] == "0" {
			n = "no sides"
		}
		all = append(all, []string{r[0], n, r[1], a(r[0])})
	}
	sided := slices.DeleteFunc(slices.Clone(all), func(r []string) bool { return r[2] == "0" || r[0] == "rectangle" })
	var worded [][]string
	for _, r := range sided {
		worded = append(worded, r, []string{r[0], r[1], numberWord(int(r[2][0]-'0') + 9*(len(r[2])-1)), r[3]})
	}
	return []*kind{
		newKind("sides", 1.2, "{X} has {y}.", `
			How many [sides|corners] does {x} have?
			How many sides has {x} [got|]?
			[Tell me|Do you know|Can you tell me] how many [sides|corners] {x} has.
			[What is|What's] the number of sides of {x}?
			{X} has how many sides?
			How many sides are there [on|in] {x}?
			Sides of {x}?
			Count the sides of {x}.
		`).table("bynx", all).follows(andX),
		newKind("which-shape", 1, "{X} has {y}.", `
			[Which|What] shape has {n} [sides|corners]?
			[What|Which shape] [is it that|] has {n} sides?
			[Name|Tell me|Draw|Give me] a shape with {n} [sides|corners].
			[What is|What's] a shape with {n} [sides|corners] called?
			What do you call a shape [with|that has] {n} [sides|corners]?
			A shape with {n} sides is called[?| ...|]
		`).table("bynx", worded).follows(`[And|What about|How about|And with] {n}?`),
	}
}

func letterKinds() []*kind {
	letter := func(i int) string { return string(rune('A' + i)) }
	var spellings []string // every single word that a child might ask for
	for _, r := range slices.Concat(rows(animals), rows(kindsOf), oppositeRows()) {
		if w := strings.TrimPrefix(r[0], "="); !slices.Contains(spellings, w) && strings.ToLower(w) == w && !strings.Contains(w, "-") {
			spellings = append(spellings, w)
		}
	}
	for _, w := range slices.Concat(colours, strings.Fields("sun moon star house school happy world tree ball book mother father friend hello computer language")) {
		if !slices.Contains(spellings, w) {
			spellings = append(spellings, w)
		}
	}
	return []*kind{
		newKind("letter-after", 1, "The letter after {x} is {y}.", `
			[What|Which letter|What letter|Which] comes [after|right after|just after] [the letter|] {x}?
			[What|Which letter] [is the letter after|follows] {x}?
			[Name|Tell me|Say|Give me] the letter [after|that follows|that comes after] {x}.
			In the alphabet, [what|which letter] comes after {x}?
			[What|Which letter] comes after {x} in the alphabet?
			The letter after {x}[?| is|:]
		`).each(25, func(i int) filling { return filling{"x": letter(i), "y": letter(i + 1)} }).follows(andX),
		newKind("letter-before", 1, "The letter before {x} is {y}.", `
			[What|Which letter|What letter|Which] comes [before|right before|just before] [the letter|] {x}?
			[What|Which letter] is the letter before {x}?
			[Name|Tell me|Say|Give me] the letter [before|that comes before] {x}.
			In the alphabet, [what|which letter] comes before {x}?
			[What|Which letter] comes before {x} in the alphabet?
			The letter before {x}[?| is|:]
		`).each(25, func(i int) filling { return filling{"x": letter(i + 1), "y": letter(i)} }),
		newKind("spell", 2.5, "{answer}", `
			How do you spell [the word|] {x}?
			How [is|do I spell] {x} [spelled|]?
			Spell [the word|] {x}.
			[Can you|Could you|Please] spell [the word|] {x}.
			What letters are in the word {x}?
			Tell me how to spell {x}.
		`).each(len(spellings), func(i int) filling {
			return filling{"x": spellings[i], "answer": strings.ToUpper(strings.Join(strings.Split(spellings[i], ""), ", ")) + "."}
		}).follows(andX),
		newKind("first-letter", 0.7, "{X} starts with the letter {y}.", `
			[What|Which] letter does [the word|] {x} [start|begin] with?
			[What is|What's] the first letter [of|in] [the word|] {x}?
			With [what|which] letter does {x} [start|begin]?
			Tell me the first letter of {x}.
			[The word|] {x} [starts|begins] with [what|which] letter?
		`).each(len(spellings), func(i int) filling {
			return filling{"x": spellings[i], "y": strings.ToUpper(spellings[i][:1])}
		}).follows(andX),
	}
}
