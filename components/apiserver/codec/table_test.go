package codec

import (
	"encoding/json"
	"testing"
)

// TestCells writes every kind of cell as json.Marshal does.
func TestCells(t *testing.T) {
	cells := []any{nil, true, 3, int32(-4), int64(5), 1.5, "", "<none>", "a & b > c", `say "hi"`, `back\slash`, "tab\t",
		"\x7f", "ü", "\u2028", string([]byte{0xff})}
	for c := range 256 {
		cells = append(cells, "x"+string(rune(c))+"y")
	}
	for _, cell := range cells {
		want, err := json.Marshal(cell)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := appendCell([]byte("kept"), cell); err != nil || string(got) != "kept"+string(want) {
			t.Errorf("%q: %s, want %s: %v", cell, got, want, err)
		}
	}
}
