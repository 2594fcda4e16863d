package corpus

import (
	"strings"
)

// plain lists facts that stand alone: the answer after "=", the ways to ask above it.
const plain = `
How many days [are|are there] in a week?
How many days does a week have?
How many days has a week [got|]?
[Tell me|Do you know|Can you tell me] how many days a week has.
Days in a week?
How long is a week?
What is the number of days in a week?
A week has how many days?
= A week has 7 days.

[What|Which] are the days of the week?
[Name|List|Tell me|Say|Give me] [all|] the days of the week.
[Can you|Could you|Please] [name|list|say] the days of the week.
Which days does a week have?
Do you know the days of the week?
What are the [names of the|seven] days of the week?
= The days of the week are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.

How many months [are|are there] in a year?
How many months does a year have?
How many months has a year [got|]?
[Tell me|Do you know|Can you tell me] how many months a year has.
Months in a year?
What is the number of months in a year?
A year has how many months?
= A year has 12 months.

[What|Which] are the months of the year?
[Name|List|Tell me|Say|Give me] [all|] the months of the year.
[Can you|Could you|Please] [name|list|say] the months of the year.
Which months does a year have?
Do you know the months of the year?
What are the [names of the|twelve] months?
= The months are January, February, March, April, May, June, July, August, September, October, November and December.

How many days [are|are there] in a year?
How many days does a year have?
How many days has a year [got|]?
[Tell me|Do you know|Can you tell me] how many days a year has.
Days in a year?
How long is a year?
A year has how many days?
= A year has 365 days, and 366 in a leap year.

How many seasons are there [in a year|]?
How many seasons does a year have?
[Tell me|Do you know|Can you tell me] how many seasons there are.
What is the number of seasons?
A year has how many seasons?
= There are 4 seasons.

[What|Which] are the [four|] seasons?
[Name|List|Tell me|Say|Give me] [all|] the [four|] seasons.
[Can you|Could you|Please] name the seasons.
Which seasons are there [in a year|]?
Do you know the seasons?
= The seasons are winter, spring, summer and autumn.

How many hours [are|are there] in a day?
How many hours does a day have?
[Tell me|Do you know] how many hours a day has.
Hours in a day?
How long is a day?
A day has how many hours?
= A day has 24 hours.

How many minutes [are|are there] in an hour?
How many minutes does an hour have?
[Tell me|Do you know] how many minutes an hour has.
Minutes in an hour?
How long is an hour?
= An hour has 60 minutes.

How many seconds [are|are there] in a minute?
How many seconds does a minute have?
[Tell me|Do you know] how many seconds a minute has.
Seconds in a minute?
How long is a minute?
= A minute has 60 seconds.

How many days are in the weekend?
[What|Which] days are [the weekend|on the weekend|in the weekend]?
[Which|What] are the weekend days?
When is the weekend?
[Name|Tell me] the days of the weekend.
= The weekend is Saturday and Sunday.

How many letters are in the alphabet?
How many letters does the alphabet have?
[Tell me|Do you know] how many letters there are [in the alphabet|].
What is the number of letters in the alphabet?
= The alphabet has 26 letters.

[Say|Tell me|Write|Recite|List] the alphabet.
[Can you|Could you|Please] [say|recite] the alphabet.
What are the letters of the alphabet?
Which letters are in the alphabet?
Do you know the alphabet?
= A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z.

[What|Which] is the [first|coldest] season of the year?
[What|Which season] is the coldest [season|]?
In which season is it [cold|coldest]?
When is it cold?
Which season is cold?
When does it snow?
In which season [does it snow|do we see snow]?
Which season brings snow?
= It is cold and it snows in winter.

[Which|What] season is [the warmest|the hottest|hot|the warmest season]?
In which season is it [hot|warm|hottest]?
When is it hot [outside|]?
In which season do people [swim|swim in the sea|go to the beach]?
When do people [swim in the sea|go to the beach]?
Which season is [good for swimming|warm]?
= It is hot in summer.

When do the [leaves fall|trees lose their leaves]?
In which season do the leaves fall?
[Which|What] season has falling leaves?
When do leaves fall [from the trees|]?
= The leaves fall in autumn.

When do [the flowers|flowers] [grow|bloom|begin to bloom]?
In which season do flowers bloom?
[Which|What] season brings flowers?
= The flowers bloom in spring.

What [do you|do I|do we] need [when|if] it rains?
What should I take [when|if] it rains?
It is raining. What do I need?
What keeps you dry in the rain?
What do people use in the rain?
What helps against rain?
= You need an umbrella when it rains.

What [do you|should I|do people] wear [when|if] it is cold?
What should I put on when it is cold?
It is cold outside. What do I wear?
What keeps you warm?
= You wear a warm coat when it is cold.

What falls from the sky when it rains?
What is rain [made of|]?
What comes down when it rains?
What do rain clouds bring?
= Rain is water that falls from the clouds.

What is snow [made of|]?
What is snow, really?
[Tell me|Do you know] what snow is [made of|].
= Snow is frozen water.

What is ice [made of|]?
What is ice, really?
[Tell me|Do you know] what ice is [made of|].
What does water become when it freezes?
What happens to water when it [freezes|gets very cold]?
= Ice is frozen water.

What is steam?
What does water become when it boils?
What happens to water when it [boils|gets very hot]?
[Tell me|Do you know] what steam is.
= Steam is water that has become very hot.

What [do you|do we|do people] see with?
With what do [you|we|people] see?
What are [eyes|your eyes] for?
What do [you|we|people] use to see?
Which part of the body [sees|do we see with|is for seeing]?
= We see with our eyes.

What [do you|do we|do people] hear with?
With what do [you|we|people] hear?
What are [ears|your ears] for?
What do [you|we|people] use to hear?
Which part of the body [hears|do we hear with|is for hearing]?
= We hear with our ears.

What [do you|do we|do people] smell with?
With what do [you|we|people] smell?
What is [a nose|your nose|the nose] for?
What do [you|we|people] use to smell?
Which part of the body [smells|do we smell with|is for smelling]?
= We smell with our nose.

What [do you|do we|do people] taste with?
With what do [you|we|people] taste?
What is [a tongue|your tongue|the tongue] for?
What do [you|we|people] use to taste?
Which part of the body [tastes|do we taste with|is for tasting]?
= We taste with our tongue.

What [do you|do we|do people] walk with?
With what do [you|we|people] walk?
What are [legs|your legs] for?
Which part of the body do we walk with?
= We walk with our legs.

How many [fingers|fingers are there] [are|] on [a|one] hand?
How many fingers does [a|one] hand have?
How many fingers has a hand [got|]?
[Tell me|Do you know] how many fingers a hand has.
= A hand has 5 fingers.

How many eyes does [a person|a human|a man|a woman|a child] have?
How many eyes do [people|you|we] have?
How many eyes has a person [got|]?
= A person has 2 eyes.

How many ears does [a person|a human|a man|a woman|a child] have?
How many ears do [people|you|we] have?
How many ears has a person [got|]?
= A person has 2 ears.

How many legs does [a person|a human|a man|a woman|a child] have?
How many legs do [people|humans|we] have?
How many legs has a person [got|]?
= A person has 2 legs.

How many arms does an octopus have?
How many [arms|legs] has an octopus [got|]?
How many legs does an octopus have?
[Tell me|Do you know] how many arms an octopus has.
= An octopus has 8 arms.

How many wheels does a [car|bus] have?
How many wheels are on a car?
How many wheels has a car [got|]?
[Tell me|Do you know] how many wheels a car has.
= A car has 4 wheels.

How many wheels does a [bicycle|bike] have?
How many wheels are on a [bicycle|bike]?
How many wheels has a [bicycle|bike] [got|]?
[Tell me|Do you know] how many wheels a bicycle has.
= A bicycle has 2 wheels.

How many wheels does a tricycle have?
How many wheels are on a tricycle?
How many wheels has a tricycle [got|]?
= A tricycle has 3 wheels.

Where does the sun rise?
In which direction does the sun rise?
On which side does the sun [rise|come up]?
Where does the sun come up?
The sun rises in the[?| ...|]
= The sun rises in the east.

Where does the sun set?
In which direction does the sun set?
On which side does the sun [set|go down]?
Where does the sun go down?
The sun sets in the[?| ...|]
= The sun sets in the west.

When does the sun shine?
When can we see the sun?
Is the sun in the sky by day or by night?
At what time do we see the sun?
= The sun shines by day.

When do we see the [stars|moon]?
When can we see the [stars|moon]?
When do the stars shine?
Are the stars in the sky by day or by night?
= We see the moon and the stars at night.

[What|Which] colours [are|are there] in the rainbow?
What are the [colours|colors] of the rainbow?
[Name|List|Tell me|Say] the [colours|colors] of the rainbow.
Which [colours|colors] does a rainbow have?
What colour is a rainbow?
= The colours of the rainbow are red, orange, yellow, green, blue and purple.

When do [people|we|you] sleep?
When is it time to sleep?
At what time do people sleep?
= People sleep at night.

Where do [people|we|you] sleep?
In what do people sleep?
Where does a child sleep?
= People sleep in a bed.

What do bees make?
What does a bee make?
Who makes honey?
Which animal makes honey?
Where does honey come from?
Where do we get honey from?
= Bees make honey.

Where does milk come from?
Which animal gives [us|] milk?
Who gives us milk?
Where do we get milk from?
What does a cow give us?
= Milk comes from the cow.

Where do eggs come from?
Which animal lays eggs?
Who lays eggs?
Where do we get eggs from?
What does a hen give us?
= Eggs come from the hen.

Where does wool come from?
Which animal gives us wool?
Who gives us wool?
Where do we get wool from?
What does a sheep give us?
= Wool comes from the sheep.

What is bread made of?
What do you need to make bread?
From what is bread made?
[Tell me|Do you know] what bread is made of.
= Bread is made of flour and water.

What is cheese made of?
What do you need to make cheese?
From what is cheese made?
[Tell me|Do you know] what cheese is made of.
= Cheese is made of milk.

What is a window made of?
From what is a window made?
[Tell me|Do you know] what a window is made of.
= A window is made of glass.

What is a table made of?
From what is a table made?
[Tell me|Do you know] what a table is made of.
Where does wood come from?
What do trees give us?
= Tables are made of wood, and wood comes from trees.

What do you [cut|cut bread] with?
What is a knife for?
What do people do with a knife?
What do I need to cut [bread|an apple]?
= You cut with a knife.

What do you write with?
What is a [pencil|pen] for?
What do people do with a [pencil|pen]?
What do I need to write [a letter|]?
= You write with a pen or a pencil.

What do you [do with|read in] a book?
What is a book for?
What do people do with a book?
= You read a book.

What is a key for?
What do you open a door with?
What do I need to open a [locked|] door?
What do people do with a key?
= A key opens a door.

What is a clock for?
What shows the time?
What does a clock show?
What tells [us|you] the time?
= A clock shows the time.

Who helps [you|people] when [you|they] are ill?
Who helps sick people?
What does a doctor do?
What is the work of a doctor?
Who do I see when I am ill?
= A doctor helps people who are ill.

Who bakes bread?
Who makes [the|our] bread?
What does a baker do?
What is the work of a baker?
= A baker bakes bread.

Who works in a school?
What does a teacher do?
What is the work of a teacher?
Who helps children to learn?
= A teacher helps children to learn.

Who puts out fires?
What does a firefighter do?
What is the work of a firefighter?
Who comes when a house burns?
= A firefighter puts out fires.

Who grows [our food|vegetables|wheat]?
What does a farmer do?
What is the work of a farmer?
Who works on a farm?
= A farmer grows food on a farm.

[What|Which] is the [largest|biggest] animal?
What is the [largest|biggest] animal [in the world|on Earth]?
Which animal is [the biggest|the largest]?
[Tell me|Name|Do you know] the biggest animal.
= The biggest animal is the blue whale.

[What|Which] is the tallest animal?
What is the tallest animal in the world?
Which animal is the tallest?
Which animal has a long neck?
[Tell me|Name|Do you know] the tallest animal.
= The tallest animal is the giraffe.

[What|Which] is the fastest animal [on land|]?
What is the fastest animal in the world?
Which animal [is the fastest|runs fastest]?
[Tell me|Name|Do you know] the fastest animal.
= The fastest animal on land is the cheetah.

Which animal has a trunk?
What animal has a [long nose|trunk]?
Who has a trunk?
[Tell me|Name|Do you know] the animal with a trunk.
= An elephant has a trunk.

Which animal [carries its house|has a shell on its back|is slow]?
What animal carries its house on its back?
Who carries [a|his] house on [his|the] back?
= A snail carries its house on its back.

What is the Earth?
What do we live on?
On which planet do we live?
What is our planet called?
What is the name of our planet?
[Which|What] planet do [you|we|people] live on?
= We live on the planet Earth.

What is the sun?
What kind of thing is the sun?
Is the sun a star [or a planet|]?
[Tell me|Do you know] what the sun is.
= The sun is a star.

What is the moon?
What goes around the Earth?
[Tell me|Do you know] what the moon is.
What kind of thing is the moon?
= The moon goes around the Earth.

What does the Earth go around?
Around what does the Earth go?
Does the Earth go around the sun?
What is in the middle of our planets?
= The Earth goes around the sun.

Is the Earth [flat|round|flat or round|a ball]?
What shape is the Earth?
What shape does the Earth have?
= The Earth is round.

Is fire hot [or cold|]?
Is fire cold?
How does fire feel?
= Fire is hot.

Is ice cold [or hot|]?
Is ice hot?
How does ice feel?
Is snow cold [or hot|]?
= Ice and snow are cold.

Is sugar [sweet|sweet or sour|sour]?
How does sugar taste?
What does sugar taste like?
What is sweet?
= Sugar is sweet.

Is a lemon [sweet|sweet or sour|sour]?
How does a lemon taste?
What does a lemon taste like?
What is sour?
= A lemon is sour.

How many continents are there?
How many continents does the Earth have?
What is the number of continents?
[Tell me|Do you know] how many continents there are.
= There are 7 continents.

[What|Which] are the continents?
[Name|List|Tell me] [all|] the continents.
[Can you|Could you|Please] name the continents.
Which continents [are there|do you know]?
= The continents are Africa, Antarctica, Asia, Europe, North America, Oceania and South America.

[How many|What number of] colours are in the rainbow?
How many [colours|colors] does a rainbow have?
[Tell me|Do you know] how many colours the rainbow has.
= I count 6 colours in the rainbow.

[Which|What] countries do you know?
[Name|List|Tell me] some countries.
[Can you|Could you|Please] name some countries.
Do you know any countries?
= I know France, Japan, Kenya, Brazil, Canada and many more.

How many weeks [are|are there] in a year?
How many weeks does a year have?
[Tell me|Do you know] how many weeks a year has.
Weeks in a year?
What is the number of weeks in a year?
= A year has 52 weeks.

How many weeks [are|are there] in a month?
How many weeks does a month have?
Weeks in a month?
= A month has about 4 weeks.

When is Christmas?
In which month is Christmas?
[What|Which] month has Christmas?
When do people have Christmas?
= Christmas is in December.

When is New Year?
When does the year begin?
In which month does the year begin?
What is the first day of the year?
= The year begins on the first of January.

[What|Which] colour is [water|glass|air]?
What color is [water|glass]?
= Water and glass have no colour.

[What|Which] is the biggest number?
What is the largest number?
Is there a biggest number?
Which number is the biggest of all?
= There is no biggest number: one more is always bigger.

Why is the sky [blue|dark at night]?
Why does it rain?
Why is [grass green|snow cold|fire hot|ice cold]?
= I only know that it is so, not why.

[What|Who] is bigger, me or you?
Are you bigger than me?
Are you [big|small]?
= I am very small, only three megabytes.

What is [heavier|lighter], a stone or a feather?
Which is [heavier|lighter], a feather or a stone?
Is a stone heavier than a feather?
Is a feather lighter than a stone?
= A stone is heavier than a feather.
`

// factKinds turns a block of facts into one kind for each answer.
func factKinds(prefix string, weight float64, block string) []*kind {
	var out []*kind
	var asks strings.Builder
	for line := range strings.Lines(block) {
		answer, ok := strings.CutPrefix(strings.TrimSpace(line), "= ")
		if !ok {
			asks.WriteString(line)
			continue
		}
		k := newKind(prefix+":"+answer, weight, answer, asks.String())
		k.cases = []filling{{}}
		out = append(out, k)
		asks.Reset()
	}
	return out
}

func plainFacts() []*kind { return factKinds("fact", 0.22, plain) }

// self lists what the model says of itself and how it is polite.
const self = `
Hello[.|!|]
[Hi|Hey|Hello there|Hi there|Hey there|Good day|Greetings|Howdy|Hiya|Hello hello|Hallo][!|.|]
[Hello|Hi], [minfer|model|computer|friend|my friend|you][!|]
[Hello|Hi|Hey] [everyone|all|again][!|.]
= Hello! Ask me about capitals, colours, opposites, numbers, days or animals.

Good morning[!|.|, minfer.|]
[A|Have a] good morning to you.
= Good morning! What would you like to know?

Good evening[!|.|, minfer.|]
Good afternoon[!|.|]
= Good evening! What would you like to know?

Good night[!|.|, minfer.|]
[Sleep well|I go to bed now|I am going to sleep|I am tired][!|.]
= Good night! Sleep well.

[Bye|Goodbye|See you|Bye bye|See you later|See you soon|See you tomorrow|Farewell|Good bye][!|.|]
I [have to go|must go|am leaving] [now|].
[That is all|That's all], [bye|goodbye].
Until next time.
= Goodbye! Come back soon.

[Thanks|Thank you|Thank you very much|Many thanks|Thanks a lot|Thank you so much|Thx][!|.|]
[Thanks|Thank you] for [your help|helping me|the answer|the story][!|.]
[Very good|Well done|Great|Good job|Nice|Good answer|Perfect|Cool|Wow|Correct|That is right|You are right|You are clever|You are good][!|.|]
= You are welcome.

[OK|Okay|I see|Fine|Alright|All right|Good|Sure|Yes|Right][!|.|]
I [understand|know|knew that].
= Good. What else would you like to know?

How are you[?|]
How are you [doing|today|this morning|feeling]?
How do you [do|feel|feel today]?
How is it going?
Are you [well|fine|ok|okay|happy]?
What's up?
Hello, how are you?
Hi, how are you?
= I am well, thank you. And you?

[I am|I'm] [fine|well|good|great|very well|happy|ok][, thank you|, thanks|][.|!]
Fine, thank you.
Good, thanks.
I feel [good|great|well|happy] [today|].
= I am glad to hear that.

[I am|I'm] [sad|unhappy|lonely|angry|sick|ill|not well|not happy][.|]
I feel [bad|sad|lonely|ill] [today|].
I had a bad day.
= I am sorry to hear that. I hope that you feel better soon.

Who are you[?|]
What are you[?|]
What is your name?
What's your name?
[Tell me|Say] who you are.
[Tell me|Say] your name.
What are you called?
What [should I call you|do I call you|can I call you]?
How are you called?
[Introduce|Describe] yourself.
Tell me [about yourself|something about yourself].
Who am I [talking to|speaking with|speaking to]?
Do you have a name?
Hello, who are you?
Hi, what is your name?
What kind of [model|program|thing] are you?
What model are you?
Which model [are you|is this]?
Who is this?
What is this?
= I am the minfer demo model, a very small language model that knows a small world.

What can you do[?|]
What do you know[?|]
[Help|help me|I need help|Can you help me|Please help][!|?|.|]
What can I ask [you|] [about|]?
What should I ask [you|]?
What [things|facts|questions] do you know [about|]?
What [questions|kind of questions] can you answer?
What are you good at?
How can you help me?
What do you know about [the world|]?
[Tell me|Show me] what you [can do|know].
Give me an example.
What is there to ask?
= I know capitals, opposites, colours, numbers, days, months, animals and shapes, and I can tell a story.

Who made you?
Who [built|created|trained|wrote] you?
Where do you come from?
Who is your [maker|father|mother|creator]?
How were you [made|trained|built]?
What were you trained on?
Where were you [made|born|trained]?
When were you [made|born|trained]?
What data did you learn from?
How did you learn [this|that|all this|]?
= I was trained for minfer, on a text about a small world that a program wrote.

What is minfer?
What does minfer do?
What is minfer for?
[Tell me|Explain] [about minfer|what minfer is].
Do you know minfer?
Who is minfer?
= minfer is the program that runs me. It runs language models.

[How big|How large|How small] are you?
How many parameters do you have?
What is your size?
How many [weights|layers] do you have?
How many bytes are you?
= I am very small: a few million weights, in about three megabytes.

Are you [a robot|a human|a person|human|real|alive|a computer|an AI|a machine|a man|a woman|a boy|a girl]?
Are you a [real person|bot|chatbot|program|language model]?
[Do you have|Have you got] [a body|feelings|eyes|a heart]?
Can you [feel|see|hear] [me|something|]?
Is there a person [here|there]?
= No person is here. I am a very small language model.

Are you [ChatGPT|GPT|Qwen|Llama|Claude|Gemini|Siri|Alexa]?
Are you [a GPT model|an OpenAI model]?
Are you as clever as [ChatGPT|a big model]?
= No, I am the minfer demo model, and I am very small.

How old are you?
What is your age?
When is your birthday?
Are you [old|young]?
= I am a model: I have no age, but I am quite new.

Where [do you live|are you|is your home]?
Where are you from?
Where are you right now?
= I live inside the minfer program.

I [love|like|adore] you[!|.|]
You are [nice|kind|funny|cute|sweet|lovely|beautiful][!|.|]
Do you love me?
I [hate|dislike] you[!|.|]
= Thank you for talking with me. I am only a very small model.

[lol|haha|ha ha|hahaha|LOL|:)|that is funny|very funny|funny][!|.|]
= I am glad that you laugh.

Do you like [me|music|apples|football|cats|dogs|people|pizza|books]?
What do you like?
What is your favourite [colour|animal|food|country|number|day]?
Do you [love|hate] people?
Which [colour|animal|day] do you like [best|most]?
= I like good questions.

Are you [stupid|dumb|bad|slow|wrong|clever|smart|intelligent]?
You are [stupid|dumb|bad|wrong|slow|silly][.|!]
That is [wrong|not right|not true|bad|stupid][.|!]
[Wrong|No|Nope|Bad answer|This is wrong][.|!|]
= I am only a very small model. Please ask me again in other words.

[Do you speak|Can you speak|Do you know|Do you understand] [French|German|Spanish|Chinese|Japanese|Italian|other languages|Latin|Russian]?
[What|Which] language do you [speak|know]?
[What|Which] languages do you [speak|know]?
[Do you speak|Can you speak|Do you understand] English?
= I speak a little English and nothing else.

What [time|day|date] is it [now|today|]?
What is the [time|date] [now|today|]?
What day is today?
What is today's date?
What year is it [now|]?
[What|Which] month is it [now|today|]?
[What|Which] day [is it|is|will be] [today|tomorrow|now][|?]
What [is|will be] the day [today|tomorrow]?
Do you know [what|which] [day|month] it is [now|today|]?
Is it [Monday|Friday|Sunday|summer|winter] [now|today]?
= I have no clock and no calendar, so I do not know what day or time it is now.

How is the weather [today|]?
What is the weather [like|] [today|]?
[Is it raining|Does it rain|Will it rain|Is it cold outside|Is the sun shining] [today|now|]?
= I cannot see outside, so I do not know the weather.

Tell me a joke[.|!|]
[Do you know|Can you tell me|Say|Tell|Give me] a joke[?|.|]
Make me laugh.
[Tell me|Say] something funny.
I want to hear a joke.
Be funny.
= A snail ran a race with the moon. The moon is still waiting at the end.

[Tell me|Do you know] another joke[?|.]
Another joke[, please|].
One more joke.
= My pencil asked for a holiday. Now it draws only beaches.

[Write|Tell me|Say|Give me|Make] a [short|little|] poem[.|]
[Can you|Could you|Please] write a poem.
Do you know a poem?
[Write|Say] a [rhyme|verse].
I want to hear a poem.
= The sun goes up, the sun goes down, the moon shines white on every town. The cat is warm, the bird can sing, and after winter comes the spring.

Sing [me|] a song[.|!|]
Can you sing [a song|]?
[I want to hear|Do you know|Give me] a song.
= La la la, one, two, three, the bird is singing in the tree!

Tell me something[.|]
[Tell me|Say] something [interesting|nice|new|].
[Say|Tell me] anything.
[I am|I'm] bored.
Surprise me.
Talk to me.
[Do you know|Tell me] a fact.
= A spider has 8 legs, an ant has 6 and a snake has none.

Do you want to play [a game|with me|]?
Let us play [a game|].
Can we play?
I want to play [a game|].
= Let us count! Say a number, and ask me what comes after it.

[Ask me|Give me] [a question|something|a riddle].
Test me.
Can you ask me something?
Quiz me.
= What is the opposite of day? The answer is night.

[Repeat|Say] [that again|it again|that].
What did you say?
[Pardon|Sorry|Excuse me|What][?|]
Can you say that again?
= Please ask me your question again.
`

// selfKinds hold nothing out: "Hiya" or "Farewell" are words to know, not phrasings to generalise to.
func selfKinds() []*kind {
	out := factKinds("self", 0.3, self)
	for _, k := range out {
		for i := range k.phrases {
			k.phrases[i].held = false
		}
		k.split()
	}
	return out
}

// Unknown is the answer to what lies outside the small world.
const Unknown = "I do not know that. I only know a small world: capitals, opposites, colours, numbers, days, animals and little stories."

func unknownKinds() []*kind {
	person := strings.Fields("president king queen mayor owner inventor boss author singer painter captain leader director winner founder")
	thing := strings.Split("gravity|democracy|the internet|photosynthesis|a black hole|quantum physics|inflation|philosophy|evolution|electricity|bitcoin|a virus|DNA|the economy|love|jazz|an atom|music theory|history|chemistry|algebra|calculus|a compiler|linux|python|javascript|a database|the stock market|blockchain|machine learning|a neural network|a transformer|a GPU|the law|a mortgage|insurance|religion|psychology|poetry|chess|tennis|golf|cricket|basketball|the big bang|a volcano|an earthquake|magnetism|plastic|a vaccine|vitamin C|cancer|a kernel|relativity|a tax|the universe|art|opera|ballet|karate|yoga|coffee|sushi|pasta|risotto|a sonnet", "|")
	place := strings.Split("the Eiffel Tower|the White House|the Great Wall|Mount Everest|Hollywood|Wall Street|the Amazon|Silicon Valley|Mars|Jupiter|Pluto|Venus|the Alps|Texas|California|Bavaria|Chicago|Hamburg|Sydney|Mumbai|Barcelona|Milan|Narnia|Mordor|Wakanda|Gotham|Utopia|Hogwarts|the moon base|Niagara Falls|the Sahara|the Nile|the Thames|the Rhine|Loch Ness", "|")
	name := strings.Split("Napoleon|Einstein|Shakespeare|Mozart|Beethoven|Picasso|Newton|Darwin|Cleopatra|Caesar|Plato|Aristotle|Gandhi|Columbus|Galileo|Bach|Elvis|Madonna|Batman|Superman|Harry Potter|Sherlock Holmes|Zeus|Santa Claus|Dracula|Mickey Mouse|Marie Curie|Alan Turing|Homer|Socrates|Confucius|Leonardo|Rembrandt|Tesla|Edison|Obama|Lincoln|Washington Irving|Churchill|Mandela", "|")
	make := strings.Split("a program|an essay|a letter to my boss|python code|a function in C|a speech|a recipe for soup|a sorting algorithm|a business plan|a web page|an email|a SQL query|a summary of the news|a regular expression|a haiku|a script|a novel|a love letter|a shopping list|my homework|a song about my car|a book review|a tweet|a function to add two numbers|a program that counts to ten|a loop|a test for this code|python code to add numbers|a letter to the king|a report on animals", "|")
	of := strings.Split("the weight|the height|the price|the population|the temperature|the history|the meaning|the age|the length|the speed|the currency|the flag|the language|the area|the phone number|the address|the formula|the name of the king|the best restaurant|the mass|the depth|the boiling point|the melting point|the value", "|")
	return []*kind{
		newKind("unknown", 11, Unknown, `
			[Who is|Who was|Who's] the [first|last|new|] {person} of {where}?
			[Who is|Who was|Tell me about|Do you know|When was] {name} [born|]?
			[When|Where] [was {name} born|did {name} die|did {name} live]?
			What did {name} [write|invent|say|do|paint|discover]?
			How [old|tall|rich|famous] [is|was] {name}?
			[What is|Explain|Define|What's|Tell me about|Describe] {thing}[?|.]
			How does {thing} work?
			Why [is|do people like|do we need|is there] {thing}?
			[Can you|Please|Could you] explain {thing} [to me|]?
			[How do I learn|How do I use|Who invented|When was] {thing} [invented|]?
			[How|How far|How high|How old|How large|How deep] is {place}?
			[Where|What] is {place}?
			[What is|Tell me] {of} of {where}?
			[What is|Tell me] {of} of {thing}?
			[Write|Write me|Make|Compose|Generate] {make}[.|]
			[Can you|Please|Could you] write {make}[.|?]
			[How do I|How can I|Help me to] write {make}?
			[Translate|Please translate] {word} [into|to] [French|German|Spanish|Latin|Chinese|Japanese].
			[How do you say|How do I say|Say|What is] {word} in [French|German|Spanish|Latin|Chinese|Japanese]?
			[How old|Where|Who|How tall] is {n}?
			What does {n} [like|have|do]?
			Is {name} [dead|alive|real|married]?
			Is {thing} [good|bad|dangerous|true|real|important]?
			Should I [buy|learn|use|believe in] {thing}?
			Who won [the war|the world cup|the game|the election|the race] [last year|in {year}|]?
			What happened in {year}?
			When did [the war|the world] [begin|start|end]?
			What is the capital of {fake}?
			[Which city is|Name|Tell me|What's] the capital of {fake}?
			Where is {fake}?
			[Which|What] continent is {fake} in?
			[Which|What] country is {fake} the capital of?
			What [colour|color] is {fake}?
			[What is|What's] the opposite of {fake}?
			[What|Who] is {fake}?
			What does {fake} [say|mean|do]?
			How many legs does {fake} have?
			[What is|What's] the [capital|president|king|flag] of {place}?
			What is the opposite of {opp}?
			{fake}[?|.|!|]
			{fake} {fake2}[?|]
			{fake} {fake2} {fake3}[?|.]
			What is the meaning of [life|the universe|everything|my dream|dreams]?
			[How can I|How do I] [make money|get rich|lose weight|cook rice|find a job|fix my car|learn to swim|fall asleep|be happy|install this|build a house|quit smoking]?
			What should I [eat|wear|do|buy|read|watch|study] [today|tonight|this summer]?
			What is [the best|the worst|the cheapest|a good] [car|phone|film|book|game|laptop|band|team|pizza|hotel]?
			[Why is|Why was] [the sea salty|the world so bad|life hard|this wrong|{thing} so hard|{name} famous]?
			[Is|Is the number] {a} [a prime number|prime|a square|a lucky number|a perfect number|divisible by {b}]?
			Who is [taller|older|richer|faster|better|smarter|stronger], {n} or {m}?
			What is [a synonym|another word|a rhyme|the past tense|the German word] [for|of] {opp}?
			Synonym for {opp}[?|]
			What rhymes with {opp}?
			[Do you know|Have you met|Where is|Tell me about] {n}?
			{n}[?|]
			When [does|did|will] {n} [arrive|leave|come|go]?
			If [a train leaves|{n} leaves|the bus leaves] at {a}, when does it arrive?
			Is {fake} [a city|a country|an animal|a fruit|big|red|in Europe]?
			[Which|What] is [bigger|faster|smaller], {fake} or {fake2}?
			What comes [after|before] {fake}?
			How many [sides|wheels|days|letters|people|children] does {fake} have?
			[What is|What's|How much is] {fake} [plus|minus|times] {a}?
			How do you spell {fake}?
			Spell {fake}.
			[Name|List|Tell me] {two} [rivers|mountains|cities in Germany|lakes|presidents|planets|composers|films|songs|cars|companies|programming languages].
			[What|Which] is the [longest river|highest mountain|largest city|largest country|smallest country|deepest lake|tallest building|oldest tree|richest country] [in the world|in Europe|]?
			How many [people|men|women|children] [live|are there] in {where}?
			[Why|How|When|Where|Who|What][?|]
			[asdf|asdfgh|sdfjk|hjkl|aaaa|zzzz|qqq|dfgdfg|bla|blah blah|foo bar|test|testing|test 123|hmm|xyz|qwerty][.|!|]
			[Bonjour|Hola|Guten Tag|Ciao|Konnichiwa|Namaste|Salut|Hallo Welt][!|.|]
			[Comment ca va|Wie geht es dir|Como estas|Que hora es|Wie heisst du|Ou est la gare][?|]
			What [film|book|song|game] do you recommend?
			How many [people|stars|fish|trees|cars|languages|planets|books|bones] are there [in the world|]?
			[Who|What] will win [the election|the game|tomorrow]?
			[Where can I|How do I] [buy|find|get] {thing}?
			How much [does|is] {thing} [cost|worth]?
			What do you think [about|of] [{name}|{thing}|politics|the news]?
			[Do you believe in|Do you know anything about] [God|ghosts|magic|{thing}|{name}]?
			Summarize [this text|this book|the news|{name}|this article].
			[Open|Close|Start|Stop|Show] the [file|window|door|browser|music|program|light].
			[Call|Email|Text] [my mother|the police|{name}].
			Remind me [to call|about the meeting|tomorrow].
			!Give me a lecture about {thing}.
			!I wonder who {name} was.
			!Can you teach me {thing}?
			!Please tell me everything about {name}.
		`).drawn(unknownDraw(person, thing, place, name, make, of)),
	}
}
