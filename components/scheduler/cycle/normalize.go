package cycle

import "slices"

// Normalize brings counts to 0..MaxScore by the largest of them; reverse makes the largest the worst.
func Normalize(scores []int64, reverse bool) {
	if len(scores) == 0 {
		return
	}
	largest := slices.Max(scores)
	for i, score := range scores {
		if largest != 0 {
			score = score * MaxScore / largest
		}
		if reverse {
			score = MaxScore - score
		}
		scores[i] = score
	}
}
