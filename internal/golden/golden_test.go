package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder takes down what would fail a test.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper()                        {}
func (r *recorder) Errorf(text string, a ...any) { r.said += fmt.Sprintf(text, a...) }
func (r *recorder) Fatalf(text string, a ...any) { r.said += fmt.Sprintf(text, a...); panic(r) }

func compare(t *testing.T, file, got string) (said string) {
	r := &recorder{TB: t}
	defer func() {
		if stopped := recover(); stopped != nil && stopped != any(r) {
			panic(stopped)
		}
		said = r.said
	}()
	Compare(r, file, got)
	return ""
}

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	if said := compare(t, file, "one"); !strings.Contains(said, "-update") {
		t.Errorf("without a file: %q", said)
	}
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := compare(t, file, "one"); said != "" {
		t.Errorf("the same: %q", said)
	}
	if said := compare(t, file, "two"); !strings.Contains(said, "one") || !strings.Contains(said, "two") {
		t.Errorf("another: %q", said)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "one" {
		t.Errorf("the file is %q, %v", kept, err)
	}
	*update = true
	defer func() { *update = false }()
	if said := compare(t, file, "two"); said != "" {
		t.Errorf("updated: %q", said)
	}
}
