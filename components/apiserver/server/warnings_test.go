package server

import (
	"net/http"
	"strings"
	"testing"
)

// TestWarningsAreShortened: once they are too long together, each is cut, those that are there already as well, and
// when they are too long even so no more come. Characters count, not bytes.
func TestWarningsAreShortened(t *testing.T) {
	w := warnings{header: http.Header{}}
	lengths := func() (out []int) {
		for _, value := range w.header.Values("Warning") {
			out = append(out, strings.Count(value, "é"))
		}
		return out
	}
	long := func(of string, n int) string { return of + strings.Repeat("é", n) }
	w.AddWarning("", long("a", 3000))
	w.AddWarning("", long("a", 3000))
	w.AddWarning("", "")
	w.AddWarning("", long("b", 1000))
	if got := lengths(); len(got) != 2 || got[0] != 3000 || got[1] != 1000 {
		t.Errorf("as long as there is room: %v", got)
	}
	for i := range 30 {
		w.AddWarning("", long(string(rune('c'+i)), 300))
	}
	got := lengths()
	for _, n := range got {
		if n != maxWarningTrimmed-1 {
			t.Errorf("%d characters", n+1)
		}
	}
	if len(got) != maxWarnings/maxWarningTrimmed {
		t.Errorf("%d warnings", len(got))
	}
}
