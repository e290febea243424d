package codec

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// TestLineAges: one line tells the age of each time at which it is read, whatever bytes the time is written in, and
// until when.
func TestLineAges(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for _, since := range []time.Time{
		now.Add(-time.Minute), now, now.Add(time.Hour), now.Add(-256 * time.Second), {}, time.Unix(0, 0),
		time.Unix(0x0100000000, 0x22),
		time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		cells := []any{show.Ago{Since: since}, show.Ago{Before: `5 "<(`, Since: since, After: "ä ago)"}, "last"}
		line, err := NewTableRow(cells, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, later := range []time.Duration{0, time.Second, 24 * time.Hour} {
			l := rowWriter{now: now.Add(later)}
			got := l.append(nil, Row{Cells: line})
			said, err := json.Marshal(show.At(cells, l.now))
			if err != nil {
				t.Fatal(err)
			}
			if want := append(append([]byte(`{"cells":`), said...), `,"object":null}`...); !bytes.Equal(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
			if _, until := cells[0].(show.Ago).At(l.now); !l.until.Equal(until) {
				t.Errorf("since %v: until %v, want %v", since, l.until, until)
			}
		}
	}
}

// TestLinesUntil: what is written becomes something else when the first of its ages does, also if that is of another
// row.
func TestLinesUntil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := rowWriter{now: now}
	for _, age := range []time.Duration{time.Hour, time.Minute, time.Minute, 48 * time.Hour} {
		line, err := NewTableRow([]any{show.Ago{Since: now.Add(-age)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.append(nil, Row{Cells: line})
	}
	if want := now.Add(time.Second); !l.until.Equal(want) {
		t.Errorf("until %v, want %v", l.until, want)
	}
}
