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
	previous := -1
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(part, completions)
		if err != nil {
			return nil, err
		}
		if s.first <= previous {
			return nil, notRising(previous, s.first)
		}
		previous = s.last
		out = append(out, s)
	}
	return out, nil
}

// readable are the parts of such a list that can be read, in whatever order.
func readable(text string, completions *int32) []span {
	var out []span
	for part := range strings.SplitSeq(text, ",") {
		if s, err := parseSpan(part, completions); err == nil {
			out = append(out, s)
		}
	}
	return out
}

func parseSpan(text string, completions *int32) (span, error) {
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
	from, to, isRange := strings.Cut(text, "-")
	if strings.Contains(to, "-") {
		return span{}, fmt.Errorf(
			"the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	first, err := below(from)
	if err != nil || !isRange {
		return span{first, first}, err
	}
	last, err := below(to)
	if err == nil && last <= first {
		err = notRising(first, last)
	}
	return span{first, last}, err
}

func notRising(previous, current int) error {
	return fmt.Errorf("non-increasing order, previous: %d, current: %d", previous, current)
}

// overlap returns the first index that is in both lists. Of lists that don't rise it finds what upstream's finds.
func overlap(a, b []span) (int, bool) {
	for len(a) > 0 && len(b) > 0 {
		if low := max(a[0].first, b[0].first); low <= min(a[0].last, b[0].last) {
			return low, true
		}
		if a[0].first <= b[0].first {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}
