package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseList reads numbers as llama-bench takes them: "512,1024", and ranges "first-last", "first-last+step" and
// "first-last*factor". Each is from 0 to limit, and no number comes twice.
func ParseList(s string, limit int) ([]int, error) {
	var list []int
	seen := map[int]bool{}
	for part := range strings.SplitSeq(s, ",") {
		numbers, err := parseRange(part, limit)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			if seen[n] {
				return nil, fmt.Errorf("%d comes twice in %q", n, s)
			}
			seen[n] = true
			list = append(list, n)
		}
	}
	return list, nil
}

// maxNumbers bounds a list: each number is a measurement.
const maxNumbers = 1000

func parseRange(s string, limit int) ([]int, error) {
	bad := fmt.Errorf("%q is neither a number from 0 to %d nor a range of them: 512, 128-512, 128-512+128, 128-512*2", s, limit)
	number := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= 0 && n <= limit && s[0] != '+'
	}
	from, rest, isRange := strings.Cut(s, "-")
	first, ok := number(from)
	if !ok {
		return nil, bad
	}
	if !isRange {
		return []int{first}, nil
	}
	next := func(n int) int { return n + 1 }
	until := rest
	if i := strings.IndexAny(rest, "+*"); i >= 0 {
		by, ok := number(rest[i+1:])
		switch {
		case !ok || by < 1 || rest[i] == '*' && (by < 2 || first == 0):
			return nil, bad
		case rest[i] == '+':
			next = func(n int) int { return n + by }
		default:
			next = func(n int) int { return n * by }
		}
		until = rest[:i]
	}
	last, ok := number(until)
	if !ok || last < first {
		return nil, bad
	}
	var list []int
	for n := first; n <= last; n = next(n) {
		if len(list) == maxNumbers {
			return nil, fmt.Errorf("%q is more than %d numbers", s, maxNumbers)
		}
		list = append(list, n)
	}
	return list, nil
}
