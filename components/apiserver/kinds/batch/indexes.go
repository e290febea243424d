package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// span is a range of indexes, both ends included.
type span struct{ first, last int }

// parseIndexes reads a list like "0,3-5,7" of rising indexes below completions (nil: without bound). Where it fails it
// returns nothing.
func parseIndexes(text string, completions *int32) ([]span, error) {
	if text == "" {
		return nil, nil
	}
	var out []span
	below := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf("cannot convert string to integer for index: %q", s)
		case completions != nil && n >= int(*completions):
			return 0, fmt.Errorf("too large index: %q", s)
		}
		return n, nil
	}
	previous := -1
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if strings.Contains(to, "-") {
			return nil, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", part)
		}
		first, err := below(from)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = below(to); err != nil {
				return nil, err
			}
			if last <= first {
				return nil, notRising(first, last)
			}
		}
		if first <= previous {
			return nil, notRising(previous, first)
		}
		previous = last
		out = append(out, span{first, last})
	}
	return out, nil
}

func notRising(previous, current int) error {
	return fmt.Errorf("non-increasing order, previous: %d, current: %d", previous, current)
}

// overlap returns the first index that is in both lists.
func overlap(a, b []span) (int, bool) {
	for len(a) > 0 && len(b) > 0 {
		if low := max(a[0].first, b[0].first); low <= min(a[0].last, b[0].last) {
			return low, true
		}
		if a[0].last < b[0].last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}
