package batch

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// TestLongIndexes: how long a list is, is told beside what is wrong with it.
func TestLongIndexes(t *testing.T) {
	spec := &batchv1.JobSpec{Completions: ptr.To[int32](2)}
	for _, c := range []struct{ text, want string }{
		{strings.Repeat("0", maxSucceededIndexes), "[]"},
		{strings.Repeat("0", maxSucceededIndexes+1), "[Too long]"},
		{strings.Repeat("0", maxSucceededIndexes) + "x", "[Too long Invalid value]"},
	} {
		got := []string{}
		for _, err := range validateSuccessRule(&batchv1.SuccessPolicyRule{SucceededIndexes: &c.text}, spec,
			field.NewPath("rule")) {
			got = append(got, err.Type.String())
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%d bytes: %v, want %s", len(c.text), got, c.want)
		}
	}
}
