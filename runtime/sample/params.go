package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Stage names, as llama.cpp's --samplers spells them.
const (
	Penalties   = "penalties"
	Dry         = "dry"
	TopNSigma   = "top_n_sigma"
	TopK        = "top_k"
	TypicalP    = "typ_p"
	TopP        = "top_p"
	MinP        = "min_p"
	XTC         = "xtc"
	Temperature = "temperature"
)

// defaultOrder is llama.cpp's default chain.
var defaultOrder = []string{Penalties, Dry, TopNSigma, TopK, TypicalP, TopP, MinP, XTC, Temperature}

// aliases are the other spellings that llama.cpp takes in --samplers.
var aliases = map[string]string{
	"top-n-sigma": TopNSigma,
	"top-k":       TopK,
	"typical":     TypicalP,
	"typical-p":   TypicalP,
	"typical_p":   TypicalP,
	"typ-p":       TypicalP,
	"typ":         TypicalP,
	"top-p":       TopP,
	"nucleus":     TopP,
	"min-p":       MinP,
	"temp":        Temperature,
}

// Bias adds Value to the logit of token ID before anything else; negative infinity forbids the token.
type Bias struct {
	ID    int32
	Value float64
}

// Params are the settings of a [Sampler]; [Defaults] are llama.cpp's.
type Params struct {
	Seed int64 // --seed: -1 takes a random one, which [Sampler.Seed] reports

	RepeatLastN      int     // --repeat-last-n: accepted tokens that count for penalties; 0 none, -1 all
	RepeatPenalty    float64 // --repeat-penalty: 1 is off
	FrequencyPenalty float64 // --frequency-penalty: per sighting; 0 is off
	PresencePenalty  float64 // --presence-penalty: once per seen id; 0 is off

	TopNSigma      float64 // --top-nsigma: -1 or 0 is off
	TopK           int     // --top-k: 0 and -1 keep all
	Typical        float64 // --typical: 1 is off
	TopP           float64 // --top-p: 1 is off
	MinP           float64 // --min-p: 0 is off
	XTCProbability float64 // --xtc-probability: 0 is off
	XTCThreshold   float64 // --xtc-threshold: above 0.5 is off
	Temp           float64 // --temp: 0 is greedy

	// Samplers is the order of the stages, see [ParseSamplers]; nil is llama.cpp's default order. A stage that is
	// not named does not run.
	Samplers []string

	LogitBias []Bias // --logit-bias: several for one id add up
	// Forbidden ids are never drawn: the model's end tokens under --ignore-eos.
	Forbidden []int32
}

// Defaults returns llama.cpp's default settings.
func Defaults() Params {
	return Params{
		Seed:          -1,
		RepeatLastN:   64,
		RepeatPenalty: 1,
		TopNSigma:     -1,
		TopK:          40,
		Typical:       1,
		TopP:          0.95,
		MinP:          0.05,
		XTCThreshold:  0.1,
		Temp:          0.8,
	}
}

// ParseSamplers reads an order such as "top_k;top_p;temperature", llama.cpp's spelling of --samplers. An empty text
// is an empty chain: bias and one draw. An unknown name, or one that comes twice, is an error that lists the names.
func ParseSamplers(text string) ([]string, error) {
	order := []string{}
	if strings.TrimSpace(text) == "" {
		return order, nil
	}
	for name := range strings.SplitSeq(text, ";") {
		name = strings.TrimSpace(name)
		if full, ok := aliases[name]; ok {
			name = full
		}
		order = append(order, name)
	}
	if err := checkOrder(order); err != nil {
		return nil, err
	}
	return order, nil
}

func checkOrder(order []string) error {
	for i, name := range order {
		if !slices.Contains(defaultOrder, name) {
			return &ParamError{Flag: "--samplers", Value: strconv.Quote(name), Allowed: "names from " + strings.Join(defaultOrder, ";")}
		}
		if slices.Contains(order[:i], name) {
			return &ParamError{Flag: "--samplers", Value: strconv.Quote(name), Allowed: "each name once"}
		}
	}
	return nil
}

// ParamError says which setting is out of its range.
type ParamError struct {
	Flag, Value, Allowed string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s %s is not allowed: %s", e.Flag, e.Value, e.Allowed)
}

// Validate reports every setting outside its range, each as a [*ParamError] that names flag, value and range.
func (p Params) Validate() error {
	var errs []error
	check := func(ok bool, flag string, value any, allowed string) {
		if !ok {
			errs = append(errs, &ParamError{Flag: flag, Value: fmt.Sprint(value), Allowed: allowed})
		}
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	unit := func(x float64) bool { return x >= 0 && x <= 1 } // false for NaN

	const count = "0 or more; -1 for all"
	const fraction = "0 to 1"
	const number = "a finite number"
	check(p.Seed >= -1, "--seed", p.Seed, "0 or more; -1 for a random one")
	check(p.RepeatLastN >= -1, "--repeat-last-n", p.RepeatLastN, count)
	check(finite(p.RepeatPenalty) && p.RepeatPenalty > 0, "--repeat-penalty", p.RepeatPenalty, "a finite number above 0; 1 is off")
	check(finite(p.FrequencyPenalty), "--frequency-penalty", p.FrequencyPenalty, number)
	check(finite(p.PresencePenalty), "--presence-penalty", p.PresencePenalty, number)
	check(p.TopNSigma == -1 || finite(p.TopNSigma) && p.TopNSigma >= 0, "--top-nsigma", p.TopNSigma, "a finite number from 0; -1 is off")
	check(p.TopK >= -1, "--top-k", p.TopK, count)
	check(unit(p.Typical), "--typical", p.Typical, fraction)
	check(unit(p.TopP), "--top-p", p.TopP, fraction)
	check(unit(p.MinP), "--min-p", p.MinP, fraction)
	check(unit(p.XTCProbability), "--xtc-probability", p.XTCProbability, fraction)
	check(unit(p.XTCThreshold), "--xtc-threshold", p.XTCThreshold, fraction)
	check(finite(p.Temp) && p.Temp >= 0, "--temp", p.Temp, "a finite number from 0; 0 is greedy")
	for _, b := range p.LogitBias {
		check(b.ID >= 0, "--logit-bias", b.ID, "a token id from 0")
		check(!math.IsNaN(b.Value) && !math.IsInf(b.Value, 1), "--logit-bias", fmt.Sprintf("%d%+g", b.ID, b.Value), "a finite number or -inf")
	}
	if err := checkOrder(p.Samplers); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
