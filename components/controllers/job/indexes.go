package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// indexes is a set of completion indexes, sorted.
type indexes []int

func (s indexes) has(i int) bool {
	_, found := slices.BinarySearch(s, i)
	return found
}

func (s indexes) with(i int) indexes {
	at, found := slices.BinarySearch(s, i)
	if found {
		return s
	}
	return slices.Insert(slices.Clone(s), at, i)
}

// parseIndexes reads what String writes, and drops what lies outside of 0..completions-1: the number of completions
// may have been lowered since.
func parseIndexes(text string, completions int) indexes {
	var s indexes
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
		for i := first; i <= last && i < completions; i++ {
			s = s.with(i)
		}
	}
	return s
}

// String writes runs of three and more as first-last, as status.completedIndexes has them.
func (s indexes) String() string {
	var parts []string
	for at := 0; at < len(s); {
		end := at
		for end+1 < len(s) && s[end+1] == s[end]+1 {
			end++
		}
		switch end - at {
		case 0:
			parts = append(parts, strconv.Itoa(s[at]))
		case 1:
			parts = append(parts, strconv.Itoa(s[at]), strconv.Itoa(s[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", s[at], s[end]))
		}
		at = end + 1
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
