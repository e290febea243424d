package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// indexes is a set of completion indexes: runs of neighbours, sorted, with a gap between each two. What it costs
// depends on the runs, not on how long they are: the indexes of 100,000 completions are mostly one.
type indexes []run

// run is the indexes from first to last.
type run struct{ first, last int }

// at is the place of the first run that ends with i or later.
func (s indexes) at(i int) int {
	at, _ := slices.BinarySearchFunc(s, i, func(r run, i int) int { return cmp.Compare(r.last, i) })
	return at
}

func (s indexes) has(i int) bool {
	at := s.at(i)
	return at < len(s) && s[at].first <= i
}

// count is how many indexes there are.
func (s indexes) count() int {
	n := 0
	for _, r := range s {
		n += r.last - r.first + 1
	}
	return n
}

// with adds an index. s is not to be used any more.
func (s indexes) with(i int) indexes {
	if s.has(i) {
		return s
	}
	at := s.at(i)
	follows := at > 0 && s[at-1].last == i-1
	precedes := at < len(s) && s[at].first == i+1
	switch {
	case follows && precedes:
		s[at-1].last = s[at].last
		return slices.Delete(s, at, at+1)
	case follows:
		s[at-1].last = i
	case precedes:
		s[at].first = i
	default:
		return slices.Insert(s, at, run{i, i})
	}
	return s
}

// common are the indexes that are in both sets.
func (s indexes) common(other indexes) indexes {
	var both indexes
	for len(s) > 0 && len(other) > 0 {
		r := run{max(s[0].first, other[0].first), min(s[0].last, other[0].last)}
		if r.first <= r.last {
			both = append(both, r)
		}
		if s[0].last < other[0].last {
			s = s[1:]
		} else {
			other = other[1:]
		}
	}
	return both
}

// free returns the first index from i on that is in none of the sets.
func free(i int, sets ...indexes) int {
	for moved := true; moved; {
		moved = false
		for _, s := range sets {
			if at := s.at(i); at < len(s) && s[at].first <= i {
				i, moved = s[at].last+1, true
			}
		}
	}
	return i
}

// collect makes a set of runs in any order, which may overlap.
func collect(runs []run) indexes {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	var s indexes
	for _, r := range runs {
		if n := len(s); n > 0 && r.first <= s[n-1].last+1 {
			s[n-1].last = max(s[n-1].last, r.last)
		} else {
			s = append(s, r)
		}
	}
	return s
}

// parseIndexes reads what String writes, and drops what lies outside of 0..completions-1: the number of completions
// may have been lowered since.
func parseIndexes(text string, completions int) indexes {
	var runs []run
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil {
				continue
			}
		}
		if r := (run{max(first, 0), min(last, completions-1)}); r.first <= r.last {
			runs = append(runs, r)
		}
	}
	return collect(runs)
}

// String writes runs of three and more as first-last, as status.completedIndexes has them.
func (s indexes) String() string {
	var parts []string
	for _, r := range s {
		switch r.last - r.first {
		case 0:
			parts = append(parts, strconv.Itoa(r.first))
		case 1:
			parts = append(parts, strconv.Itoa(r.first), strconv.Itoa(r.last))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", r.first, r.last))
		}
	}
	return strings.Join(parts, ",")
}

func isIndexed(job *batch.Job) bool {
	return ptr.Deref(job.Spec.CompletionMode, batch.NonIndexedCompletion) == batch.IndexedCompletion
}

// indexOf is the completion index of a pod; -1 if it has none that the job knows.
func indexOf(pod *v1.Pod, job *batch.Job) int {
	i, err := strconv.Atoi(pod.Annotations[batch.JobCompletionIndexAnnotation])
	if err != nil || i < 0 || i >= int(ptr.Deref(job.Spec.Completions, 0)) {
		return -1
	}
	return i
}
