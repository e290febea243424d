package job

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deletions are when pods ended that counted as failed because they were deleted. Such a pod may be gone at once, while
// its replacement has to wait.
type deletions map[types.UID]time.Time

// allDeletions are those of before, and those of this decision.
func (s *step) allDeletions() deletions {
	all := deletions{}
	maps.Copy(all, s.deletions)
	maps.Copy(all, s.plan.deletions)
	return all
}
