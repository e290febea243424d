package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is how many columns a line has at most, where a tab is one.
const widest = 120

// TestColumns: lines end in time, unless they carry a text (comments aside) or an address that can't be broken.
func TestColumns(t *testing.T) {
	for _, f := range files(t) {
		if f.generated {
			continue
		}
		content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.path)))
		if err != nil {
			t.Fatal(err)
		}
		raw := false // within a text of several lines
		for i, line := range strings.Split(string(content), "\n") {
			began := raw
			if strings.Count(line, "`")%2 == 1 {
				raw = !raw
			}
			comment := strings.HasPrefix(strings.TrimSpace(line), "//")
			if utf8.RuneCountInString(line) > widest && !began && !raw && (comment || !strings.ContainsAny(line, "\"`")) &&
				!strings.Contains(line, "://") {
				t.Errorf("%s:%d has more than %d columns", f.path, i+1, widest)
			}
		}
	}
}
