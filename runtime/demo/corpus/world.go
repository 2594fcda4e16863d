package corpus

import (
	"fmt"
	"strings"
)

// The small world: every fact the demo model knows, as tables of one row a line, columns separated by '|'.

// countries: name, capital, continent. Only countries whose capital is one undisputed city of ASCII letters.
const countries = `
France|Paris|Europe
Germany|Berlin|Europe
Italy|Rome|Europe
Spain|Madrid|Europe
Portugal|Lisbon|Europe
the United Kingdom|London|Europe
England|London|Europe
Scotland|Edinburgh|Europe
Wales|Cardiff|Europe
Ireland|Dublin|Europe
Belgium|Brussels|Europe
the Netherlands|Amsterdam|Europe
Luxembourg|Luxembourg City|Europe
Switzerland|Bern|Europe
Austria|Vienna|Europe
Poland|Warsaw|Europe
the Czech Republic|Prague|Europe
Slovakia|Bratislava|Europe
Hungary|Budapest|Europe
Romania|Bucharest|Europe
Bulgaria|Sofia|Europe
Greece|Athens|Europe
Croatia|Zagreb|Europe
Slovenia|Ljubljana|Europe
Serbia|Belgrade|Europe
Albania|Tirana|Europe
Denmark|Copenhagen|Europe
Norway|Oslo|Europe
Sweden|Stockholm|Europe
Finland|Helsinki|Europe
Iceland|Reykjavik|Europe
Estonia|Tallinn|Europe
Latvia|Riga|Europe
Lithuania|Vilnius|Europe
Ukraine|Kyiv|Europe
Belarus|Minsk|Europe
Russia|Moscow|Europe
Malta|Valletta|Europe
Turkey|Ankara|Asia
Japan|Tokyo|Asia
China|Beijing|Asia
India|New Delhi|Asia
South Korea|Seoul|Asia
North Korea|Pyongyang|Asia
Mongolia|Ulaanbaatar|Asia
Thailand|Bangkok|Asia
Vietnam|Hanoi|Asia
Cambodia|Phnom Penh|Asia
Laos|Vientiane|Asia
Indonesia|Jakarta|Asia
Malaysia|Kuala Lumpur|Asia
the Philippines|Manila|Asia
Nepal|Kathmandu|Asia
Bhutan|Thimphu|Asia
Bangladesh|Dhaka|Asia
Pakistan|Islamabad|Asia
Afghanistan|Kabul|Asia
Iran|Tehran|Asia
Iraq|Baghdad|Asia
Syria|Damascus|Asia
Lebanon|Beirut|Asia
Jordan|Amman|Asia
Saudi Arabia|Riyadh|Asia
Qatar|Doha|Asia
Oman|Muscat|Asia
Armenia|Yerevan|Asia
Georgia|Tbilisi|Asia
Azerbaijan|Baku|Asia
Uzbekistan|Tashkent|Asia
Kazakhstan|Astana|Asia
Egypt|Cairo|Africa
Morocco|Rabat|Africa
Algeria|Algiers|Africa
Tunisia|Tunis|Africa
Libya|Tripoli|Africa
Sudan|Khartoum|Africa
Ethiopia|Addis Ababa|Africa
Kenya|Nairobi|Africa
Uganda|Kampala|Africa
Rwanda|Kigali|Africa
Somalia|Mogadishu|Africa
Ghana|Accra|Africa
Nigeria|Abuja|Africa
Senegal|Dakar|Africa
Mali|Bamako|Africa
Cameroon|Yaounde|Africa
Angola|Luanda|Africa
Zambia|Lusaka|Africa
Zimbabwe|Harare|Africa
Botswana|Gaborone|Africa
Namibia|Windhoek|Africa
Mozambique|Maputo|Africa
Madagascar|Antananarivo|Africa
Liberia|Monrovia|Africa
the United States|Washington|North America
Canada|Ottawa|North America
Mexico|Mexico City|North America
Cuba|Havana|North America
Jamaica|Kingston|North America
Haiti|Port-au-Prince|North America
Guatemala|Guatemala City|North America
Honduras|Tegucigalpa|North America
Nicaragua|Managua|North America
Costa Rica|San Jose|North America
Panama|Panama City|North America
Brazil|Brasilia|South America
Argentina|Buenos Aires|South America
Chile|Santiago|South America
Peru|Lima|South America
Colombia|Bogota|South America
Venezuela|Caracas|South America
Ecuador|Quito|South America
Uruguay|Montevideo|South America
Paraguay|Asuncion|South America
Australia|Canberra|Oceania
New Zealand|Wellington|Oceania
Fiji|Suva|Oceania
`

// opposites: a|b holds both ways, a>b one way only (heavy > light, but light | dark). Each word is asked once.
const opposites = `
hot|cold
big|small
good|bad
up|down
left|right
day|night
black|white
open|closed
fast|slow
happy|sad
old|young
tall|short
full|empty
rich|poor
hard|soft
wet|dry
light|dark
early|late
in|out
on|off
yes|no
true|false
first|last
high|low
long>short
near|far
loud|quiet
clean|dirty
strong|weak
heavy>light
new>old
wrong>right
thick|thin
wide|narrow
deep|shallow
sweet|sour
rough|smooth
sharp|blunt
win|lose
begin|end
push|pull
give|take
buy|sell
come|go
ask>answer
love|hate
laugh|cry
remember|forget
find|hide
above|below
before|after
inside|outside
over|under
front|back
top|bottom
north|south
east|west
summer|winter
morning|evening
friend|enemy
war|peace
question|answer
always|never
everything|nothing
more|less
many|few
same|different
easy|difficult
cheap|expensive
safe|dangerous
brave|afraid
asleep|awake
alive|dead
kind|cruel
polite|rude
clever|stupid
beautiful|ugly
possible|impossible
visible|invisible
wild|tame
raw|cooked
fresh|stale
arrive|leave
borrow|lend
float|sink
freeze|melt
whisper|shout
work|play
add|subtract
increase|decrease
start|stop
accept|refuse
build|destroy
warm|cool
boy|girl
man|woman
king|queen
mother|father
brother|sister
son|daughter
uncle|aunt
husband|wife
male|female
truth|lie
success|failure
victory|defeat
birth|death
hello|goodbye
entrance|exit
attack|defend
lost|found
dawn|dusk
guilty|innocent
honest|dishonest
lucky|unlucky
healthy|sick
ill>healthy
fat>thin
large>small
little>big
huge|tiny
quick>slow
nice|nasty
bright>dark
simple|complicated
correct>wrong
noisy>quiet
silent>loud
angry|calm
lazy|hard-working
tight|loose
straight|crooked
solid|liquid
modern|ancient
public|private
rare|common
minimum|maximum
positive|negative
plus|minus
odd|even
past|future
yesterday|tomorrow
here|there
often|seldom
everybody|nobody
with|without
buyer|seller
teacher|student
`

// coloured: a thing with its article, its colour.
const coloured = `
the sky|blue
the sea|blue
the sun|yellow
the moon|white
the night|black
grass|green
snow|white
milk|white
blood|red
coal|black
chocolate|brown
honey|yellow
butter|yellow
salt|white
sugar|white
rice|white
mud|brown
gold|yellow
silver|grey
ink|black
smoke|grey
fire|orange
a leaf|green
a tree trunk|brown
a lemon|yellow
a banana|yellow
an orange|orange
a carrot|orange
a pumpkin|orange
a tomato|red
a strawberry|red
a cherry|red
a raspberry|red
a rose|red
a fire engine|red
a stop sign|red
a cucumber|green
a pea|green
a frog|green
a lime|green
a cactus|green
a crocodile|green
a lettuce|green
a plum|purple
an aubergine|purple
a grape|purple
lavender|purple
a violet|purple
a blueberry|blue
a whale|blue
an elephant|grey
a mouse|grey
a stone|grey
a rain cloud|grey
a crow|black
a tyre|black
a panther|black
a swan|white
a polar bear|white
a snowman|white
a cauliflower|white
a potato|brown
a chestnut|brown
a monkey|brown
a flamingo|pink
a pig|pink
a sunflower|yellow
a chick|yellow
an apple|red
a horse|brown
a bear|brown
a zebra|black and white
a panda|black and white
a penguin|black and white
a tiger|orange
a lion|yellow
the Earth|blue
coffee|brown
bread|brown
corn|yellow
cheese|yellow
an egg|white
a ghost|white
a cloud|white
a pear|green
a cabbage|green
an avocado|green
broccoli|green
spinach|green
a ruby|red
an emerald|green
a sapphire|blue
wood|brown
a ladybird|red
a lobster|red
a school bus|yellow
wool|white
a tooth|white
a dolphin|grey
a rhino|grey
a wolf|grey
a goose|white
a tomato plant|green
`

// manyColoured are things without a colour of their own.
const manyColoured = `a car,a house,a book,a ball,a shirt,a flower,a bird,a dog,a cat,a hat,a pencil,a balloon,a door,a bag,a dress,a bicycle,a chair,a pen,a cup,a rabbit,a butterfly,a fish,a flag,a T-shirt,a kite,a coat,a bus,a table,a shoe,hair,paint`

// languages: country, what people speak there.
const languages = `
France|French
Germany|German
Austria|German
Spain|Spanish
Mexico|Spanish
Argentina|Spanish
Chile|Spanish
Peru|Spanish
Cuba|Spanish
Colombia|Spanish
Italy|Italian
Portugal|Portuguese
Brazil|Portuguese
England|English
the United States|English
the United Kingdom|English
Australia|English
Japan|Japanese
China|Chinese
Russia|Russian
Greece|Greek
Turkey|Turkish
Poland|Polish
Hungary|Hungarian
Sweden|Swedish
Norway|Norwegian
Denmark|Danish
Finland|Finnish
the Netherlands|Dutch
Iceland|Icelandic
Vietnam|Vietnamese
Thailand|Thai
South Korea|Korean
Egypt|Arabic
Saudi Arabia|Arabic
Iraq|Arabic
Iran|Persian
Ukraine|Ukrainian
the Czech Republic|Czech
Romania|Romanian
Bulgaria|Bulgarian
`

// eaten: animal, what it eats; drunk: animal, what it drinks.
const (
	eaten = `
cow|grass
horse|grass and hay
sheep|grass
goat|grass and leaves
rabbit|carrots and grass
monkey|bananas
cat|fish and mice
dog|meat
mouse|cheese and corn
bird|seeds and worms
squirrel|nuts
panda|bamboo
lion|meat
tiger|meat
wolf|meat
frog|flies
bear|fish and honey
pig|almost everything
elephant|leaves and grass
giraffe|leaves
owl|mice
hen|corn
duck|plants and worms
snake|mice
shark|fish
penguin|fish
spider|flies
deer|leaves and grass
camel|plants
`
	drunk = `
cat|milk
dog|water
cow|water
horse|water
bird|water
lion|water
elephant|water
sheep|water
bee|nectar
calf|milk
camel|a lot of water
mouse|water
`
)

// animals: name, sound, legs, baby, home. '-' where the world has no such fact.
const animals = `
dog|woof|4|puppy|in a kennel
cat|meow|4|kitten|in a house
cow|moo|4|calf|on a farm
pig|oink|4|piglet|in a sty
sheep|baa|4|lamb|in a field
horse|neigh|4|foal|in a stable
duck|quack|2|duckling|on a pond
hen|cluck|2|chick|in a coop
frog|croak|4|tadpole|in a pond
bee|buzz|6|-|in a hive
lion|roar|4|cub|on the savanna
owl|hoot|2|owlet|in a tree
snake|hiss|0|-|in the grass
mouse|squeak|4|-|in a hole
wolf|awoo|4|-|in the forest
donkey|hee-haw|4|-|in a barn
crow|caw|2|-|in a nest
turkey|gobble|2|-|-
goat|meh|4|kid|on a mountain
bear|grr|4|-|in a cave
kangaroo|-|2|joey|in Australia
swan|-|2|cygnet|on a lake
goose|honk|2|gosling|-
deer|-|4|fawn|in the woods
rabbit|-|4|bunny|in a burrow
fox|yip|4|cub|in a den
spider|-|8|-|in a web
ant|-|6|-|in an ant hill
fish|-|0|-|in the water
whale|-|0|-|in the sea
shark|-|0|-|in the ocean
penguin|-|2|-|on the ice
camel|-|4|-|in the desert
monkey|ooh ooh|2|-|in the jungle
butterfly|-|6|caterpillar|-
worm|-|0|-|in the soil
elephant|toot|4|calf|in Africa
tiger|roar|4|cub|in India
chicken|cluck|2|chick|in a coop
rooster|cock-a-doodle-doo|2|chick|on a farm
bird|tweet|2|chick|in a nest
parrot|hello|2|-|in the jungle
pigeon|coo|2|-|in the city
eagle|-|2|eaglet|in the mountains
ostrich|-|2|-|in Africa
zebra|-|4|foal|on the savanna
giraffe|-|4|calf|in Africa
panda|-|4|cub|in China
squirrel|-|4|-|in a tree
hamster|-|4|-|in a cage
crocodile|-|4|-|in the river
turtle|-|4|-|in the water
lizard|-|4|-|among the stones
dolphin|click|0|calf|in the sea
seal|-|0|pup|on the ice
snail|-|0|-|in the garden
beetle|-|6|-|in the forest
fly|buzz|6|maggot|-
ladybird|-|6|-|in the garden
grasshopper|chirp|6|-|in the grass
crab|-|10|-|on the beach
bat|-|2|-|in a cave
`

// abilities: animal, then what it can do, then what it cannot.
const abilities = `
bird|fly,sing,hop|read,drive a car
dog|run,bark,swim|fly,read
cat|climb,jump,run|fly,talk
fish|swim|walk,fly,talk
horse|run,jump,pull a cart|fly,climb a tree
frog|jump,swim|fly,sing a song
snake|crawl,bite|walk,fly
penguin|swim,walk|fly,bark
monkey|climb,jump,swing|fly,quack
bee|fly,sting|swim,bark
duck|swim,fly,walk|bark,read
elephant|walk,drink with its trunk|fly,climb a tree
rabbit|hop,dig,run|fly,sing
whale|swim,dive|walk,fly
`

// kindsOf: thing, what it is, with its article; a thing with '=' takes no article.
const kindsOf = `
apple|a fruit
banana|a fruit
pear|a fruit
orange|a fruit
cherry|a fruit
lemon|a fruit
plum|a fruit
strawberry|a fruit
carrot|a vegetable
potato|a vegetable
onion|a vegetable
cabbage|a vegetable
pea|a vegetable
cucumber|a vegetable
rose|a flower
tulip|a flower
daisy|a flower
sunflower|a flower
oak|a tree
pine|a tree
birch|a tree
dog|an animal
cat|an animal
horse|an animal
cow|an animal
lion|an animal
elephant|an animal
rabbit|an animal
eagle|a bird
owl|a bird
crow|a bird
duck|a bird
penguin|a bird
robin|a bird
trout|a fish
salmon|a fish
shark|a fish
bee|an insect
ant|an insect
butterfly|an insect
fly|an insect
hammer|a tool
saw|a tool
spade|a tool
chair|a piece of furniture
table|a piece of furniture
bed|a piece of furniture
car|a vehicle
bus|a vehicle
train|a vehicle
bicycle|a vehicle
shirt|a piece of clothing
hat|a piece of clothing
coat|a piece of clothing
violin|a musical instrument
piano|a musical instrument
drum|a musical instrument
flute|a musical instrument
doctor|a person
teacher|a person
baker|a person
farmer|a person
whale|an animal
dolphin|an animal
bat|an animal
sheep|an animal
pig|an animal
mouse|an animal
wolf|an animal
fox|an animal
bear|an animal
tiger|an animal
monkey|an animal
snake|an animal
frog|an animal
turtle|an animal
goat|an animal
zebra|an animal
giraffe|an animal
hen|a bird
swan|a bird
goose|a bird
parrot|a bird
pigeon|a bird
spider|an animal
beetle|an insect
grape|a fruit
peach|a fruit
tomato|a vegetable
bean|a vegetable
ship|a vehicle
plane|a vehicle
truck|a vehicle
sofa|a piece of furniture
dress|a piece of clothing
shoe|a piece of clothing
guitar|a musical instrument
trumpet|a musical instrument
=water|a drink
=milk|a drink
=tea|a drink
=juice|a drink
=bread|a food
=cheese|a food
=soup|a food
=cake|a food
=gold|a metal
=silver|a metal
=iron|a metal
=copper|a metal
=football|a game
=chess|a game
=Monday|a day
=Tuesday|a day
=Wednesday|a day
=Thursday|a day
=Friday|a day
=Saturday|a day
=Sunday|a day
=January|a month
=April|a month
=July|a month
=October|a month
=winter|a season
=spring|a season
=summer|a season
=autumn|a season
=Europe|a continent
=Africa|a continent
=Asia|a continent
`

// bySize and bySpeed are rankings, least first; any two of a ranking can be compared.
const (
	bySize  = `an ant,a mouse,a rabbit,a cat,a sheep,a cow,a horse,an elephant,a whale,a mountain,the moon,the Earth,the sun`
	bySpeed = `a snail,a turtle,a duck,a dog,a horse,a car,a train,a plane,a rocket`
)

// shapes: name, sides (0: none).
const shapes = `
triangle|3
square|4
rectangle|4
pentagon|5
hexagon|6
heptagon|7
octagon|8
nonagon|9
decagon|10
circle|0
`

var (
	dayNames   = strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
	monthNames = strings.Fields("January February March April May June July August September October November December")
	monthDays  = []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	seasons    = strings.Fields("winter spring summer autumn")
	ordinals   = strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
	small      = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
	tens       = strings.Fields("ten twenty thirty forty fifty sixty seventy eighty ninety")
)

// numberWord writes n, 0 to 100, in words: "forty-two".
func numberWord(n int) string {
	switch {
	case n < len(small):
		return small[n]
	case n == 100:
		return "one hundred"
	case n%10 == 0:
		return tens[n/10-1]
	}
	return tens[n/10-1] + "-" + small[n%10]
}

// rows splits a table into its rows and columns.
func rows(table string) [][]string {
	var out [][]string
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, strings.Split(line, "|"))
		}
	}
	return out
}

// a puts the indefinite article before a noun.
func a(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// capital upper-cases the first letter.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// plural is the plural of a noun of this world.
func plural(noun string) string {
	if p, ok := map[string]string{"mouse": "mice", "wolf": "wolves", "goose": "geese", "sheep": "sheep", "deer": "deer", "fish": "fish",
		"calf": "calves", "person": "people", "man": "men", "woman": "women", "child": "children"}[noun]; ok {
		return p
	}
	switch {
	case strings.HasSuffix(noun, "y") && !strings.ContainsAny(noun[len(noun)-2:len(noun)-1], "aeo"):
		return noun[:len(noun)-1] + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"):
		return noun + "es"
	}
	return noun + "s"
}

// list joins words as "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func itoa(n int) string { return fmt.Sprint(n) }
