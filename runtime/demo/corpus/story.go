package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

var (
	names    = strings.Fields("Tom Anna Ben Lily Max Emma Sam Mia Leo Nora Jack Ella Paul Rosa Ted Lucy Finn Ida Hugo Clara Oscar Eva Felix Ruth Adam Jane Peter Mary Simon Kate")
	girls    = strings.Fields("Anna Lily Emma Mia Nora Ella Rosa Lucy Ida Clara Eva Ruth Jane Mary Kate")
	pets     = strings.Fields("cat dog rabbit hen duck goat pony mouse frog turtle")
	petNames = strings.Fields("Spot Rex Molly Bella Fluffy Rusty Coco Pepper Ginger Smoky Buddy Daisy Lucky Snowy Bingo")
	objects  = strings.Fields("apple plate spoon knife bottle clock key phone rope ladder basket candle flag flute guitar piano mirror pillow blanket broom bucket hammer wheel stone shell feather coin stamp map letter card puzzle robot sword crown shield mask wand cake pear sock shoe boot glove belt tie shirt dress jacket sweater")
	toys     = strings.Fields("ball kite hat coat bike book cup boat car bag pencil lamp drum box scarf balloon umbrella chair doll ring")
	sizes    = strings.Fields("big small new old nice")
	places   = strings.Split("park|school|garden|kitchen|forest|shop|library|beach|market|zoo|barn|bedroom|village|town|river", "|")
	foods    = strings.Fields("apples bread cheese soup rice cake honey carrots plums pears pancakes nuts grapes eggs")
	games    = strings.Split("playing chess|singing|reading|dancing|swimming|painting|running|cooking|riding a bike|fishing", "|")
)

// moreNames are for scenes alone, beside made-up ones: what is told there is copied, whoever it is about.
var moreNames = strings.Fields("Bob Alice Sara Mike John Lisa David Laura Mark Sophie James Linda Robert Susan Daniel Karen Kevin Helen Brian Diana George Olivia Harry Julia Frank Martha Henry Amy Luke Zoe Noah Chloe Ethan Grace Liam Hannah Oliver Amelia Jacob Isla Lucas Freya Arthur Alma Omar Fatima Ali Aisha Ivan Olga Igor Yuki Kenji Mei Wei Raj Priya Carlos Maria Juan Ana Pedro Hans Greta Klaus Heidi Pierre Marie Luca Giulia Sven Astrid Nils Ingrid")

// aName is a name: of the tales, another, or made up.
func aName(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0, 1:
		return pick(r, moreNames)
	case 2:
		return capital(fakeWord(r))
	}
	return pick(r, names)
}

func twoNames(r *rand.Rand) (string, string) {
	n, m := aName(r), aName(r)
	for n == m {
		m = aName(r)
	}
	return n, m
}

func pronoun(name string) string {
	if slices.Contains(girls, name) {
		return "she"
	}
	return "he"
}

// A fact is one sentence of a scene, with what can be asked about it: kind of question, and what fills it.
type fact struct {
	text  string
	asks  []string // keys of sceneAsks
	slots filling
}

// sceneAsks are the questions about a scene: phrasings above "=", the answer after it.
var sceneAsks = map[string]*kind{}

func sceneKinds() []*kind {
	var out []*kind
	for _, s := range []struct{ name, answer, block string }{
		{"thing-colour", "{n}'s {o} is {c}.", `
			What [colour|color] is {n}'s {o}?
			[What is|Tell me|What's] the [colour|color] of {n}'s {o}?
			Which [colour|color] does {n}'s {o} have?
			What [colour|color] is the {o} [of {n}|that {n} has]?
			Which [colour|color] is {n}'s {o}?
			What [colour|color] {o} does {n} have?
			{n} has a {o}. What [colour|color] is it?
			!Do you know the [colour|color] of {n}'s {o}?
			!What [colour|color] has {n}'s {o}?`},
		{"thing-what", "{n} has a {c} {o}.", `
			What does {n} have?
			What thing does {n} have?
			What [is it that|] does {n} own?
			Tell me what {n} has.
			What belongs to {n}?
			What has {n} got?
			!Which thing belongs to {n}?`},
		{"thing-who", "{n} has the {o}.", `
			Who has [the|a] {o}?
			Who has [the|a] {c} {o}?
			Whose is the {o}?
			Whose {o} is {c}?
			Who owns the {c} {o}?
			[Who is|What is the name of] the one [with|who has] the {o}?
			[Who is|What is the name of] the one [with|who has] the {c} {o}?
			[Tell me|Do you know|Can you tell me] who has [the|a] {o}.
			Which [one|person|child] [has|owns] the {c} {o}?
			Which person has the {o}?
			To whom does the {o} belong?
			!Tell me who has the {c} {o}.`},
		{"where", "{n} is in the {p}.", `
			Where is {n} [now|]?
			In [what|which] place is {n}?
			Where can I find {n}?
			Where [do|can|could|would] [you|we] [find|look for] {n}?
			Where [should|would|could|must] I [look for|find|go to see] {n}?
			At which place is {n}?
			[Tell me|Do you know] where {n} is.
			Which place is {n} in?
			!Where would I look for {n}?`},
		{"where-who", "{n} is in the {p}.", `
			Who is in the {p}?
			Which person is in the {p}?
			Who can I find in the {p}?
			Tell me who is in the {p}.
			Who do you find in the {p}?
			What is the name of the person in the {p}?`},
		{"thing-where", "The {w} is {p}.", `
			Where is the {w} [now|]?
			Where [can I find|do I find|do you find] the {w}?
			In [what|which] place is the {w}?
			[Tell me|Do you know] where the {w} is.
			[What|Which] place is the {w} [at|in]?
			Where did the {w} [sit|lie|stand]?`},
		{"went", "{n} went to the {p}.", `
			Where did {n} go?
			To [what|which] place did {n} go?
			What place did {n} go to?
			[Where|To which place] did {n} [walk|run|travel]?
			Where has {n} gone?
			[Tell me|Do you know] where {n} went.
			Which place did {n} visit?`},
		{"likes", "{n} likes {f}.", `
			What does {n} like?
			What [is it that|] does {n} like most?
			Tell me what {n} likes.
			What makes {n} happy?
			What thing does {n} like?
			Do you know what {n} likes?`},
		{"likes-who", "{n} likes {f}.", `
			Who likes {f}?
			Which person likes {f}?
			Tell me who likes {f}.
			Who is it that likes {f}?
			Do you know who likes {f}?`},
		{"pet-name", "{n}'s {t} is called {q}.", `
			[What is|What's] the name of {n}'s {t}?
			[What is|What's] {n}'s {t} called?
			What is the {t} called?
			[Tell me|Do you know] the name of {n}'s {t}.
			How is {n}'s {t} called?
			What name does {n}'s {t} have?`},
		{"pet-what", "{n} has a {t}.", `
			What [animal|pet] does {n} have?
			Which [animal|pet] does {n} have?
			What kind of [animal|pet] does {n} have?
			Which animal lives with {n}?
			Tell me which [animal|pet] {n} has.
			[What|Which] [animal|pet|kind of animal] is {q}?
			[What|Which] [animal|pet] is called {q}?
			[What|Which] [animal|pet] has the name {q}?
			What is {q}, [a cat or a dog|what animal|which animal]?
			What kind of [animal|pet] is called {q}?`},
		{"age", "{n} is {k} years old.", `
			How old is {n}?
			What is {n}'s age?
			What is the age of {n}?
			How many years old is {n}?
			[Tell me|Do you know] how old {n} is.
			What age is {n}?`},
		{"count-of", "{n} has {k} {s}.", `
			How many {s} does {n} have?
			How many {s} has {n} [got|]?
			[Tell me|Do you know] how many {s} {n} has.
			What is the number of {n}'s {s}?
			How many {s} [are there|do I see|are in the story]?
			[Count|What is the count of] {n}'s {s}.
			What number of {s} does {n} have?`},
		{"older", "{old} is older than {young}.", `
			Who is older?
			Who is older, {n} or {m}?
			Is {n} or {m} older?
			Which of them is older?
			Who is the older one?
			Tell me who is older.
			Which of the two is older?
			{n} or {m}: who is older?
			[Of|Between] {n} and {m}, [who|which one] is older?
			[Who|Which one] of {n} and {m} is older?
			Compare {n} and {m}. Who is older?
			Who of [the two|them] is older?
			[Do you know|Can you tell me] who is older, {n} or {m}?
			Who is the older [person|child|of the two]?
			!Say who of the two is older, {n} or {m}.`},
		{"younger", "{young} is younger than {old}.", `
			Who is younger?
			Who is younger, {n} or {m}?
			Is {n} or {m} younger?
			Which of them is younger?
			Who is the younger one?
			Tell me who is younger.
			Which of the two is younger?
			{n} or {m}: who is younger?
			[Of|Between] {n} and {m}, [who|which one] is younger?
			[Who|Which one] of {n} and {m} is younger?
			Compare {n} and {m}. Who is younger?
			Who of [the two|them] is younger?
			[Do you know|Can you tell me] who is younger, {n} or {m}?
			Who is the younger [person|child|of the two]?
			!Say who of the two is younger, {n} or {m}.`},
		{"has-now", "{m} has the {o}.", `
			Who has the {o} now?
			Who has the {o} in the end?
			Where is the {o} now?
			Who got the {o}?
			Which person has the {o} now?
			Tell me who has the {o} now.
			Whose is the {o} now?`},
		{"unsaid", "The story does not say.", `
			Where is {m}?
			Where [did {m} go|was {m} yesterday|is {m} now]?
			How old is {m}?
			What [is it that|] does {m} like?
			What does {m} [have|own|need|want]?
			What colour is {m}'s [ball|kite|hat|bike|car|coat]?
			[What is|What's|Tell me|Do you know] the name of {m}'s [brother|cat|dog|sister|friend|pet]?
			Who is {m}?
			What colour is {n}'s hair?
			What colour are {n}'s eyes?
			[Where|When] was {n} born?
			When is {n}'s birthday?
			What did {n} [eat|drink|buy|see|say|read|write|sing|cook|sell|lose] [yesterday|this morning|last night|last week|today|on Monday|]?
			What [will|did|can] {n} do [tomorrow|yesterday|now|next]?
			How tall is {n}?
			[What is|What's|Tell me|Do you know] the name of {n}'s [mother|father|teacher|sister|brother|friend|school]?
			Does {n} have a [sister|brother|sofa|house|teacher|boat]?
			Why is {n} [sad|happy|tired|late|angry]?
			Who is {n}'s [friend|teacher|mother]?`},
	} {
		k := newKind("scene-"+s.name, 0, s.answer, s.block)
		sceneAsks[s.name] = k
		out = append(out, k)
	}
	return out
}

// scene makes a few sentences about one to three people, each with facts that can be asked.
func scene(r *rand.Rand) []fact {
	people := []string{aName(r)}
	for range r.IntN(3) {
		if n := aName(r); !slices.Contains(people, n) {
			people = append(people, n)
		}
	}
	known := func(n string) bool { return slices.Contains(names, n) } // and so is whether it is a she
	things, cols, spots, eats := slices.Concat(toys, objects), slices.Clone(colours), slices.Clone(places), slices.Concat(foods, games)
	for _, s := range [][]string{things, cols, spots, eats} {
		r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	}
	ages := r.Perm(15)
	animals := slices.Clone(pets)
	r.Shuffle(len(animals), func(i, j int) { animals[i], animals[j] = animals[j], animals[i] })
	called := slices.Clone(petNames)
	r.Shuffle(len(called), func(i, j int) { called[i], called[j] = called[j], called[i] })
	// The same attribute goes to everybody, so that the answer hangs on the name; then some for single persons.
	var out []fact
	shared := r.IntN(6)
	if r.IntN(5) == 0 { // who is older takes practice
		shared = 4
		if len(people) != 2 {
			n, m := twoNames(r)
			people = []string{n, m}
		}
	}
	for i, n := range people {
		attributes := []int{shared}
		for range r.IntN(3) {
			if x := r.IntN(7); !slices.Contains(attributes, x) {
				attributes = append(attributes, x)
			}
		}
		for j, at := range attributes {
			who := n
			if j > 0 && known(n) && r.IntN(2) == 0 {
				who = capital(pronoun(n))
			}
			switch at {
			case 0:
				c, o := cols[i], things[i]
				say := pick(r, []string{"%s has " + a(c) + " %s.", "%s bought " + a(c) + " %s.", "%s got " + a(c) + " %s.", "%s found " + a(c) + " %s."})
				text := fmt.Sprintf(say, who, o)
				if r.IntN(3) == 0 {
					text += fmt.Sprintf(" The %s is %s.", o, pick(r, sizes))
				}
				out = append(out, fact{text, []string{"thing-colour", "thing-colour", "thing-what", "thing-who"}, filling{"n": n, "o": o, "c": c}})
			case 1:
				p := spots[i]
				if r.IntN(2) == 0 {
					out = append(out, fact{fmt.Sprintf("%s %s in the %s.", who, pick(r, []string{"is", "is now", "plays", "sits"}), p), []string{"where", "where-who"}, filling{"n": n, "p": p}})
				} else {
					out = append(out, fact{fmt.Sprintf("%s %s to the %s.", who, pick(r, []string{"went", "walked", "ran"}), p), []string{"went"}, filling{"n": n, "p": p}})
				}
			case 2:
				f := eats[i]
				out = append(out, fact{fmt.Sprintf("%s %s %s.", who, pick(r, []string{"likes", "loves", "really likes"}), f), []string{"likes", "likes-who"}, filling{"n": n, "f": f}})
			case 3:
				t, q := animals[i], called[i]
				say := pick(r, []string{"%s has a %s called %s.", "%s has a %s. Its name is %s.", "%s has a %s named %s."})
				out = append(out, fact{fmt.Sprintf(say, who, t, q), []string{"pet-name", "pet-what"}, filling{"n": n, "t": t, "q": q}})
			case 4:
				out = append(out, fact{fmt.Sprintf("%s is %d years old.", who, ages[i]+4), []string{"age"}, filling{"n": n, "k": itoa(ages[i] + 4)}})
			case 5:
				s, k := plurals[r.IntN(len(plurals))], 2+r.IntN(18)
				out = append(out, fact{fmt.Sprintf("%s has %d %s.", who, k, s), []string{"count-of"}, filling{"n": n, "k": itoa(k), "s": s}})
			case 6:
				out = append(out, fact{fmt.Sprintf("%s is %s.", who, pick(r, []string{"happy", "kind", "clever", "tall", "tired", "brave"})), nil, nil})
			}
			if at == 1 && j == 0 && r.IntN(4) == 0 {
				out = append(out, fact{fmt.Sprintf("It is a %s day.", pick(r, []string{"sunny", "rainy", "cold", "warm", "nice"})), nil, nil})
			}
		}
	}
	if shared == 4 && len(people) == 2 {
		n, m := people[0], people[1]
		old, young := n, m
		if ages[0] < ages[1] {
			old, young = m, n
		}
		if r.IntN(2) == 0 {
			n, m = m, n
		}
		for i := range out {
			if slices.Contains(out[i].asks, "age") {
				out[i].asks = []string{"age", "older", "younger", "older", "younger"}
				out[i].slots = filling{"n": n, "m": m, "old": old, "young": young, "k": out[i].slots["k"]}
				if who := strings.Fields(out[i].text)[0]; who != n { // "how old" keeps the one this sentence is about
					out[i].asks = []string{"older", "younger"}
				}
			}
		}
	}
	if shared == 0 && len(people) == 2 && r.IntN(2) == 0 { // the thing changes hands, so who has it is asked afresh
		n, m, o := people[0], people[1], things[0]
		say := pick(r, []string{"Then %[1]s gave the %[3]s to %[2]s.", "%[1]s gave %[2]s the %[3]s.", "Then %[1]s sold the %[3]s to %[2]s."})
		for i := range out {
			if out[i].slots["o"] == o && out[i].slots["n"] == n {
				out[i].asks = nil
			} else if out[i].slots["n"] == m && slices.Contains(out[i].asks, "thing-what") {
				out[i].asks = []string{"thing-colour", "thing-who"}
			}
		}
		out = append(out, fact{fmt.Sprintf(say, n, m, o), []string{"has-now"}, filling{"n": n, "m": m, "o": o}})
	}
	if r.IntN(4) == 0 { // something lies somewhere
		w := pick(r, slices.Concat(animals[3:], things[4:20]))
		p := pick(r, []string{"on", "under", "in", "behind", "beside", "in front of"}) + " the " + pick(r, []string{"table", "chair", "bed", "tree", "box", "house", "mat", "sofa", "car", "basket", "wall", "roof", "bush", "cupboard", "fence", "lake", "rug", "bench", "stone", "grass", "door"})
		out = append(out, fact{fmt.Sprintf("The %s %s %s.", w, pick(r, []string{"is", "sat", "sits", "lies", "stands", "was"}), p), []string{"thing-where"}, filling{"w": w, "p": p}})
	}
	present := filling{"n": people[0], "m": aName(r)}
	for slices.Contains(people, present["m"]) {
		present["m"] = aName(r)
	}
	for i, f := range out { // "what does Tom have" needs one answer
		alsoHas := slices.ContainsFunc(out, func(g fact) bool {
			return g.slots["n"] == f.slots["n"] && (slices.Contains(g.asks, "pet-what") || slices.Contains(g.asks, "count-of"))
		})
		if alsoHas {
			out[i].asks = slices.DeleteFunc(slices.Clone(f.asks), func(s string) bool { return s == "thing-what" })
		}
	}
	return append(out, fact{"", []string{"unsaid"}, present})
}

// storyKinds are questions about scenes, and requests for a tale, which is made up anew each time.
func storyKinds() []*kind {
	out := sceneKinds()
	topics := slices.Concat(pets, strings.Fields("bird fox bear lion elephant owl fish dragon robot monster king queen prince princess wizard witch giant pirate knight tree star ship train car ghost unicorn snail bee ant spider wolf horse cow pig sheep kitten puppy teddy dinosaur penguin whale tiger monkey hamster squirrel clown farmer baker"))
	about := newKind("tale-about", 1.5, "{answer}", `
		[Tell|Tell me|Tell us|Give me|Write|Make up|Invent] a [short|little|nice|] story about {t}[.|, please.|]
		[Can you|Could you|Please|Will you] tell [me|us] a [short|little|] story about {t}[.|?]
		I [want|would like] [to hear|] a story about {t}.
		[Do you know|Have you got] a story about {t}?
		A story about {t}[, please|].
		Write me a story with {t}.
		Once upon a time there was {t}.
		!Let me hear a tale about {t}.
	`).drawn(func(r *rand.Rand) filling {
		switch r.IntN(8) {
		case 0, 1:
			n := pick(r, names)
			return filling{"t": n, "answer": tale(r, n, "")}
		case 2:
			n, pet := pick(r, names), pick(r, pets)
			t := pick(r, []string{n + " and a " + pet, n + " and the " + pet, n + "'s " + pet})
			return filling{"t": t, "answer": petTale(r, n, pet)}
		case 3:
			n, pet := pick(r, names), pick(r, pets)
			t := "a boy and his " + pet
			if pronoun(n) == "she" {
				t = "a girl and her " + pet
			}
			return filling{"t": t, "answer": petTale(r, n, pet)}
		case 4:
			n := pick(r, names)
			t := map[string]string{"he": "a boy", "she": "a girl"}[pronoun(n)]
			return filling{"t": t, "answer": tale(r, n, "")}
		}
		t := pick(r, topics)
		if r.IntN(6) == 0 {
			t = strings.ToLower(fakeWord(r))
		}
		return filling{"t": a(t), "answer": tale(r, "", t)}
	})
	any := newKind("tale", 1.5, "{answer}", `
		[Tell|Tell me|Tell us|Give me|Write|Make up|Invent] a [short|little|nice|] story[.|, please.|]
		[Can you|Could you|Please|Will you] tell [me|us] a [short|little|] story[.|?]
		I [want|would like] [to hear|] a story.
		[Do you know|Have you got] a story?
		A story[, please|].
		Once upon a time[.|, ...| ...|]
		[Tell me another|Another|One more] story[.|, please.]
		Story[!|, please.|]
		Read me a story.
	`).drawn(func(r *rand.Rand) filling {
		if r.IntN(2) == 0 {
			return filling{"answer": tale(r, pick(r, names), "")}
		}
		return filling{"answer": tale(r, "", pick(r, topics))}
	})
	return append(out, about, any)
}

// tale makes up a story of five to seven sentences about a child, or about an animal.
func tale(r *rand.Rand, child, animal string) string {
	c, c2, p, f, o := pick(r, colours[:8]), pick(r, colours[:8]), pick(r, places), pick(r, foods), pick(r, toys)
	weather := pick(r, []string{"sunny", "warm", "rainy", "cold", "windy"})
	end := pick(r, []string{"What a good day it was.", "And they all were happy.", "That was a day to remember.", "In the evening everybody slept well."})
	if animal != "" {
		name, friend := pick(r, petNames), pick(r, slices.DeleteFunc(slices.Clone(pets), func(s string) bool { return s == animal }))
		start := fmt.Sprintf("Once upon a time there was %s called %s.", a(animal), name)
		switch r.IntN(4) {
		case 0:
			return strings.Join([]string{start,
				fmt.Sprintf("%s lived near the %s and liked %s very much.", name, p, f),
				fmt.Sprintf("One %s day %s met a small %s.", weather, name, friend),
				fmt.Sprintf("The %s was hungry, so %s gave it some %s.", friend, name, f),
				"From that day they were friends.", end}, " ")
		case 1:
			return strings.Join([]string{start,
				fmt.Sprintf("One %s morning %s found %s %s in the %s.", weather, name, a(c), o, p),
				fmt.Sprintf("\"Whose %s is this?\" asked %s.", o, name),
				fmt.Sprintf("A little %s came and said, \"It is mine!\"", friend),
				fmt.Sprintf("%s gave the %s back, and the %s said thank you.", name, o, friend), end}, " ")
		case 2:
			return strings.Join([]string{start,
				fmt.Sprintf("%s was small, but %s wanted to see the world.", name, name),
				fmt.Sprintf("So %s walked to the %s, and it took the whole day.", name, p),
				fmt.Sprintf("There %s saw %s %s and ate %s.", name, a(c), o, f),
				fmt.Sprintf("At night the moon was white, and %s went home.", name),
				"Home is the best place of all."}, " ")
		}
		return strings.Join([]string{start,
			fmt.Sprintf("One day it was %s, and %s was lost in the %s.", weather, name, p),
			fmt.Sprintf("A kind %s asked, \"Why are you sad?\"", friend),
			fmt.Sprintf("\"I cannot find my home,\" said %s.", name),
			fmt.Sprintf("The %s knew the way, and they walked home together.", friend),
			fmt.Sprintf("Then they ate %s and were happy.", f)}, " ")
	}
	he := pronoun(child)
	his := map[string]string{"he": "his", "she": "her"}[he]
	friend := pick(r, names)
	for friend == child {
		friend = pick(r, names)
	}
	switch r.IntN(4) {
	case 0:
		return strings.Join([]string{
			fmt.Sprintf("%s had %s %s.", child, a(c), o),
			fmt.Sprintf("One %s day %s took the %s to the %s.", weather, he, o, p),
			fmt.Sprintf("There %s lost it, and %s was sad.", he, he),
			fmt.Sprintf("%s came and helped to look for it.", friend),
			fmt.Sprintf("They found the %s %s under a tree.", c, o),
			fmt.Sprintf("%s said thank you, and they ate %s together.", child, f)}, " ")
	case 1:
		return petTale(r, child, pick(r, pets))
	case 2:
		return strings.Join([]string{
			fmt.Sprintf("It was a %s day, and %s went to the %s.", weather, child, p),
			fmt.Sprintf("There %s met %s, who had %s %s.", he, friend, a(c), o),
			fmt.Sprintf("\"May I play with your %s?\" asked %s.", o, child),
			fmt.Sprintf("\"Yes,\" said %s, \"if I may have some of your %s.\"", friend, f),
			fmt.Sprintf("So %s shared %s %s, and they played until the sun went down.", child, his, f), end}, " ")
	}
	return strings.Join([]string{
		fmt.Sprintf("It was %s's birthday.", child),
		fmt.Sprintf("%s gave %s %s %s.", friend, map[string]string{"he": "him", "she": "her"}[he], a(c), o),
		fmt.Sprintf("%s was happy, because %s old %s was %s and broken.", capital(he), his, o, c2),
		fmt.Sprintf("They went to the %s and ate %s.", p, f),
		fmt.Sprintf("In the evening %s sat beside the %s and slept.", child, o), end}, " ")
}

// petTale is the tale of a child and an animal that runs away.
func petTale(r *rand.Rand, child, pet string) string {
	name, p, f := pick(r, petNames), pick(r, places), pick(r, foods)
	weather := pick(r, []string{"sunny", "warm", "rainy", "cold", "windy"})
	return strings.Join([]string{
		fmt.Sprintf("%s had a %s called %s.", child, pet, name),
		fmt.Sprintf("Every morning %s and %s went to the %s.", child, name, p),
		fmt.Sprintf("One %s day %s ran away.", weather, name),
		fmt.Sprintf("%s looked everywhere and called, \"%s, come back!\"", child, name),
		fmt.Sprintf("In the evening the %s sat at the door and was hungry.", pet),
		fmt.Sprintf("%s gave it some %s, and both were happy.", child, f)}, " ")
}
